package server

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"regexp"
	"slices"
	"strings"
	"time"

	"golang.org/x/tools/go/packages"
)

// minted is one way in which the code makes an error's response.
type minted struct {
	code, param, message string // param: "…" if it is whatever field is at fault; message: "…" for what is filled in
	status               int
	terminal             bool
	retryAfter           string // seconds, or "…" if they depend; "" for none
	at                   token.Position
}

// operand is an expression, and the package that it is written in.
type operand struct {
	expr ast.Expr
	pkg  *packages.Package
}

// site is a literal of an error: in the function that writes it, or, as far as that leaves fields to its parameters, in one that
// calls it.
type site struct {
	pkg    *packages.Package
	fn     *ast.FuncDecl // nil outside of functions
	fields map[string]operand
	at     token.Pos
}

type call struct {
	pkg  *packages.Package
	fn   *ast.FuncDecl
	expr *ast.CallExpr
}

// mint finds every error that the code can make. What it cannot see through it complains about, so that no code escapes it.
type mint struct {
	all     []*packages.Package
	errType types.Type
	calls   map[*types.Func][]call
	uses    map[*types.Func]int

	found      []minted
	complaints []string
}

func mintIn(all []*packages.Package) *mint {
	m := &mint{all: all, errType: declared(all, "Error"), calls: map[*types.Func][]call{}, uses: map[*types.Func]int{}}
	for _, p := range all {
		for _, used := range p.TypesInfo.Uses {
			if f, ok := used.(*types.Func); ok {
				m.uses[f]++
			}
		}
	}
	functions(all, m.gatherCalls)
	functions(all, m.gatherLiterals)
	slices.SortFunc(m.found, func(a, b minted) int {
		return cmp.Or(strings.Compare(a.code, b.code), strings.Compare(a.at.String(), b.at.String()), strings.Compare(a.message, b.message))
	})
	return m
}

func (m *mint) gatherCalls(p *packages.Package, f *ast.FuncDecl, body ast.Node) {
	ast.Inspect(body, func(n ast.Node) bool {
		if c, ok := n.(*ast.CallExpr); ok {
			if callee := calleeOf(p, c); callee != nil {
				m.calls[callee] = append(m.calls[callee], call{p, f, c})
			}
		}
		return true
	})
}

func calleeOf(p *packages.Package, c *ast.CallExpr) *types.Func {
	name, _ := ast.Unparen(c.Fun).(*ast.Ident)
	if s, ok := ast.Unparen(c.Fun).(*ast.SelectorExpr); ok {
		name = s.Sel
	}
	if name == nil {
		return nil
	}
	f, _ := p.TypesInfo.Uses[name].(*types.Func)
	return f
}

func (m *mint) gatherLiterals(p *packages.Package, f *ast.FuncDecl, body ast.Node) {
	ast.Inspect(body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CompositeLit:
			if types.Identical(p.TypesInfo.Types[n].Type, m.errType) {
				m.literal(p, f, n)
			}
		case *ast.AssignStmt:
			for _, left := range n.Lhs {
				m.noAssignment(p, left)
			}
		}
		return true
	})
}

// noAssignment complains about a code or status that is changed after the literal.
func (m *mint) noAssignment(p *packages.Package, left ast.Expr) {
	s, ok := left.(*ast.SelectorExpr)
	if !ok || s.Sel.Name != "Code" && s.Sel.Name != "Status" {
		return
	}
	of := p.TypesInfo.Types[s.X].Type
	if pointer, ok := of.(*types.Pointer); ok {
		of = pointer.Elem()
	}
	if types.Identical(of, m.errType) {
		m.complain(p, s.Pos(), "give a pipeline.Error its "+s.Sel.Name+" in the literal")
	}
}

func (m *mint) complain(p *packages.Package, at token.Pos, what string) {
	m.complaints = append(m.complaints, fmt.Sprintf("%s: %s; else docs/errors.md cannot list it", m.position(p, at), what))
}

func (m *mint) position(p *packages.Package, at token.Pos) token.Position { return p.Fset.Position(at) }

func (m *mint) literal(p *packages.Package, f *ast.FuncDecl, lit *ast.CompositeLit) {
	s := site{pkg: p, fn: f, fields: map[string]operand{}, at: lit.Pos()}
	for _, e := range lit.Elts {
		pair, ok := e.(*ast.KeyValueExpr)
		if !ok {
			m.complain(p, lit.Pos(), "name the fields of a pipeline.Error")
			return
		}
		s.fields[pair.Key.(*ast.Ident).Name] = operand{pair.Value, p}
	}
	if _, held := s.fields["Held"]; !held { // a worker's own answer has no code
		m.expand(s)
	}
}

