package redact

import (
	"context"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"aqueduct/store"
)

// sourceOf reads from the source of the store which Moves there are, and the names of the parameters of each method of its
// interfaces, the context's first.
func sourceOf(t *testing.T) (moves []string, params map[string][]string) {
	t.Helper()
	files, err := os.ReadDir("../../store")
	if err != nil {
		t.Fatal(err)
	}
	params = make(map[string][]string)
	for _, f := range files {
		if f.IsDir() || !strings.HasSuffix(f.Name(), ".go") || strings.HasSuffix(f.Name(), "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), "../../store/"+f.Name(), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				if of, ok := receiver(n); ok && n.Name.Name == "move" {
					moves = append(moves, of)
				}
			case *ast.InterfaceType:
				for _, m := range n.Methods.List {
					if f, ok := m.Type.(*ast.FuncType); ok {
						params[m.Names[0].Name] = paramNames(f)
					}
				}
			}
			return true
		})
	}
	slices.Sort(moves)
	return moves, params
}

// receiver is the name of a method's type.
func receiver(f *ast.FuncDecl) (string, bool) {
	if f.Recv == nil {
		return "", false
	}
	of, ok := f.Recv.List[0].Type.(*ast.Ident)
	if !ok {
		return "", false
	}
	return of.Name, true
}

// paramNames are a method's parameters.
func paramNames(f *ast.FuncType) (list []string) {
	for _, p := range f.Params.List {
		for _, n := range p.Names {
			list = append(list, n.Name)
		}
	}
	return list
}

// batches is a Store that keeps the last Batch.
type batches struct {
	store.Store
	batch *store.Batch
}

func (b *batches) Commit(_ context.Context, batch *store.Batch) (store.Result, error) {
	b.batch = batch
	return store.Result{}, nil
}

func (b *batches) ToolCall(_ context.Context, _ store.Scope, id string) (store.ToolCall, error) {
	return store.ToolCall{ID: id, SessionID: "s"}, nil
}

// inTx is a Store whose transactions write to a recorder.
type inTx struct {
	store.Store
	to *recorder
}

func (i inTx) InTx(_ context.Context, fn func(store.Tx) error) error { return fn(i.to) }

// recorder is a Tx that keeps what is written. It has the methods of writing; any other panics.
type recorder struct {
	store.Tx
	written []any
	sealed  []store.Sealed
}

func (r *recorder) ToolCall(_ context.Context, _ store.Scope, id string) (store.ToolCall, error) {
	return store.ToolCall{ID: id, SessionID: "s"}, nil
}

func (r *recorder) KeepSealed(_ context.Context, s store.Sealed) error {
	r.sealed = append(r.sealed, s)
	return nil
}

func (r *recorder) write(of ...any) error {
	r.written = append(r.written, of...)
	return nil
}

func (r *recorder) InsertSession(_ context.Context, s store.Session) error { return r.write(s) }
func (r *recorder) SetSessionTitle(_ context.Context, id, title string) error {
	return r.write(id, title)
}
func (r *recorder) InsertTurn(_ context.Context, row store.Turn) error       { return r.write(row) }
func (r *recorder) InsertRun(_ context.Context, row store.Run) error         { return r.write(row) }
func (r *recorder) InsertRecord(_ context.Context, row store.Record) error   { return r.write(row) }
func (r *recorder) InsertMessage(_ context.Context, row store.Message) error { return r.write(row) }
func (r *recorder) InsertMessagePart(_ context.Context, row store.MessagePart) error {
	return r.write(row)
}
func (r *recorder) InsertContextEntry(_ context.Context, row store.ContextEntry) error {
	return r.write(row)
}
func (r *recorder) ReplaceMessageData(_ context.Context, id string, data []byte) error {
	return r.write(id, data)
}
func (r *recorder) InsertToolCall(_ context.Context, row store.ToolCall) error { return r.write(row) }
func (r *recorder) MoveToolCall(_ context.Context, m store.ToolCallMove) (bool, error) {
	return true, r.write(m)
}
func (r *recorder) InsertApproval(_ context.Context, row store.Approval) error { return r.write(row) }
func (r *recorder) MoveApproval(_ context.Context, m store.ApprovalMove) (bool, error) {
	return true, r.write(m)
}
func (r *recorder) InsertCommand(_ context.Context, row store.Command) error   { return r.write(row) }
func (r *recorder) InsertOutbox(_ context.Context, row store.OutboxItem) error { return r.write(row) }
func (r *recorder) UpsertProxy(_ context.Context, row store.Proxy) error       { return r.write(row) }
func (r *recorder) UpsertSandboxInstance(_ context.Context, row store.SandboxInstance) error {
	return r.write(row)
}
func (r *recorder) UpsertTool(_ context.Context, row store.Tool) error   { return r.write(row) }
func (r *recorder) InsertGrant(_ context.Context, row store.Grant) error { return r.write(row) }
func (r *recorder) InsertDelegation(_ context.Context, row store.Delegation) error {
	return r.write(row)
}
func (r *recorder) ProposeEdit(_ context.Context, p store.ApprovalProposal) (bool, error) {
	return true, r.write(p)
}

func (r *recorder) ClaimAgent(_ context.Context, row store.Agent) (bool, error) {
	return true, r.write(row)
}
func (r *recorder) UpdateAgent(_ context.Context, row store.Agent) (bool, error) {
	return true, r.write(row)
}
func (r *recorder) InsertProxy(_ context.Context, row store.Proxy) (bool, error) {
	return true, r.write(row)
}
func (r *recorder) InsertTask(_ context.Context, row store.Task) error { return r.write(row) }
func (r *recorder) MoveTask(_ context.Context, m store.TaskMove) (bool, error) {
	return true, r.write(m)
}
func (r *recorder) AppendAudit(_ context.Context, e store.AuditEntry) (store.AuditEntry, error) {
	return e, r.write(e)
}
func (r *recorder) OutboxRetry(_ context.Context, id string, next time.Time, reason string) error {
	return r.write(id, next, reason)
}
