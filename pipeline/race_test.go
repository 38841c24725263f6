//go:build race

package pipeline_test

const raceDetector = true // it makes pools forget on purpose, so allocations are not counted