// expand looks at a site, or at the calls of its function if they decide what the error says.
func (m *mint) expand(s site) {
	params := paramsOf(s.pkg, s.fn)
	open := map[string]int{} // the fields that parameters fill, by the parameter's place
	for _, field := range []string{"Code", "Status", "Param", "Message", "Terminal"} {
		if place, ok := paramOf(s.fields[field], params); ok {
			open[field] = place
		}
	}
	if len(open) == 0 {
		m.add(s)
		return
	}
	fn, _ := s.pkg.TypesInfo.Defs[s.fn.Name].(*types.Func)
	if m.uses[fn] != len(m.calls[fn]) {
		m.complain(s.pkg, s.fn.Pos(), s.fn.Name.Name+" makes errors and is used as a value; call it where the code can be seen")
	}
	for _, c := range m.calls[fn] {
		outer := site{pkg: c.pkg, fn: c.fn, fields: map[string]operand{}, at: c.expr.Pos()}
		for name, o := range s.fields {
			outer.fields[name] = o
			if place, ok := open[name]; ok && place < len(c.expr.Args) {
				outer.fields[name] = operand{c.expr.Args[place], c.pkg}
			}
		}
		m.expand(outer)
	}
}

// paramsOf are a function's parameters by their places.
func paramsOf(p *packages.Package, f *ast.FuncDecl) map[types.Object]int {
	params := map[types.Object]int{}
	if f == nil {
		return params
	}
	for _, group := range f.Type.Params.List {
		for _, name := range group.Names {
			params[p.TypesInfo.Defs[name]] = len(params)
		}
	}
	return params
}

// paramOf tells which parameter fills a field, as it is or as the format of a text.
func paramOf(o operand, params map[types.Object]int) (place int, ok bool) {
	if o.expr == nil {
		return 0, false
	}
	name, _ := formatOf(o.expr).(*ast.Ident)
	if name == nil {
		return 0, false
	}
	place, ok = params[o.pkg.TypesInfo.Uses[name]]
	return place, ok
}

// formatOf is the format of a call of Sprintf, and any other expression itself.
func formatOf(e ast.Expr) ast.Expr {
	e = ast.Unparen(e)
	if c, ok := e.(*ast.CallExpr); ok && len(c.Args) > 0 {
		if s, ok := c.Fun.(*ast.SelectorExpr); ok && s.Sel.Name == "Sprintf" {
			return ast.Unparen(c.Args[0])
		}
	}
	return e
}

func (m *mint) add(s site) {
	found := minted{
		param: textOf(s.fields["Param"]), message: textOf(s.fields["Message"]),
		retryAfter: secondsOf(s.fields["RetryAfter"]), at: m.position(s.pkg, s.at),
	}
	code, status := valueOf(s.fields["Code"]), valueOf(s.fields["Status"])
	if code == nil || code.Kind() != constant.String || constant.StringVal(code) == "" {
		m.complain(s.pkg, s.at, "the code of a pipeline.Error is a constant, or a parameter that is given one")
		return
	}
	if status == nil {
		m.complain(s.pkg, s.at, "the status of a pipeline.Error is a constant, or a parameter that is given one")
		return
	}
	found.code = constant.StringVal(code)
	number, _ := constant.Int64Val(status)
	found.status = int(number)
	if terminal := valueOf(s.fields["Terminal"]); terminal != nil {
		found.terminal = constant.BoolVal(terminal)
	}
	m.found = append(m.found, found)
}

func valueOf(o operand) constant.Value {
	if o.expr == nil {
		return nil
	}
	return o.pkg.TypesInfo.Types[o.expr].Value
}

// verb is a place in a format.
var verb = regexp.MustCompile(`%(\[\d\])?[a-z]`)

// textOf is a text as far as it is written down.
func textOf(o operand) string {
	if o.expr == nil {
		return ""
	}
	if v := valueOf(o); v != nil && v.Kind() == constant.String {
		return verb.ReplaceAllString(constant.StringVal(v), "…")
	}
	switch e := ast.Unparen(o.expr).(type) {
	case *ast.BinaryExpr:
		return strings.ReplaceAll(textOf(operand{e.X, o.pkg})+textOf(operand{e.Y, o.pkg}), "……", "…")
	case *ast.CallExpr:
		if format := formatOf(e); format != ast.Expr(e) {
			return textOf(operand{format, o.pkg})
		}
	}
	return "…"
}

func secondsOf(o operand) string {
	if o.expr == nil {
		return ""
	}
	if v := valueOf(o); v != nil {
		n, _ := constant.Int64Val(v)
		return fmt.Sprint(time.Duration(n).Seconds())
	}
	return "…"
}
