package docs

import (
	"net"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// taken is a port that somebody has, in the pages below.
const taken = "TAKEN"

// What is wrong with a page is reported with its line; "" for a page that is right. Backquotes are single quotes here.
func TestTheWalkSeesWhatIsWrong(t *testing.T) {
	tests := []struct {
		name, page, want string
	}{
		{"a command that fails", "Text.\n\n'''sh\ntrue\nfalse\ntrue\n'''\n", "page.md:5: false: exit status 1"},
		{"an indented command that fails", "Text.\n\n    go frobnicate\n", "page.md:3: go frobnicate: exit status 2"},
		{"what comes after a failure is not run", "'''sh\nfalse\nsmg nonsense\n'''", "page.md:2: false: exit status 1"},
		{"a program that is not there", "'''sh\nsmgg version\n'''", "page.md:2: smgg version: exit status 127"},
		{"a flag that is not there", "'''console\n$ mockengine --frob\n'''", "page.md:2: mockengine --frob: it has ended instead of serving"},
		{"a gateway with a flag that is not there", "'''sh\nsmg serve --frob\n'''", "page.md:2: smg serve --frob: smg config check with its flags: exit status 2"},
		{"a failing command in a pipe", "'''sh\nfalse | cat\n'''", "page.md:2: false | cat: exit status 1"},
		{"something else is shown", "'''console\n$ echo one\ntwo\n'''", "page.md:2: echo one: it does not show what the page shows, but\none"},
		{"more is shown", "'''console\n$ printf 'a\\nb\\n'\na\n'''", `page.md:2: printf 'a\nb\n': it does not show what the page shows`},
		{"an error is shown that does not happen", "'''console\n$ echo error: no\nerror: no\n'''", "page.md:2: echo error: no: it succeeds, and the page shows an error"},
		{"an answer of curl that is an error", "'''sh\nmockengine --port 8000\ncurl http://127.0.0.1:8000/nowhere\n'''", "page.md:3: curl http://127.0.0.1:8000/nowhere: exit status 22"},
		{"a port that is taken", "'''sh\nmockengine --port TAKEN\n'''", "page.md:2: mockengine --port TAKEN: port TAKEN is taken on this machine, and the page needs it"},
		{"a worker somewhere else", "'''sh\nsmg serve --worker-urls http://elsewhere:8000\n'''", "http://elsewhere:8000 is not on this machine"},
		{"commands in a block without a mark", "Text.\n\n'''\ncurl http://127.0.0.1:8000\n'''\n", "page.md:4: a block that begins with curl is not marked sh or console, so nobody runs it"},
		{"commands in a block with another mark", "'''bash\ntrue\n'''", "page.md:2: mark the block sh, so that it is run"},
		{"a script of the checkout in such a block", "Text.\n\n'''\n./.ci/run\n'''\n", "page.md:4: a block that begins with ./.ci/run is not marked sh or console, so nobody runs it"},
		{"a console block without a prompt", "'''console\ntrue\n'''", "page.md:2: a console block begins with a prompt: $"},

		{"blocks that are no commands", "    nginx  7627\n\n'''yaml\nport: 1\n'''\n\n'''\nany text\n'''\n", ""},
		{"an error that the page shows", "'''console\n$ smg config check --port 0\nerror: invalid --port: '0': must be between 1 and 65535\n'''", ""},
		{"what is shown, but for what is left out", "'''console\n$ printf 'a  b\\nc\\nd\\n\\n'\na b\n...\n'''", ""},
		{"settings last for the page", "'''sh\nexport A=1\n'''\n\n'''sh\ntest $A = 1\ncd docs\ntest -f main_test.go\n'''", ""},
		{"a command of several lines", "'''sh\ntest one = \\\n  one\ncat > made.yaml <<EOF\nport: 1\nEOF\ntest -f made.yaml\n'''", ""},
		{"the next page's checkout is a fresh one", "'''sh\n! test -e made.yaml\n'''", ""},
		{"comments", "'''sh\n# a comment\ntrue # another\n'''", ""},
		{"a server gives way to another one on its port", "'''sh\nmockengine --port 8000 --model a\nmockengine --port 8000 --model b\ncurl http://127.0.0.1:8000/v1/models | grep '\"b\"'\n'''", ""},
		{"a gateway and the engines that the reader is supposed to have", "'''sh\nsmg serve --worker-urls http://gpu1:8000 http://gpu2:8000 --port 30001\ncurl http://127.0.0.1:30001/workers | grep '\"total\":2'\n'''", ""},
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	port := strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			failures := follow(t, "page.md", strings.NewReplacer("'''", "```", taken, port).Replace(tt.page))
			if tt.want == "" {
				require.Empty(t, failures)
				return
			}
			require.Len(t, failures, 1)
			require.Contains(t, failures[0].String(), strings.ReplaceAll(tt.want, taken, port))
		})
	}
}

func TestTheWalkSeesWhatIsMentionedAndNotThere(t *testing.T) {
	known := map[string]bool{"--port": true, "smg serve": true}
	tests := []struct{ name, line, want string }{
		{"a flag that exists", "Use `--port 8`.", ""},
		{"a flag that does not", "Use `--prot 8`.", "page.md:1: no program of this module has the flag --prot"},
		{"a flag of somebody else", "Use `nginx --prot`.", ""},
		{"a command that exists", "`smg serve --port 1`", ""},
		{"a command that does not", "`smg sreve`", "page.md:1: smg has no command sreve"},
		{"a version is no command", "`smg 1.13.0`", ""},
		{"a link that leads somewhere", "[a](README.md#part)", ""},
		{"a link that does not", "[a](READYOU.md)", "page.md:1: the link leads nowhere: READYOU.md"},
		{"a file that is there", "`docs/main_test.go` and `./docs/`", ""},
		{"a file that is not", "`docs/nothing.go`", "page.md:1: there is no docs/nothing.go"},
		{"a place to fill in", "`stages/NAME.go`", ""},
		{"a metric that exists", "`smg_worker_health` and `smg_router_ttft_seconds_bucket`", ""},
		{"a metric that does not", "`smg_worker_wealth`", "page.md:1: smg has no metric smg_worker_wealth"},
		{"code is no sentence", "    smg sreve", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			for _, f := range mentions("page.md", tt.line, known) {
				got = append(got, f.String())
			}
			require.Equal(t, tt.want, strings.Join(got, "\n"))
		})
	}
}

func TestWhichCommandsAreServers(t *testing.T) {
	for text, want := range map[string]bool{
		"smg": true, "smg --port 1": true, "smg serve --worker-urls http://a": true, "smg launch": true, "SMG_FLAG_PORT=1 smg start": true,
		"go run ./cmd/smg demo   # a comment": true, "mockengine --count 2": true, "go run ./examples/picker --port 0": true, "smg demo &": true,
		"smg serve --help": false, "smg config check --port 1": false, "smg version": false, "echo smg serve": false, "curl http://a/serve": false,
		"go run ./cmd/smg pipelines": false, "go doc ./examples/picker": false,
	} {
		require.Equal(t, want, serves(text), text)
	}
}
