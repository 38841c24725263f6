package server

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/constant"
	"go/doc/comment"
	"go/types"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/tools/go/packages"
)

// STYLE.md, section i; DESIGN.md, section 3, "Seeing"
func TestPageOfStages(t *testing.T) {
	made := stagesIn(loaded(t))
	rendered(t, "docs/stages.md", stagesPage(t, made))
}

// maker is a function that makes a stage.
type maker struct {
	stage    string // its name
	pkg      *types.Package
	fn       *types.Func
	doc      string
	exported bool
}

// call is how a program calls the function, without what it returns.
func (m maker) call() string {
	var b bytes.Buffer
	types.WriteSignature(&b, m.fn.Signature(), func(p *types.Package) string {
		if p == m.pkg {
			return ""
		}
		return p.Name()
	})
	parameters := strings.TrimSuffix(b.String(), " pipeline.Stage")
	return m.pkg.Name() + "." + m.fn.Name() + parameters
}

// stagesIn finds the functions that make stages, by the stages' names.
func stagesIn(all []*packages.Package) map[string]maker {
	stage := declared(all, "Stage")
	names := namesOfStages(all, stage)
	found := map[string]maker{}
	functions(all, func(p *packages.Package, f *ast.FuncDecl, _ ast.Node) {
		if f == nil || f.Body == nil || p.PkgPath == module+"/pipeline" {
			return
		}
		fn := p.TypesInfo.Defs[f.Name].(*types.Func)
		results := fn.Signature().Results()
		if results.Len() != 1 || !types.Identical(results.At(0).Type(), stage) {
			return
		}
		if name := stageMadeIn(p, f.Body, names); name != "" {
			exported := f.Name.IsExported() && f.Recv == nil
			if was, known := found[name]; !known || !was.exported {
				found[name] = maker{name, p.Types, fn, f.Doc.Text(), exported}
			}
		}
	})
	return found
}

// namesOfStages are the names of the types that are stages and have one name for all their values.
func namesOfStages(all []*packages.Package, stage types.Type) map[*types.Named]string {
	names := map[*types.Named]string{}
	functions(all, func(p *packages.Package, f *ast.FuncDecl, _ ast.Node) {
		if f == nil || f.Recv == nil || f.Name.Name != "Name" || len(f.Body.List) != 1 {
			return
		}
		of := p.TypesInfo.Types[f.Recv.List[0].Type].Type
		if !types.Implements(of, stage.Underlying().(*types.Interface)) {
			return
		}
		if pointer, ok := of.(*types.Pointer); ok {
			of = pointer.Elem()
		}
		result, ok := f.Body.List[0].(*ast.ReturnStmt)
		if named, is := of.(*types.Named); is && ok {
			names[named] = text(p, result.Results[0])
		}
	})
	return names
}

// stageMadeIn is the name of the stage that a function makes: a value of a type, or by pipeline.StageFunc.
func stageMadeIn(p *packages.Package, body *ast.BlockStmt, names map[*types.Named]string) (name string) {
	ast.Inspect(body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CompositeLit:
			if of, ok := p.TypesInfo.Types[n].Type.(*types.Named); ok && names[of] != "" {
				name = names[of]
			}
		case *ast.CallExpr:
			if f := calleeOf(p, n); f != nil && f.Name() == "StageFunc" && f.Pkg().Path() == module+"/pipeline" {
				name = text(p, n.Args[0])
			}
		}
		return name == ""
	})
	return name
}

// text is the value of an expression that is a constant text.
func text(p *packages.Package, e ast.Expr) string {
	if v := p.TypesInfo.Types[e].Value; v != nil && v.Kind() == constant.String {
		return constant.StringVal(v)
	}
	return ""
}

const stagesIntro = `# Stages

What happens to a request, step by step, for whoever runs smg or assembles chains of their own. This page is rendered from the code:
change it there, then run ` + "`go test ./server -run Page -update`" + `.

A chain is the ordered list of stages of one route, outermost first. A stage does its part before the rest of the chain runs, after it,
or both; behind ` + "`retry`" + ` everything runs once for each attempt. A stage **needs** facts that stages before it **give**, and a chain in
which one is missing is not assembled. What it **uses** runs in the background while some chain has such a stage. This is what the
default settings assemble; ` + "`smg pipelines`" + ` shows that of others.
`

