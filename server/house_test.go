package server_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const module = "github.com/smg-go/smg"

// root is the module's folder, seen from this package.
const root = ".."

// listed is what these tests read of `go list -json`. Imports of test files are not among Imports: they may look up.
type listed struct {
	ImportPath, Dir string
	GoFiles         []string
	Imports         []string
}

// folder is the package's place in the module, such as stages/forward.
func (p listed) folder() string {
	return strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/")
}

// packages are the module's packages; those that consist of tests alone are left out.
func packages(t *testing.T) (found []listed) {
	t.Helper()
	cmd := exec.Command("go", "list", "-json=ImportPath,Dir,GoFiles,Imports", "./...")
	cmd.Dir = root
	out, err := cmd.Output()
	require.NoError(t, err)
	for in := json.NewDecoder(bytes.NewReader(out)); in.More(); {
		var p listed
		require.NoError(t, in.Decode(&p))
		if len(p.GoFiles) > 0 {
			found = append(found, p)
		}
	}
	require.NotEmpty(t, found)
	return found
}

// floors are those of DESIGN.md, section 2. "x/*" stands for every package below x that has no floor of its own.
var floors = map[string]int{
	"telemetry": 0, "workers": 1, "workers/launch": 2, "pipeline": 2, "discovery": 2,
	"stages/forward": 3, "stages/policy": 3, "stages/pd": 4, "stages": 5, "cmd/mockengine/engine": 5, "discovery/clustertest": 6,
	"server": 6, "cmd/bench/replay": 6, "cmd/*": 7, "examples/*": 7,
}

func floorOf(folder string) (floor int, known bool) {
	if floor, known = floors[folder]; known {
		return floor, true
	}
	top, _, below := strings.Cut(folder, "/")
	floor, known = floors[top+"/*"]
	return floor, known && below
}

// misplaced are the imports of a package that are not below its own floor.
func misplaced(p listed) (wrong []string) {
	floor, known := floorOf(p.folder())
	if !known {
		return []string{fmt.Sprintf("%s has no floor; give it one in DESIGN.md and in this test", p.folder())}
	}
	for _, i := range p.Imports {
		below, ours := strings.CutPrefix(i, module+"/")
		if !ours {
			continue
		}
		if at, known := floorOf(below); !known || at >= floor {
			wrong = append(wrong, fmt.Sprintf("%s (floor %d) imports %s (floor %d); a package imports only from below its own floor", p.folder(), floor, below, at))
		}
	}
	return wrong
}

// DESIGN.md, section 2.
func TestPackagesImportOnlyFromFloorsBelow(t *testing.T) {
	for _, p := range packages(t) {
		for _, sentence := range misplaced(p) {
			t.Error(sentence)
		}
	}
}

// DESIGN.md, section 2: the test above names what is wrong.
func TestAnImportThatLooksUpIsNamed(t *testing.T) {
	tests := []struct {
		name, folder, imports string
		want                  []string
	}{
		{"down", "pipeline", "workers", nil},
		{"from the cellar", "cmd/smg", "server", nil},
		{"not ours", "telemetry", "", nil},
		{"up", "workers", "pipeline", []string{"workers (floor 1) imports pipeline (floor 2); a package imports only from below its own floor"}},
		{"next door", "pipeline", "discovery", []string{"pipeline (floor 2) imports discovery (floor 2); a package imports only from below its own floor"}},
		{"an engine is below a program", "cmd/mockengine", "cmd/mockengine/engine", nil},
		{"a package that nobody planned", "helpers", "workers", []string{"helpers has no floor; give it one in DESIGN.md and in this test"}},
		{"a folder of programs is no program", "cmd", "workers", []string{"cmd has no floor; give it one in DESIGN.md and in this test"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			imports := []string{"fmt", "example.org/" + tt.folder}
			if tt.imports != "" {
				imports = append(imports, module+"/"+tt.imports)
			}
			require.Equal(t, tt.want, misplaced(listed{ImportPath: module + "/" + tt.folder, Imports: imports}))
		})
	}
}

// DESIGN.md, section 2: three libraries have one place each.
func TestLibrariesStayInTheirPlace(t *testing.T) {
	places := map[string]string{"github.com/alecthomas/kong": "cmd", "github.com/labstack/echo": "server", "k8s.io/client-go": "discovery"}
	for _, p := range packages(t) {
		for library, place := range places {
			for _, i := range p.Imports {
				if within(i, library) && !within(p.folder(), place) {
					t.Errorf("%s imports %s, which belongs in %s alone", p.folder(), i, place)
				}
			}
		}
	}
}

