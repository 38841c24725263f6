// Command embed is somebody's web server that has a gateway in it: smg as an http.Handler below /llm, beside routes of its own.
//
// The server decides who may come in (here: a key of its own), how it listens and when it ends. The gateway keeps workers, chooses
// among them, tries again elsewhere, and relays. All of its routes are below /llm, so a client's base URL ends in /llm/v1.
package main
