// This file reads the tree and counts: lines, functions, comments, documented names, methods. It parses and does not
// type-check, so it works on code that does not compile.

package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// privateWords are words that comments of this project avoid: each stands for several verbs of the field (emit,
// notify, report, return), and a reader who searches for one of those would not find the place.
var privateWords = regexp.MustCompile(`(?i)\b(told|hears?|heard|says|said|somebody|nobody|whoever)\b`)

// sized is a file or a function with its lines.
type sized struct {
	name  string
	lines int
}

// half is what is counted of the product, or of the tests.
type half struct {
	files, functions     []sized
	code, comments       int
	blank                int
	private              int
	exported, documented int
	undocumented         []string
	inits                int
}

func (h *half) lines() int           { return h.code + h.comments + h.blank }
func (h *half) fileLines() []int     { return linesOf(h.files) }
func (h *half) functionLines() []int { return linesOf(h.functions) }

func linesOf(all []sized) []int {
	lines := make([]int, len(all))
	for i, s := range all {
		lines[i] = s.lines
	}
	return lines
}

// methods are one type's, of the product.
type methods struct {
	name  string
	count int
	files map[string]bool
}

// tree is everything that is counted.
type tree struct {
	product, test half
	types         map[string]*methods
	imports       imports
}

// read parses every Go file under root.
func read(root string) (*tree, error) {
	t := &tree{types: map[string]*methods{}}
	rooms := graph{}
	set := token.NewFileSet()
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if name := entry.Name(); path != root && (strings.HasPrefix(name, ".") || name == "node_modules" || name == "testdata" || name == "scripts") {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, ".go") {
			return nil
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		file, err := parser.ParseFile(set, path, text, parser.ParseComments)
		if err != nil {
			return err
		}
		if ast.IsGenerated(file) {
			return nil
		}
		t.add(set, name, string(text), file)
		if !isTest(name) {
			rooms.add(filepath.Dir(name), file)
		}
		return nil
	})
	t.imports = rooms.measure()
	return t, err
}

// isTest reports whether a file only serves tests.
func isTest(name string) bool {
	return strings.HasSuffix(name, "_test.go") || strings.HasPrefix(name, "test/") ||
		strings.HasSuffix(filepath.Dir(name), "test")
}

// add counts one file, for the product or for the tests. Methods and imports are those of the product alone.
func (t *tree) add(set *token.FileSet, name, text string, file *ast.File) {
	h := &t.product
	if isTest(name) {
		h = &t.test
	}
	h.addLines(set, name, text, file)
	for _, d := range file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			lines := set.Position(d.End()).Line - set.Position(d.Pos()).Line + 1
			h.functions = append(h.functions, sized{name + " " + d.Name.Name, lines})
			h.addFunction(name, d)
			if d.Recv != nil && !isTest(name) {
				t.addMethod(name, d)
			}
		case *ast.GenDecl:
			h.addNames(name, d)
		}
	}
}

// addLines counts a file's lines. A line with code and a comment is code.
func (h *half) addLines(set *token.FileSet, name, text string, file *ast.File) {
	inComment := map[int]bool{}
	for _, group := range file.Comments {
		for _, c := range group.List {
			for line := set.Position(c.Pos()).Line; line <= set.Position(c.End()).Line; line++ {
				inComment[line] = true
			}
			for line := range strings.SplitSeq(c.Text, "\n") {
				if privateWords.MatchString(line) {
					h.private++
				}
			}
		}
	}
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	h.files = append(h.files, sized{name, len(lines)})
	block := false // inside /* */
	for i, line := range lines {
		line = strings.TrimSpace(line)
		starts := strings.HasPrefix(line, "//") || strings.HasPrefix(line, "/*")
		switch {
		case line == "":
			h.blank++
		case inComment[i+1] && (starts || block):
			h.comments++
		default:
			h.code++
		}
		block = inComment[i+1] && (block || strings.HasPrefix(line, "/*")) && !strings.Contains(line, "*/")
	}
}

// addFunction counts a function's name, and init functions. A method counts where its type and its own name are
// exported.
func (h *half) addFunction(name string, d *ast.FuncDecl) {
	switch {
	case d.Recv == nil && d.Name.Name == "init":
		h.inits++
	case d.Recv == nil:
		h.addName(name, d.Name.Name, d.Doc != nil)
	case ast.IsExported(receiver(d)):
		h.addName(name, receiver(d)+"."+d.Name.Name, d.Doc != nil && ast.IsExported(d.Name.Name) || !ast.IsExported(d.Name.Name))
	}
}

// addNames counts the types, constants and variables of a declaration. A comment on the group, before a name or
// behind it documents the name.
func (h *half) addNames(name string, d *ast.GenDecl) {
	for _, spec := range d.Specs {
		switch spec := spec.(type) {
		case *ast.TypeSpec:
			h.addName(name, spec.Name.Name, d.Doc != nil || spec.Doc != nil || spec.Comment != nil)
		case *ast.ValueSpec:
			for _, ident := range spec.Names {
				h.addName(name, ident.Name, d.Doc != nil || spec.Doc != nil || spec.Comment != nil)
			}
		}
	}
}

// addName counts an exported name; of "Type.Method" both must be exported.
func (h *half) addName(file, name string, documented bool) {
	if !ast.IsExported(name[strings.LastIndexByte(name, '.')+1:]) {
		return
	}
	h.exported++
	if documented {
		h.documented++
	} else {
		h.undocumented = append(h.undocumented, file+": "+name)
	}
}

// receiver is the name of a method's type.
func receiver(d *ast.FuncDecl) string {
	typ := d.Recv.List[0].Type
	if star, ok := typ.(*ast.StarExpr); ok {
		typ = star.X
	}
	switch generic := typ.(type) {
	case *ast.IndexExpr:
		typ = generic.X
	case *ast.IndexListExpr:
		typ = generic.X
	}
	if ident, ok := typ.(*ast.Ident); ok {
		return ident.Name
	}
	return ""
}

func (t *tree) addMethod(file string, d *ast.FuncDecl) {
	name := filepath.Dir(file) + "." + receiver(d)
	m := t.types[name]
	if m == nil {
		m = &methods{name: name, files: map[string]bool{}}
		t.types[name] = m
	}
	m.count++
	m.files[file] = true
}

func (t *tree) sortedTypes() []*methods {
	var all []*methods
	for _, m := range t.types {
		all = append(all, m)
	}
	slices.SortFunc(all, func(a, b *methods) int { return strings.Compare(a.name, b.name) })
	return all
}

// biggestType is how many methods one type has at most, and over how many files the methods of one are spread at most.
func (t *tree) biggestType() (methods, files int) {
	for _, m := range t.types {
		methods, files = max(methods, m.count), max(files, len(m.files))
	}
	return methods, files
}
