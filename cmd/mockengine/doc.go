// Command mockengine serves fake inference engines: see the package engine for what they do.
//
//	mockengine --engine vllm --model tiny --port 9001 --count 3 --ttft 80ms --itl 10ms
//
// It prints the URL of each engine on a line of its own when all are ready. Usage errors end it with 2, a port that is taken with 1.
package main
