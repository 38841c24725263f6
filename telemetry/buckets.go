package telemetry

// Bounds of histograms, in seconds where nothing else is said.
var (
	// defaultDurations serves requests that take a millisecond and those that take two hours. A setting can replace it.
	defaultDurations = []float64{
		0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 15, 30, 45, 60, 90, 120, 180, 240, 300, 480, 900,
		1200, 1800, 2700, 3600, 5400, 7200,
	}
	lagBuckets     = []float64{0, 0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1}
	backoffBuckets = []float64{0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60}
	attemptBuckets = []float64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10} // attempts
	itlBuckets     = []float64{0.001, 0.0025, 0.005, 0.01, 0.015, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.25, 0.5, 1, 2.5, 10}
	stageBuckets   = []float64{
		10e-6, 25e-6, 50e-6, 100e-6, 250e-6, 500e-6, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1,
	}
)
