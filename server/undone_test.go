package server_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"aqueduct/store"
)

// undoing is a store that undoes a transaction in which an approval was moved, as a commit that fails does.
type undoing struct {
	store.Store
	armed  atomic.Bool
	undone atomic.Int32
}

func (s *undoing) InTx(ctx context.Context, do func(store.Tx) error) error {
	return s.Store.InTx(ctx, func(tx store.Tx) error {
		moved := false
		if err := do(undoneTx{tx, &moved}); err != nil || !moved || !s.armed.Load() {
			return err
		}
		s.undone.Add(1)
		return fmt.Errorf("%w: the commit failed", errors.ErrUnsupported)
	})
}

type undoneTx struct {
	store.Tx
	moved *bool
}

func (tx undoneTx) MoveApproval(ctx context.Context, m store.ApprovalMove) (bool, error) {
	*tx.moved = true
	return tx.Tx.MoveApproval(ctx, m)
}

// TestUndoneDecisionIsNoOutcome: a decision that the store undid is answered with an error on every surface, and never as one
// that was made: another one may win after it.
func TestUndoneDecisionIsNoOutcome(t *testing.T) {
	t.Parallel()
	for name, reject := range map[string]func(h *env, id string) (answered string){
		"batch": func(h *env, id string) string {
			return h.do("POST", "/api/approvals/decisions", `{"decisions":[{"approval_id":"`+id+`","decision":"reject"}]}`).body
		},
		"single": func(h *env, id string) string { return h.decide(id, `{"decision":"reject"}`).body },
		"link": func(h *env, id string) string {
			path := h.link()
			_, nonce := h.visit(path)
			return h.click(path, nonce, pageOption(id, 2)).body
		},
		"permission socket": func(h *env, id string) string {
			page := h.permissions("/ws/permissions/T")
			page.next("agent_tool_permission_request")
			page.respond(id, `"approved":false`)
			raw, err := receive(page.conn)
			return fmt.Sprint(string(raw), err)
		},
		"chat": func(h *env, id string) string {
			return h.do("POST", "/api/agui/chat", `{"threadId":"T","runId":"R2","protocolVersion":"1.0","messages":[],"resume":[{"interruptId":"`+id+`","status":"resolved","payload":{"approved":false}}]}`).body
		},
	} {
		t.Run(name, func(t *testing.T) {
			onBothDatabases(t, func(t *testing.T, db database) {
				var undo *undoing
				h := newEnvWith(t, asks, plan{open: func(t testing.TB) (store.Store, error) {
					st, err := db.open(t)
					undo = &undoing{Store: st}
					return undo, err
				}})
				h.chat("T", "R1", "may I?")
				id := h.question()
				undo.armed.Store(true)
				answered := reject(h, id)
				undo.armed.Store(false)
				if undo.undone.Load() == 0 {
					t.Fatalf("nothing was undone: %s", answered)
				}
				for _, outcome := range []string{"REJECTED", "rejected", "denied", `"won":true`} {
					if strings.Contains(answered, outcome) {
						t.Errorf("an undone decision is answered with %s: %s", outcome, answered)
					}
				}
				if !strings.Contains(answered, "internal") {
					t.Errorf("an undone decision is answered without an error: %s", answered)
				}
				if got := h.decide(id, `{"decision":"approve"}`); got.status != 200 || !strings.Contains(got.body, `"won":true`) {
					t.Errorf("the next decision: %d %s", got.status, got.body)
				}
				if is := h.status(id); is.Status != store.ApprovalApproved {
					t.Errorf("the approval is %s", is.Status)
				}
			})
		})
	}
}