func stagesPage(t *testing.T, makers map[string]maker) string {
	var b strings.Builder
	b.WriteString(stagesIntro)
	views := printedRoutes(t)
	writeChains(&b, views)
	writeFacts(t, &b)
	b.WriteString("\n## The stages\n\nIn the order of the chains. Those that other programs can use too have the call that makes them.\n")
	seen := map[string]bool{}
	for _, v := range views {
		for _, s := range v.Stages {
			if !seen[s.Name] {
				seen[s.Name] = true
				require.NotEmpty(t, makers[s.Name].doc, "the function that makes stage %s was not found, or has no comment", s.Name)
				writeStage(&b, makers[s.Name], s, routesWith(views, s.Name))
			}
		}
	}
	var spare []string
	for name, m := range makers {
		if !seen[name] && m.exported {
			spare = append(spare, name)
		}
	}
	slices.Sort(spare)
	for i, name := range spare {
		if i == 0 {
			b.WriteString("\n## Stages in no chain by default\n")
		}
		writeStage(&b, makers[name], stageView{Name: name}, "")
	}
	return b.String()
}

// writeChains lists the chains, those with the same stages once.
func writeChains(b *strings.Builder, views []routeView) {
	b.WriteString("\n## The chains\n\n| Routes | Stages |\n|---|---|\n")
	ways := map[string][]string{}
	var order []string
	for _, v := range views {
		var names []string
		for _, s := range v.Stages {
			names = append(names, fmt.Sprintf("[%s](#%[1]s)", s.Name))
		}
		way := strings.Join(names, ", ")
		if ways[way] == nil {
			order = append(order, way)
		}
		ways[way] = append(ways[way], v.Route)
	}
	for _, way := range order {
		fmt.Fprintf(b, "| %s | %s |\n", codes(ways[way]), way)
	}
	fmt.Fprintf(b, "\nRequests that no route takes go through the chain called `%s`. Every route that takes GET takes HEAD too.\n", unmatched)
}

// routesWith says in which chains a stage is.
func routesWith(views []routeView, stage string) string {
	var with, without, inference, otherInference []string
	for _, v := range views {
		has := func(name string) bool {
			return slices.ContainsFunc(v.Stages, func(s stageView) bool { return s.Name == name })
		}
		if has("retry") && !has(stage) {
			otherInference = append(otherInference, v.Route)
		}
		switch {
		case !has(stage):
			without = append(without, v.Route)
		case has("retry"):
			inference = append(inference, v.Route)
		default:
			with = append(with, v.Route)
		}
	}
	switch {
	case len(without) == 0:
		return "all"
	case len(without) < len(with):
		return "all but " + codes(without)
	case len(inference) == 0:
		return codes(with)
	}
	in := "all inference routes"
	if len(otherInference) > len(inference) {
		in = codes(inference)
	} else if len(otherInference) > 0 {
		in += " but " + codes(otherInference)
	}
	if len(with) > 0 {
		return in + ", " + codes(with)
	}
	return in
}

func writeStage(b *strings.Builder, m maker, s stageView, routes string) {
	fmt.Fprintf(b, "\n### %s\n\n", s.Name)
	doc := prose(m.doc)
	if m.exported {
		fmt.Fprintf(b, "`%s`\n\n", m.call())
	} else {
		doc = "`" + s.Name + "`" + strings.TrimPrefix(doc, m.fn.Name())
	}
	b.WriteString(doc)
	for _, line := range [][2]string{
		{"Needs", codes(s.Needs)}, {"Gives", codes(s.Gives)}, {"Uses", codes(s.Uses)}, {"Routes", routes},
	} {
		if line[1] != "" {
			fmt.Fprintf(b, "\n- %s: %s", line[0], line[1])
		}
	}
	b.WriteString("\n")
}

// escapedName is a name in snake case as the printer writes it.
var escapedName = regexp.MustCompile(`[a-zA-Z0-9]+(?:\\_[a-zA-Z0-9]+)+`)

