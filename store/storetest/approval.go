package storetest

import (
	"slices"

	"aqueduct/store"
)

func testApprovals(w *world) {
	s, ctx, all := w.session(alice()), w.ctx, store.System()
	whole := store.Approval{ID: w.id(), SessionID: s.ID, TurnID: "t0", Kind: store.ApprovalInput,
		Status: store.ApprovalApproved, Tool: "prefs", Title: "Ask", Args: []byte(`{"b":1,"a":2}`), ArgsSHA256: "ab",
		Options: []byte(`[{"id":"1"}]`), ResponseSchema: []byte(`{"type":"object"}`), Risk: "low", CreatedAt: at(1),
		ExpiresAt: at(2), DecidedAt: at(3), DecidedBy: "alice", DecidedVia: "chat", Decision: []byte(`{"x":1}`), Reason: "r"}
	w.move(store.InsertApproval{Approval: whole})
	same(w, got[store.Approval](w)(w.s.Approval(ctx, all, whole.ID)), whole)
	w.refuse(store.ErrConflict, store.Batch{Moves: []store.Move{store.InsertApproval{Approval: whole}}})

	want := []string{whole.ID}
	for _, status := range store.AllApprovalStatuses() {
		want = append(want, w.approval(s.ID, "t1", status).ID)
	}
	other := w.session(alice())
	want = append(want, w.approval(other.ID, "t2", store.ApprovalPending).ID)
	slices.Reverse(want)
	page := func(f store.ApprovalFilter, p store.Page) []string {
		w.Helper()
		rows, err := w.s.Approvals(ctx, store.As(alice()), f, p)
		w.ok(err)
		return idsOf(rows, func(a store.Approval) string { return a.ID })
	}
	none := store.ApprovalFilter{}
	same(w, page(none, store.Page{}), want)
	same(w, page(none, store.Page{Limit: 2}), want[:2])
	same(w, page(none, store.Page{Limit: 2, After: want[1]}), want[2:4])
	same(w, page(none, store.Page{Limit: 2, Before: want[4]}), want[2:4])
	same(w, len(page(store.ApprovalFilter{Status: store.ApprovalPending}, store.Page{})), 2)
	same(w, page(store.ApprovalFilter{SessionID: other.ID}, store.Page{}), want[:1])
	same(w, page(store.ApprovalFilter{TurnID: "t0"}, store.Page{}), want[6:])
	same(w, len(page(store.ApprovalFilter{Status: store.ApprovalPending, SessionID: s.ID, TurnID: "t1"}, store.Page{})), 1)
}

func testApprovalMoves(w *world) {
	s := w.session(alice())
	for _, is := range store.AllApprovalStatuses() {
		for _, to := range append(store.AllApprovalStatuses(), "") {
			a := w.approval(s.ID, "t", is)
			move := store.ApprovalMove{ID: a.ID, To: to, DecidedAt: at(7), DecidedBy: "bob", DecidedVia: "rest",
				Decision: []byte(`{"option":"x"}`), Reason: "because"}
			if to == store.ApprovalPending || to == "" {
				w.refuse(store.ErrData, store.Batch{Moves: []store.Move{move}})
				continue
			}
			w.settle(a, move)
		}
	}
}

// settle makes the move, as a Batch and as a request in turn, and checks the row.
func (w *world) settle(a store.Approval, m store.ApprovalMove) {
	w.Helper()
	made := false
	if m.To == store.ApprovalApproved {
		w.tx(func(tx store.Tx) (err error) { made, err = tx.MoveApproval(w.ctx, m); return err })
	} else {
		made = len(w.move(m)) == 0
	}
	if made != (a.Status == store.ApprovalPending) {
		w.Fatalf("%s→%s made %t", a.Status, m.To, made)
	}
	if made {
		a.Status, a.DecidedAt, a.DecidedBy, a.DecidedVia = m.To, m.DecidedAt, m.DecidedBy, m.DecidedVia
		a.Decision, a.Reason = m.Decision, m.Reason
	}
	same(w, got[store.Approval](w)(w.s.Approval(w.ctx, store.System(), a.ID)), a)
}
