package main

import (
	"fmt"
	"io"
	"reflect"

	"github.com/alecthomas/kong"
	"gopkg.in/yaml.v3"
)

// checkCmd is a start without the start.
type checkCmd struct{ settings }

// Run checks the configuration, the files that it names among it, and prints it in a form that --config reads. Warnings go to standard error.
func (k *checkCmd) Run(c *cli, ctx *kong.Context) error {
	if err := k.valid(); err != nil {
		return err
	}
	if found := k.CheckFiles(); len(found) > 0 {
		return invalid(found)
	}
	for _, warning := range k.Warnings() {
		fmt.Fprintln(c.stderr, "warning:", warning)
	}
	return writeConfig(c.stdout, ctx.Selected().Flags)
}

// writeConfig writes the values of flags as YAML, under the headings of the help. Flags that are not set are comments.
func writeConfig(w io.Writer, flags []*kong.Flag) error {
	heading := ""
	for _, flag := range flags {
		if flag.Group == nil {
			continue // not part of the configuration
		}
		if flag.Group.Title != heading {
			heading = flag.Group.Title
			if _, err := fmt.Fprintf(w, "# %s\n", heading); err != nil {
				return err
			}
		}
		line, err := configLine(flag)
		if err != nil {
			return err
		}
		if _, err := w.Write(line); err != nil {
			return err
		}
	}
	return nil
}

func configLine(flag *kong.Flag) ([]byte, error) {
	value := flag.Target
	if value.Kind() == reflect.Ptr && value.IsNil() {
		return fmt.Appendf(nil, "# %s: unset\n", flag.Name), nil
	}
	if flag.Tag.Has("secret") && !value.IsZero() && !(value.Kind() == reflect.Slice && value.Len() == 0) {
		return fmt.Appendf(nil, "%s: '***'\n", flag.Name), nil
	}
	var node yaml.Node
	if err := node.Encode(value.Interface()); err != nil {
		return nil, err
	}
	node.Style = yaml.FlowStyle // a list on one line
	return yaml.Marshal(map[string]*yaml.Node{flag.Name: &node})
}