// prose is a comment as Markdown.
func prose(doc string) string {
	p := comment.Parser{LookupSym: func(string, string) bool { return true }} // what is a link in Go is plain text here
	printer := comment.Printer{HeadingLevel: 4, DocLinkURL: func(*comment.DocLink) string { return "" }}
	markdown := string(printer.Markdown(p.Parse(doc)))
	return escapedName.ReplaceAllStringFunc(markdown, func(name string) string { return "`" + strings.ReplaceAll(name, `\_`, "_") + "`" })
}

// writeFacts lists the facts that are fields of the exchange, and those that stages have among themselves.
func writeFacts(t *testing.T, b *strings.Builder) {
	b.WriteString("\n## The facts\n\n| Fact | In Go | What it is | Given by |\n|---|---|---|---|\n")
	var own [][2]string
	for _, p := range loaded(t) {
		for _, file := range p.Syntax {
			for _, spec := range variables(file) {
				made, ok := initial(spec).(*ast.CallExpr)
				switch {
				case ok && isNewFact(p, made):
					own = append(own, [2]string{text(p, made.Args[0]), prose(docOf(file, spec))})
				case p.PkgPath == module+"/pipeline":
					writeBuiltin(b, p, spec)
				}
			}
		}
	}
	b.WriteString("\nFacts that some stages have among themselves, with types of their own:\n\n")
	slices.SortFunc(own, func(x, y [2]string) int { return strings.Compare(x[0], y[0]) })
	for _, f := range own {
		fmt.Fprintf(b, "- `%s`: %s\n", f[0], strings.TrimSpace(f[1]))
	}
}

// variables are the variables that a file declares, a value for each.
func variables(file *ast.File) (found []*ast.ValueSpec) {
	for _, decl := range file.Decls {
		if group, ok := decl.(*ast.GenDecl); ok {
			for _, spec := range group.Specs {
				if v, ok := spec.(*ast.ValueSpec); ok && len(v.Values) == 1 {
					found = append(found, v)
				}
			}
		}
	}
	return found
}

func initial(spec *ast.ValueSpec) ast.Expr { return ast.Unparen(spec.Values[0]) }

func isNewFact(p *packages.Package, c *ast.CallExpr) bool {
	generic, ok := c.Fun.(*ast.IndexExpr)
	if !ok {
		return false
	}
	f := calleeOf(p, &ast.CallExpr{Fun: generic.X})
	return f != nil && f.Name() == "NewFact" && f.Pkg().Path() == module+"/pipeline"
}

// docOf is the comment of a variable, or of the declaration that it stands in alone.
func docOf(file *ast.File, spec *ast.ValueSpec) string {
	for _, decl := range file.Decls {
		if group, ok := decl.(*ast.GenDecl); ok && slices.Contains(group.Specs, ast.Spec(spec)) && spec.Doc == nil {
			return group.Doc.Text()
		}
	}
	return spec.Doc.Text()
}

// writeBuiltin writes a fact of the pipeline package: a literal with its name and the stage that usually gives it, and behind it the
// field of the exchange.
func writeBuiltin(b *strings.Builder, p *packages.Package, spec *ast.ValueSpec) {
	address, ok := initial(spec).(*ast.UnaryExpr)
	if !ok {
		return
	}
	lit, ok := address.X.(*ast.CompositeLit)
	if !ok || len(lit.Elts) != 2 || !strings.HasSuffix(p.TypesInfo.Types[lit].Type.String(), ".builtin") {
		return
	}
	giver := text(p, lit.Elts[1])
	fmt.Fprintf(b, "| `%s` | `pipeline.%s` | %s | [%s](#%[4]s) |\n", text(p, lit.Elts[0]), spec.Names[0].Name, inCode(spec.Comment.Text()), giver)
}

// inCode sets the field that a comment begins with as code.
func inCode(comment string) string {
	field, rest, _ := strings.Cut(strings.TrimSpace(comment), " ")
	if end := strings.TrimRight(field, ":,"); strings.HasPrefix(end, "Exchange.") {
		return strings.TrimSpace("`" + end + "`" + field[len(end):] + " " + rest)
	}
	return comment
}
