package grafana_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"text/scanner"

	"github.com/stretchr/testify/require"
)

// reading is what an expression reads: metrics with the labels that their selectors name, and the labels that it groups by.
type reading struct {
	metrics []selector
	groups  []string
}

type selector struct {
	name   string
	labels []string
}

var (
	groupings = []string{"by", "without", "on", "ignoring", "group_left", "group_right"}
	operators = []string{"and", "or", "unless", "bool", "offset"}
)

// read finds the metrics of a PromQL expression. It knows as much of the language as that takes: what is wrong otherwise,
// Prometheus itself says.
func read(expr string) (reading, error) {
	r := reader{}
	r.Init(strings.NewReader(expr))
	r.Mode = scanner.ScanIdents | scanner.ScanInts | scanner.ScanFloats | scanner.ScanStrings
	r.Error = func(_ *scanner.Scanner, message string) { r.err = errors.Join(r.err, errors.New(message)) }
	for token := r.Scan(); token != scanner.EOF; token = r.Scan() {
		switch token {
		case scanner.Ident:
			r.ident(r.TokenText())
		case '[':
			r.list(']')
		}
	}
	if r.err != nil {
		return reading{}, fmt.Errorf("%s: %w", expr, r.err)
	}
	return r.reading, nil
}

type reader struct {
	scanner.Scanner
	reading
	err error
}

// ident is at a name: of a function, a clause, an operator or a metric.
func (r *reader) ident(name string) {
	for r.Peek() == ' ' {
		r.Next()
	}
	switch after := r.Peek(); {
	case slices.Contains(groupings, name):
		r.Scan() // the parenthesis
		r.groups = append(r.groups, r.list(')')...)
	case slices.Contains(operators, name), after == '(':
	case after == 'b' || after == 'w': // sum by, sum without
	case after == '{':
		r.Scan()
		r.metrics = append(r.metrics, selector{name, r.list('}')})
	default:
		r.metrics = append(r.metrics, selector{name: name})
	}
}

// list is at the first token behind an opening bracket, and gives the names up to the closing one.
func (r *reader) list(closing rune) (names []string) {
	for token := r.Scan(); token != closing; token = r.Scan() {
		switch token {
		case scanner.EOF:
			r.err = errors.Join(r.err, fmt.Errorf("no %c", closing))
			return names
		case scanner.Ident:
			names = append(names, r.TokenText())
		}
	}
	return names
}

// The tests below stand on this.
func TestMetricsOfAnExpressionAreFound(t *testing.T) {
	tests := []struct {
		name, expr string
		want       reading
	}{
		{"a name alone", `up`, reading{metrics: []selector{{name: "up"}}}},
		{"a comparison", `smg_a == 0`, reading{metrics: []selector{{name: "smg_a"}}}},
		{"a selector with a range in functions", `sum(rate(a_total{x="1",y=~"b|c_total"}[5m]))`, reading{metrics: []selector{{"a_total", []string{"x", "y"}}}}},
		{
			"groups before and behind", `sum by (le, m) (rate(a[1m])) / on(m) sum(b{}) without (z)`,
			reading{[]selector{{name: "a"}, {name: "b"}}, []string{"le", "m", "m", "z"}},
		},
		{"operators and numbers", `(a or vector(0)) / 2 > bool 0.5`, reading{metrics: []selector{{name: "a"}}}},
		{"a name before a name that begins with b", "histogram_quantile(0.9, a) - b", reading{metrics: []selector{{name: "a"}, {name: "b"}}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := read(tt.expr)
			require.NoError(t, err)
			require.Equal(t, tt.want, got)
		})
	}
	_, err := read(`a{b="c"`)
	require.ErrorContains(t, err, "no }")
	_, err = read(`a{b="c}`)
	require.Error(t, err)
}
