package bridge

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"aqueduct/agui"
)

// eventNames finds, in the source of the server, the names that it gives CUSTOM events itself: in composite literals, and in notes
// to one client. A name that is a constant is looked up by its identifier.
func eventNames(t *testing.T) []string {
	t.Helper()
	constants, found := make(map[string]string), make(map[string]bool)
	var exprs []ast.Expr
	for _, root := range []string{"../agui", "../bridge", "../server", "../acpgateway"} {
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			ast.Inspect(file, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.ValueSpec:
					for i, name := range n.Names {
						if i < len(n.Values) {
							if text, ok := literal(n.Values[i]); ok {
								constants[name.Name] = text
							}
						}
					}
				case *ast.CompositeLit:
					of, ok := n.Type.(*ast.SelectorExpr)
					if !ok || of.Sel.Name != "Custom" {
						return true
					}
					for _, e := range n.Elts {
						if kv, ok := e.(*ast.KeyValueExpr); ok && kv.Key.(*ast.Ident).Name == "Name" {
							exprs = append(exprs, kv.Value)
						}
					}
				case *ast.CallExpr:
					if of, ok := n.Fun.(*ast.SelectorExpr); ok && of.Sel.Name == "note" && len(n.Args) == 2 {
						exprs = append(exprs, n.Args[0])
					}
				}
				return true
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, e := range exprs {
		if text, ok := literal(e); ok {
			found[text] = true
		}
		name := ""
		switch e := e.(type) {
		case *ast.Ident:
			name = e.Name
		case *ast.SelectorExpr:
			name = e.Sel.Name
		}
		if text, ok := constants[name]; ok {
			found[text] = true
		}
	}
	var names []string
	for name := range found {
		if name != "on_interrupt" { // of AG-UI agents, by which they ask
			names = append(names, name)
		}
	}
	return names
}

func literal(e ast.Expr) (string, bool) {
	lit, ok := e.(*ast.BasicLit)
	if !ok || lit.Kind != token.STRING {
		return "", false
	}
	text, err := strconv.Unquote(lit.Value)
	return text, err == nil
}

// TestS66EventsOfTheServer: each name that the server gives a CUSTOM event, found in its source, is reserved, however an agent writes
// it; names of agents are not changed.
func TestS66EventsOfTheServer(t *testing.T) {
	t.Parallel()
	names := eventNames(t)
	if len(names) < 20 {
		t.Fatalf("only %d names are found: %v", len(names), names)
	}
	for _, name := range append(names, "aqueduct.", "aqueduct.anything", "acp.anything", "proxy.x", "question_anything", "policy_x") {
		for _, spelled := range []string{
			name, strings.ToUpper(name), " " + name, name + "\n", name[:1] + "\u200b" + name[1:], "\u202e" + name, name + "\u00a0", "\ufe0f" + name, name[:2] + "\u00ad" + name[2:],
		} {
			if got := AgentsEvent(spelled); got != "agent."+spelled {
				t.Errorf("an agent sends %q", got)
			}
			own := strings.HasPrefix(name, "acp.") || strings.HasPrefix(name, "proxy.") // which the translator of ACP sends by this road
			if c, _ := notOurs(&agui.Custom{Name: spelled}).(*agui.Custom); (c.Name == "agent."+spelled) == own {
				t.Errorf("the log gets %q for %q", c.Name, spelled)
			}
		}
	}
	for _, name := range []string{"progress", "on_interrupt", "PredictState", "copilotkit_emit", "state_update", "agent.question_settled", "aqueduct", "question", "acp"} {
		if got := AgentsEvent(name); got != name {
			t.Errorf("%s becomes %s", name, got)
		}
	}
}
