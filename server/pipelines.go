package server

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"strings"

	"github.com/smg-go/smg/pipeline"
	"github.com/smg-go/smg/telemetry"
)

// Pipelines writes the stages of each route that a gateway with this configuration serves, with what they need, give and use:
// format is "text", "json" or "mermaid". route is one of its routes, such as "POST /v1/chat/completions", or "" for all of them;
// the graph of one route fits a page. Nothing is started.
func Pipelines(cfg *Config, route, format string, w io.Writer) error {
	log := slog.New(slog.DiscardHandler)
	g, err := newGateway(cfg, log, telemetry.NewMetrics(telemetry.Options{}))
	if err != nil {
		return err
	}
	defer g.close(context.Background())
	chains, err := g.chains()
	if err != nil {
		return err
	}
	if route != "" {
		if chains, err = only(chains, route); err != nil {
			return err
		}
	}
	switch {
	case format == "json":
		return writeJSON(w, chains)
	case format == "mermaid" && route != "":
		return writeWay(w, viewOf(chains[0]))
	case format == "mermaid":
		return writeMermaid(w, chains)
	}
	return writeText(w, chains)
}

// only is the chain of one route.
func only(chains []*pipeline.Chain, route string) ([]*pipeline.Chain, error) {
	var routes []string
	for _, c := range chains {
		if c.Route() == route {
			return []*pipeline.Chain{c}, nil
		}
		routes = append(routes, c.Route())
	}
	return nil, fmt.Errorf("there is no route %q; the routes are %s", route, strings.Join(routes, ", "))
}

// routeView and stageView are the shapes of --json.
type routeView struct {
	Route  string      `json:"route"`
	Stages []stageView `json:"stages"`
}

type stageView struct {
	Name  string   `json:"name"`
	Needs []string `json:"needs"`
	Gives []string `json:"gives"`
	Uses  []string `json:"uses"`
}

func viewOf(c *pipeline.Chain) routeView {
	v := routeView{Route: c.Route()}
	for _, s := range c.Stages() {
		contract := pipeline.ContractOf(s)
		sv := stageView{Name: s.Name(), Needs: []string{}, Gives: []string{}, Uses: []string{}}
		for _, f := range contract.Needs {
			sv.Needs = append(sv.Needs, f.Name())
		}
		for _, f := range contract.Gives {
			sv.Gives = append(sv.Gives, f.Name())
		}
		for _, d := range contract.Uses {
			sv.Uses = append(sv.Uses, d.Name())
		}
		v.Stages = append(v.Stages, sv)
	}
	return v
}

func writeJSON(w io.Writer, chains []*pipeline.Chain) error {
	views := make([]routeView, 0, len(chains))
	for _, c := range chains {
		views = append(views, viewOf(c))
	}
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(views)
}

func writeText(w io.Writer, chains []*pipeline.Chain) error {
	var b strings.Builder
	for i, c := range chains {
		if i > 0 {
			b.WriteByte('\n')
		}
		fmt.Fprintln(&b, c.Route())
		for _, s := range viewOf(c).Stages {
			row := fmt.Sprintf("  %-15s%s%s%s", s.Name, clause("needs", s.Needs), clause("gives", s.Gives), clause("uses", s.Uses))
			fmt.Fprintln(&b, strings.TrimRight(row, " ;"))
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func clause(verb string, names []string) string {
	if len(names) == 0 {
		return ""
	}
	return verb + " " + strings.Join(names, ", ") + "; "
}

// writeMermaid draws one graph with a part for each different list of stages: routes that share one share a part.
func writeMermaid(w io.Writer, chains []*pipeline.Chain) error {
	var b strings.Builder
	fmt.Fprintln(&b, "flowchart LR")
	for i, group := range alike(chains) {
		fmt.Fprintf(&b, "  subgraph way%d[\"%s\"]\n    direction LR\n", i+1, strings.Join(group.routes, "<br/>"))
		for j, s := range group.stages {
			fmt.Fprintf(&b, "    w%ds%d[\"%s\"]\n", i+1, j+1, s.label())
			if j > 0 {
				fmt.Fprintf(&b, "    w%ds%d --> w%ds%d\n", i+1, j, i+1, j+1)
			}
		}
		fmt.Fprintln(&b, "  end")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// label is what a graph shows of a stage: its name and what it gives.
func (s stageView) label() string {
	if len(s.Gives) == 0 {
		return s.Name
	}
	return s.Name + "<br/><i>" + strings.Join(s.Gives, ", ") + "</i>"
}

type group struct {
	routes []string
	stages []stageView
}

func alike(chains []*pipeline.Chain) []*group {
	var groups []*group
	byStages := map[string]*group{}
	for _, c := range chains {
		v := viewOf(c)
		key := fmt.Sprint(v.Stages)
		if byStages[key] == nil {
			byStages[key] = &group{stages: v.Stages}
			groups = append(groups, byStages[key])
		}
		byStages[key].routes = append(byStages[key].routes, v.Route)
	}
	return groups
}
