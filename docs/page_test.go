package docs

import (
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strings"
)

// command is one thing that a page tells its reader to type.
type command struct {
	line  int // of the page, from 1
	text  string
	shown []string // the lines that the page shows after it; nil if it shows none
}

// block is a piece of a page that is set as code.
type block struct {
	line     int // of its first line of content
	mark     string
	indented bool // by blanks, without a fence
	lines    []string
}

// fence opens or closes a fenced block; what follows it is the block's mark.
var fence = regexp.MustCompile("^ *(```+|~~~+) *([^`]*)$")

// blocksOf finds the blocks of a page, and gives the page back without them, line by line.
func blocksOf(text string) (blocks []block, prose []string) {
	var open *block
	var closing string
	blank := true // so far: an indented line begins a block only after a blank one
	for i, line := range strings.Split(text, "\n") {
		f := fence.FindStringSubmatch(line)
		switch {
		case open != nil && !open.indented && f != nil && strings.HasPrefix(f[1], closing) && f[2] == "":
			open = nil
			line = ""
		case open != nil && !open.indented:
			open.lines = append(open.lines, line)
			line = ""
		case f != nil:
			blocks = append(blocks, block{line: i + 2, mark: strings.TrimSpace(f[2])})
			open, closing = &blocks[len(blocks)-1], f[1]
			line = ""
		case strings.HasPrefix(line, "    ") && (open != nil || blank):
			if open == nil {
				blocks = append(blocks, block{line: i + 1, indented: true})
				open = &blocks[len(blocks)-1]
			}
			open.lines = append(open.lines, line[4:])
			line = ""
		case open != nil && line == "":
			open.lines = append(open.lines, "")
		default:
			open = nil
		}
		blank = line == ""
		prose = append(prose, line)
	}
	return blocks, prose
}

// programs are what a command may begin with, files of the checkout aside. A block that begins with one of them and is not marked as commands is a mistake, and
// an indented one counts as commands.
var programs = []string{
	"smg", "mockengine", "go", "just", "git", "curl", "docker", "kubectl", "helm", "pip", "python", "python3", "apt-get", "cd", "export", "cat",
	"kill", "promtool", "prometheus", "vllm", "sudo", "bash", "sh", "grep", "jq",
}

// commandsOf takes the commands out of a page; complaints say where it is not clear what a block is.
func commandsOf(text string) (commands []command, complaints []string) {
	blocks, _ := blocksOf(text)
	for _, b := range blocks {
		first, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimSpace(b.first()), "$ "), " ")
		known := slices.Contains(programs, first) || strings.Contains(first, "/") && exists(first)
		switch {
		case b.mark == "console":
			found, err := console(b)
			commands = append(commands, found...)
			if err != nil {
				complaints = append(complaints, err.Error())
			}
		case b.mark == "sh", b.indented && known:
			commands = append(commands, script(b)...)
		case slices.Contains([]string{"bash", "shell", "zsh"}, b.mark):
			complaints = append(complaints, fmt.Sprintf("%d: mark the block sh, so that it is run", b.line))
		case (b.mark == "" || b.mark == "text") && !b.indented && known:
			complaints = append(complaints, fmt.Sprintf("%d: a block that begins with %s is not marked sh or console, so nobody runs it", b.line, first))
		}
	}
	return commands, complaints
}

// first is the first line that is more than a comment.
func (b block) first() string {
	for _, line := range b.lines {
		if line != "" && !strings.HasPrefix(strings.TrimSpace(line), "#") {
			return line
		}
	}
	return ""
}

// script takes every line as a command, or as many lines as one needs to be whole. Lines of comments are skipped.
func script(b block) (commands []command) {
	var c *command
	for i, line := range b.lines {
		if c == nil {
			if bare := strings.TrimSpace(line); bare == "" || strings.HasPrefix(bare, "#") {
				continue
			}
			c = &command{line: b.line + i}
		}
		c.text = strings.TrimPrefix(c.text+"\n"+line, "\n")
		if whole(c.text) || i == len(b.lines)-1 {
			commands = append(commands, *c)
			c = nil
		}
	}
	return commands
}

// console takes what follows "$ " as a command, further lines until it is whole included, and the others as what it shows.
func console(b block) (commands []command, err error) {
	for i := 0; i < len(b.lines); i++ {
		text, prompted := strings.CutPrefix(b.lines[i], "$ ")
		if !prompted {
			if len(commands) == 0 {
				return nil, fmt.Errorf("%d: a console block begins with a prompt: $", b.line)
			}
			last := &commands[len(commands)-1]
			last.shown = append(last.shown, b.lines[i])
			continue
		}
		c := command{line: b.line + i, text: text}
		for !whole(c.text) && i+1 < len(b.lines) {
			i++
			c.text += "\n" + strings.TrimPrefix(b.lines[i], "> ")
		}
		commands = append(commands, c)
	}
	return commands, nil
}

// whole asks the shell whether a text is complete: quotes, here-documents and loops may go on for several lines.
func whole(text string) bool {
	if strings.HasSuffix(text, `\`) {
		return false
	}
	out, err := exec.Command("bash", "-n", "-c", text).CombinedOutput()
	return err == nil && len(out) == 0
}

// shows tells whether an output is what a page shows: line by line, blanks aside; "..." stands for anything within a line, and alone
// on a line for any lines.
func shows(shown []string, output string) bool {
	var pattern strings.Builder
	pattern.WriteString(`^`)
	for _, line := range shown {
		if strings.TrimSpace(line) == "..." {
			pattern.WriteString(`(?:.*\n)*?`)
			continue
		}
		parts := strings.Split(oneBlank(line), "...")
		for i := range parts {
			parts[i] = regexp.QuoteMeta(parts[i])
		}
		pattern.WriteString(strings.Join(parts, `.*`) + `\n`)
	}
	pattern.WriteString(`$`)
	var squeezed strings.Builder
	for line := range strings.Lines(strings.TrimRight(output, "\n")) {
		squeezed.WriteString(oneBlank(line) + "\n")
	}
	return regexp.MustCompile(pattern.String()).MatchString(squeezed.String())
}

func oneBlank(line string) string { return strings.Join(strings.Fields(line), " ") }

// words splits a command as the shell would, as far as looking at flags needs it; it ends at a comment, a pipe or a list.
func words(text string) (found []string) {
	text = strings.ReplaceAll(text, "\\\n", " ")
	var word strings.Builder
	var quote rune
	inWord := false
	end := func() {
		if inWord {
			found = append(found, word.String())
		}
		word.Reset()
		inWord = false
	}
	for _, r := range text {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(r)
		case r == '\'' || r == '"':
			quote, inWord = r, true
		case r == ' ' || r == '\n' || r == '\t':
			end()
		case r == '#' && !inWord, r == '|', r == ';', r == '&':
			end()
			return found
		default:
			word.WriteRune(r)
			inWord = true
		}
	}
	end()
	return found
}
