package server

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/types"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/tools/go/packages"
)

const module = "github.com/smg-go/smg"

// source is the module's code with its types, of everything that may answer a gateway's client: examples and the programs that come
// along answer for themselves.
var source = sync.OnceValues(func() ([]*packages.Package, error) {
	all, err := packages.Load(&packages.Config{
		Mode: packages.NeedName | packages.NeedFiles | packages.NeedImports | packages.NeedTypes | packages.NeedTypesSizes |
			packages.NeedSyntax | packages.NeedTypesInfo,
		Dir: "..",
	}, "./...")
	if err != nil {
		return nil, err
	}
	var found []*packages.Package
	for _, p := range all {
		folder := strings.TrimPrefix(p.PkgPath, module+"/")
		if strings.HasPrefix(folder, "examples/") || strings.HasPrefix(folder, "cmd/") && folder != "cmd/smg" {
			continue
		}
		if len(p.Errors) > 0 {
			return nil, fmt.Errorf("%s: %w", p.PkgPath, p.Errors[0])
		}
		found = append(found, p)
	}
	return found, nil
})

// loaded is the source, the same for all tests.
func loaded(t *testing.T) []*packages.Package {
	t.Helper()
	found, err := source()
	require.NoError(t, err)
	return found
}

// checked is a package of one file that the module does not have. It may import what is loaded.
func checked(t *testing.T, all []*packages.Package, name, text string) *packages.Package {
	t.Helper()
	p := &packages.Package{Fset: all[0].Fset, TypesInfo: &types.Info{
		Types: map[ast.Expr]types.TypeAndValue{}, Defs: map[*ast.Ident]types.Object{}, Uses: map[*ast.Ident]types.Object{},
	}}
	file, err := parser.ParseFile(p.Fset, name, text, parser.SkipObjectResolution)
	require.NoError(t, err)
	p.Syntax = []*ast.File{file}
	p.Types, err = (&types.Config{Importer: importer(all)}).Check(module+"/"+file.Name.Name, p.Fset, p.Syntax, p.TypesInfo)
	require.NoError(t, err)
	return p
}

// importer finds packages among those that are loaded.
type importer []*packages.Package

func (i importer) Import(path string) (*types.Package, error) {
	for _, p := range i {
		if p.PkgPath == path {
			return p.Types, nil
		}
	}
	return nil, fmt.Errorf("%s is not loaded", path)
}

// declared is a type of the pipeline package, such as Error.
func declared(all []*packages.Package, name string) types.Type {
	for _, p := range all {
		if p.PkgPath == module+"/pipeline" {
			return p.Types.Scope().Lookup(name).Type()
		}
	}
	return nil
}

// functions calls visit with every function and method that is declared, and with nil for what is declared outside of functions.
func functions(all []*packages.Package, visit func(p *packages.Package, f *ast.FuncDecl, body ast.Node)) {
	for _, p := range all {
		for _, file := range p.Syntax {
			for _, decl := range file.Decls {
				f, _ := decl.(*ast.FuncDecl)
				visit(p, f, decl)
			}
		}
	}
}

// rendered compares a page of docs/ with what the code renders, or rewrites it.
func rendered(t *testing.T, name, got string) {
	t.Helper()
	page := filepath.Join("..", name)
	if updating() {
		require.NoError(t, os.WriteFile(page, []byte(got), 0o644))
	}
	want, err := os.ReadFile(page)
	require.NoError(t, err)
	require.Equal(t, string(want), got, "%s and the code differ; run: go test ./server -run Page -update", name)
}

// codes are names as running text shows them.
func codes(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return "`" + strings.Join(names, "`, `") + "`"
}
