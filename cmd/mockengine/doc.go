// Command mockengine serves fake inference engines: see the package engine for what they do.
//
//	mockengine --engine vllm --model tiny --port 9001 --count 3 --ttft 80ms --itl 10ms
//
// The flags from --prefill-tps on make a model of an engine out of it, with a queue, a batch and a prefix cache:
//
//	mockengine --count 8 --prefill-tps 16000 --itl 20ms --kv-tokens 400000 --max-running 128
//
// It prints the URL of each engine on a line of its own when all are ready. Usage errors end it with 2, a port that is taken with 1.
package main
