// Package engine is a fake inference engine: it answers as SGLang or vLLM do, makes no tokens, and does on demand what real
// engines only do on bad days.
//
// # What happens
//
// An [Engine] serves HTTP/1.1 on the listeners it is given. It answers the inference routes (chat, completions, /generate,
// embeddings, classify, rerank, messages, responses, transcriptions; as SSE and not) and the routes that a gateway probes, in the shape of the
// engine that [Config] names. It is no net/http server, because it must show head lines exactly as they came, number connections,
// cut, reset and garble answers, tell when the peer has left, and cost so little that the gateway in front of it is what gets measured.
//
// # How long an answer takes
//
// Without a [Model] the type pace decides: a fixed time to the first token and a fixed time between tokens; nothing is ever cached.
// At zero an answer is one write. With one ([Config.Model]) the prompt's tokens wait in line, are computed in chunks unless the cache
// has them, and the answer's come step by step: one request for a whole batch of prompts, all its choices at once. The same Model
// runs in simulations, where nobody waits. While an answer waits, a goroutine reads ahead, so that a peer that leaves is seen at once and stops it.
//
// # Faults and logs
//
// [Engine.SetFaults] (POST /mock/faults) replaces the set of faults; the first that fits a request is what the request gets.
// [Engine.Requests] (GET /mock/requests) are the last requests byte for byte, [Engine.State] (GET /mock/state) the counts. The
// /mock routes are never logged, counted, authenticated or hit by a fault.
//
// # In tests
//
//	w := engine.Start(t, engine.Config{Name: "W1"})
//	w.SetFaults(engine.Fault{Status: 503, RetryAfter: "7", Count: 1})
//	// ... send to w.URL, then look at w.Requests()
package engine
