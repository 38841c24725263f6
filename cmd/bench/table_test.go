package main

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// testReport has two rounds of a load through four peers, one of which failed requests; a fifth is not installed.
func testReport() *report {
	r := newReport("overhead", "request", settings{Duration: time.Second, Rounds: 2})
	r.When, r.System, r.CPUs = time.Time{}, "test/cpu", 2
	l := loadName{KiB: 1, Connections: 32}
	one := loadName{KiB: 1, Connections: 1}
	add := func(peer string, rate, p50, cpu float64, failed int) {
		for _, times := range []float64{1, 1.2} {
			s := sample{figures: map[string]float64{"per_second": rate * times, "p50_ms": p50, "p99_ms": 2 * p50}, failed: failed}
			if cpu > 0 {
				s.figures["cpu_us"], s.figures["rss_mib"], s.figures["peak_mib"] = cpu, 20, 22.25
			}
			if failed > 0 {
				s.failure = errors.New("status 503")
			}
			r.add(peer, l, s)
			r.add(peer, one, sample{figures: map[string]float64{"p50_ms": p50 / 10}})
		}
		r.idle[peer] = []float64{12, 14}
	}
	add(directName, 50000, 0.5, 0, 0)
	delete(r.idle, directName)
	add(nginxName, 25000, 1, 20, 0)
	add(smgName, 20000, 1.25, 30, 0)
	add(deployedName, 5000, 5, 120, 0)
	add("traefik", 9000, 3, 70, 1)
	var targets []*target
	for _, name := range []string{directName, nginxName, smgName, deployedName, "traefik"} {
		targets = append(targets, &target{info: peerInfo{Name: name, Installed: true, Version: "1.2.3"}})
	}
	r.finish(append(targets, &target{info: peerInfo{Name: "caddy"}}))
	return r
}

func TestTablesShowFiguresRatiosAndReach(t *testing.T) {
	var text strings.Builder
	require.NoError(t, testReport().print(&text))
	const want = `
bench overhead: test/cpu, 2 CPUs, 2 rounds of 1s a row
  peer        version  idle RSS MiB  added p50 ms
  direct        1.2.3             -             -
  nginx         1.2.3          13.0         0.050
  smg           1.2.3          13.0         0.075
  smg-1.13.0    1.2.3          13.0         0.450
  traefik       1.2.3          13.0         0.250
  caddy             -             -             -  not installed

1 KiB, 32 connections
  peer        requests/s                p50 ms                p99 ms                  CPU µs/request                RSS MiB              peak MiB                                      failed
  direct           55000  50000..60000   0.500  0.500..0.500   1.000    1.000..1.000               -                      -                     -                                           0
  nginx            27500  25000..30000   1.000  1.000..1.000   2.000    2.000..2.000            20.0    20.0..20.0     20.0  20.0..20.0      22.2  22.2..22.2                               0
  smg              22000  20000..24000   1.250  1.250..1.250   2.500    2.500..2.500            30.0    30.0..30.0     20.0  20.0..20.0      22.2  22.2..22.2                               0
  smg-1.13.0        5500    5000..6000   5.000  5.000..5.000  10.000  10.000..10.000           120.0  120.0..120.0     20.0  20.0..20.0      22.2  22.2..22.2                               0
  traefik           9900   9000..10800   3.000  3.000..3.000   6.000    6.000..6.000            70.0    70.0..70.0     20.0  20.0..20.0      22.2  22.2..22.2  2: does not count (status 503)

1 KiB, 32 connections: times nginx | times smg-1.13.0
  peer          requests/s       p50 ms       p99 ms  CPU µs/request      RSS MiB     peak MiB
  direct      2.00 | 10.00  0.50 | 0.10  0.50 | 0.10           - | -        - | -        - | -
  nginx        1.00 | 5.00  1.00 | 0.20  1.00 | 0.20     1.00 | 0.17  1.00 | 1.00  1.00 | 1.00
  smg          0.80 | 4.00  1.25 | 0.25  1.25 | 0.25     1.50 | 0.25  1.00 | 1.00  1.00 | 1.00
  smg-1.13.0   0.20 | 1.00  5.00 | 1.00  5.00 | 1.00     6.00 | 1.00  1.00 | 1.00  1.00 | 1.00
`
	require.Contains(t, text.String(), want[1:])
	require.Contains(t, text.String(), `
reach of smg
  check                                                              value      goal
  requests/s (1 KiB, 32 connections) relative to nginx               0.800   >= 0.50     pass
  requests/s (1 KiB, 32 connections) relative to smg-1.13.0          4.000   >= 2.50     pass
  CPU per request (1 KiB, 32 connections) relative to smg-1.13.0     0.250   <= 0.35     pass
  CPU per request (32 KiB, 32 connections) relative to smg-1.13.0        -   <= 0.25  no data
  CPU per request (256 KiB, 32 connections) relative to smg-1.13.0       -   <= 0.25  no data
  added p50 at one connection, ms                                    0.075   <= 0.10     pass
  idle RSS, MiB                                                     13.000  <= 45.00     pass
`)
}

func TestJSONHoldsWhatTheTablesShow(t *testing.T) {
	text, err := json.Marshal(testReport())
	require.NoError(t, err)
	var got report
	require.NoError(t, json.Unmarshal(text, &got))
	want := testReport()
	require.Equal(t, want.Peers, got.Peers)
	require.Equal(t, want.Results, got.Results)
	require.Equal(t, want.Reach, got.Reach)
}

func TestRowWithAFailureDoesNotCount(t *testing.T) {
	r := testReport()
	_, found := r.figure("traefik", loadName{KiB: 1, Connections: 32}, "per_second")
	require.False(t, found)
	_, found = r.figure(nginxName, loadName{KiB: 1, Connections: 32}, "per_second")
	require.True(t, found)
	require.NoError(t, r.err(), "a peer's failure is not an error of the run")
	for i := range r.Results {
		if r.Results[i].Peer == smgName {
			r.Results[i].Failed = 1
		}
	}
	require.Error(t, r.err(), "one of smg is")
}

func TestGoalsAreMetAtTheirLimit(t *testing.T) {
	at, above := 2.0, 2.1
	tests := []struct {
		name    string
		value   *float64
		atLeast bool
		want    string
	}{
		{"no figure is no verdict", nil, true, "no data"},
		{"at least: the limit passes", &at, true, "pass"},
		{"at least: more passes", &above, true, "pass"},
		{"at most: the limit passes", &at, false, "pass"},
		{"at most: more fails", &above, false, "fail"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { require.Equal(t, tt.want, newVerdict("x", tt.value, 2, tt.atLeast).Result) })
	}
}
