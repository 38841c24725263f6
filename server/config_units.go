package server

import "time"

// maxSeconds is the longest time that a flag in seconds takes: 136 years, which still fits a [time.Duration].
const maxSeconds = 1<<32 - 1

// Seconds is a flag's value in whole seconds.
type Seconds int64

// Duration returns s as a [time.Duration].
func (s Seconds) Duration() time.Duration { return time.Duration(s) * time.Second }

// Milliseconds is a flag's value in whole milliseconds.
type Milliseconds int64

// Duration returns ms as a [time.Duration].
func (ms Milliseconds) Duration() time.Duration { return time.Duration(ms) * time.Millisecond }
