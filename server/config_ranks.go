package server

// RankConfig is about engines that have several data-parallel ranks behind one URL.
type RankConfig struct {
	DPAware bool `name:"dp-aware" help:"Register each data-parallel rank of an SGLang engine as a worker of its own, URL@RANK, and tell the engine which rank a request is for. Off: an engine is one worker, whatever its ranks."`
}