// within tells whether a path is another or below it.
func within(p, other string) bool { return p == other || strings.HasPrefix(p, other+"/") }

// DESIGN.md, section 7, and STYLE.md, i: a first page per package, and a comment on every exported name.
func TestEveryExportedNameHasAComment(t *testing.T) {
	for _, p := range packages(t) {
		files := token.NewFileSet()
		first := false
		for _, name := range p.GoFiles {
			f, err := parser.ParseFile(files, filepath.Join(p.Dir, name), nil, parser.ParseComments|parser.SkipObjectResolution)
			require.NoError(t, err)
			if name == "doc.go" {
				first = f.Doc.Text() != ""
			}
			for _, n := range uncommented(f) {
				t.Errorf("%s/%s: %s has no comment", p.folder(), name, n)
			}
		}
		if !first {
			t.Errorf("%s has no doc.go with a comment for the package", p.folder())
		}
	}
}

// uncommented are the exported names that a file declares without a comment. A group of constants or variables may have one
// for all. The methods Error, String and Unwrap say what they do by their names.
func uncommented(f *ast.File) (bare []string) {
	for _, decl := range f.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			if d.Doc.Text() == "" && exportedFunc(d) {
				bare = append(bare, d.Name.Name)
			}
		case *ast.GenDecl:
			if d.Doc.Text() == "" {
				bare = append(bare, uncommentedSpecs(d.Specs)...)
			}
		}
	}
	return bare
}

func uncommentedSpecs(specs []ast.Spec) (bare []string) {
	for _, spec := range specs {
		switch s := spec.(type) {
		case *ast.TypeSpec:
			if s.Doc.Text() == "" && s.Name.IsExported() {
				bare = append(bare, s.Name.Name)
			}
		case *ast.ValueSpec:
			for _, n := range s.Names {
				if s.Doc.Text() == "" && s.Comment.Text() == "" && n.IsExported() {
					bare = append(bare, n.Name)
				}
			}
		}
	}
	return bare
}

// exportedFunc tells whether a function, or a method of an exported type, is for other packages to call.
func exportedFunc(d *ast.FuncDecl) bool {
	if !d.Name.IsExported() || d.Recv == nil {
		return d.Name.IsExported()
	}
	if slices.Contains([]string{"Error", "String", "Unwrap"}, d.Name.Name) {
		return false
	}
	of := d.Recv.List[0].Type
	if p, ok := of.(*ast.StarExpr); ok {
		of = p.X
	}
	switch generic := of.(type) {
	case *ast.IndexExpr:
		of = generic.X
	case *ast.IndexListExpr:
		of = generic.X
	}
	name, ok := of.(*ast.Ident)
	return ok && name.IsExported()
}

// STYLE.md, i: the test above finds what has no comment, and nothing else.
func TestANameWithoutACommentIsFound(t *testing.T) {
	f, err := parser.ParseFile(token.NewFileSet(), "x.go", `package x
type Bare struct{}
// Told is.
type Told[T any] struct{}
func (t *Told[T]) Method() {}
func (t *Told[T]) private() {}
func (Told[T]) Error() string { return "" }
func (b hidden) Method() {}
func Func() {}
// Good is.
func Good() {}
// All of them.
const (
	A = 1
	B = 2
)
const (
	C = 1 // is one
	D = 2
	// E is five.
	E = 5
	f = 6
)
var V, w = 1, 2
type ( Group int )
`, parser.ParseComments)
	require.NoError(t, err)
	require.Equal(t, []string{"Bare", "Method", "Func", "D", "V", "Group"}, uncommented(f))
}

// deep are the folders that may lie deeper than two levels: DESIGN.md, section 2, and where helm looks for the templates of a chart.
var deep = []string{"cmd/mockengine/engine", "cmd/bench/replay", "discovery/internal/testcluster", "examples/helm/templates"}

// DESIGN.md, sections 2 and 7: two levels of folders, and small files.
func TestFoldersAreShallowAndFilesShort(t *testing.T) {
	const levels, lines = 2, 600
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		folder := filepath.ToSlash(rel)
		if d.IsDir() {
			if folder != "." && strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" {
				return fs.SkipDir
			}
			if strings.Count(folder, "/") >= levels && !slices.Contains(deep, folder) {
				t.Errorf("%s is deeper than %d levels", folder, levels)
			}
			return nil
		}
		if path.Ext(name) != ".go" {
			return nil
		}
		text, err := os.ReadFile(name)
		if n := bytes.Count(text, []byte("\n")); n > lines {
			t.Errorf("%s has %d lines, more than %d", folder, n, lines)
		}
		return err
	})
	require.NoError(t, err)
}
