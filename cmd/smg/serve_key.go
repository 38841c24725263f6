package main

import "strings"

// shareKey makes the key that engines are told to ask for the gateway's, if it has none: callers send it to the gateway, and the
// gateway to the engines. engineArgs are the words for the engines. An empty key is none.
func (f *engineFlags) shareKey(engineArgs []string) {
	if f.Gateway.APIKey != nil {
		return
	}
	for i, arg := range engineArgs {
		value, joined := strings.CutPrefix(arg, "--api-key=")
		if arg == "--api-key" && i+1 < len(engineArgs) {
			value, joined = engineArgs[i+1], true
		}
		if joined && value != "" && isWord(value) {
			f.Gateway.APIKey = &value
			return
		}
	}
}
