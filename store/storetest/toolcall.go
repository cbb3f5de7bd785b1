package storetest

import (
	"aqueduct/store"
)

func toolCallID(c store.ToolCall) string { return c.ID }

func testToolCalls(w *world) {
	s, ctx, all := w.session(alice()), w.ctx, store.System()
	whole := store.ToolCall{ID: w.id(), SessionID: s.ID, TurnID: "t1", RunID: "r1", Name: "buy", Kind: store.KindClient,
		Status: store.ToolSucceeded, Args: []byte(`{"b":1,"a":2}`), Result: []byte(`"ok"`), ErrorCode: "c",
		UpstreamID: "up", Told: true, CreatedAt: at(1), ExpiresAt: at(2), EndedAt: at(3), DeliveredAt: at(4)}
	w.move(store.InsertToolCall{ToolCall: whole})
	same(w, got[store.ToolCall](w)(w.s.ToolCall(ctx, all, whole.ID)), whole)
	w.refuse(store.ErrConflict, store.Batch{Moves: []store.Move{store.InsertToolCall{ToolCall: whole}}})

	var open, turn []string
	turn = append(turn, whole.ID)
	for _, status := range store.AllToolCallStatuses() {
		c := w.toolCall(s.ID, "t1", status)
		turn = append(turn, c.ID)
		if status == store.ToolWaitingApproval || status == store.ToolWaitingClient {
			open = append(open, c.ID)
		}
	}
	same(w, idsOf(got[[]store.ToolCall](w)(w.s.OpenToolCalls(ctx, all, s.ID)), toolCallID), open)
	same(w, idsOf(got[[]store.ToolCall](w)(w.s.ToolCallsOfTurn(ctx, all, "t1")), toolCallID), turn)

	expiring := func(status store.ToolCallStatus, ms int64) string {
		c := store.ToolCall{ID: w.id(), SessionID: s.ID, TurnID: "t2", Name: "buy", Kind: store.KindQuestion,
			Status: status, CreatedAt: at(1), ExpiresAt: at(ms)}
		w.move(store.InsertToolCall{ToolCall: c})
		return c.ID
	}
	late := expiring(store.ToolWaitingApproval, 300)
	soon := expiring(store.ToolWaitingClient, 100)
	expiring(store.ToolTimeout, 50)
	same(w, idsOf(got[[]store.ToolCall](w)(w.s.ExpiringToolCalls(ctx, all, 10)), toolCallID), []string{soon, late})
	same(w, idsOf(got[[]store.ToolCall](w)(w.s.ExpiringToolCalls(ctx, all, 1)), toolCallID), []string{soon})
}

func testToolCallMoves(w *world) {
	s := w.session(alice())
	m := machine[store.ToolCallStatus]{
		insert: func(st store.ToolCallStatus) string { return w.toolCall(s.ID, "t", st).ID },
		move: func(id string, from, to store.ToolCallStatus) store.Move {
			return store.ToolCallMove{ID: id, From: from, To: to}
		},
		status: func(id string) (store.ToolCallStatus, error) {
			c, err := w.s.ToolCall(w.ctx, store.System(), id)
			return c.Status, err
		},
	}
	pairs(w, store.AllToolCallStatuses(), m)

	// A request moves through the same machine.
	id := m.insert(store.ToolWaitingApproval)
	move := store.ToolCallMove{ID: id, From: store.ToolWaitingApproval, To: store.ToolDispatched}
	for _, want := range []bool{true, false} {
		w.tx(func(tx store.Tx) error { same(w, got[bool](w)(tx.MoveToolCall(w.ctx, move)), want); return nil })
	}
	move.From, move.To = store.ToolSucceeded, store.ToolRunning
	w.is(w.s.InTx(w.ctx, func(tx store.Tx) error { _, err := tx.MoveToolCall(w.ctx, move); return err }), store.ErrData)
}

func testToolCallMembers(w *world) {
	s := w.session(alice())
	c := w.toolCall(s.ID, "t", store.ToolDispatched)
	w.move(store.ToolCallMove{ID: c.ID, From: store.ToolDispatched, RunID: "r", Told: true})
	c.RunID, c.Told = "r", true
	same(w, got[store.ToolCall](w)(w.s.ToolCall(w.ctx, store.System(), c.ID)), c)
	w.move(store.ToolCallMove{ID: c.ID, From: store.ToolDispatched, To: store.ToolFailed, Result: []byte(`{"no":1}`),
		ErrorCode: "rejected", EndedAt: at(9)})
	c.Status, c.Result, c.ErrorCode, c.EndedAt = store.ToolFailed, []byte(`{"no":1}`), "rejected", at(9)
	same(w, got[store.ToolCall](w)(w.s.ToolCall(w.ctx, store.System(), c.ID)), c)
}

func testToolCallStamps(w *world) {
	s := w.session(alice())
	for _, status := range store.AllToolCallStatuses() {
		c := w.toolCall(s.ID, "t", status)
		waits := status == store.ToolWaitingApproval || status == store.ToolWaitingClient
		lost := w.move(store.ToolCallShown{ID: c.ID, RunID: "r7"})
		if waits != (len(lost) == 0) {
			w.Errorf("ToolCallShown on %s: lost %v", status, lost)
		}
		if waits {
			c.RunID = "r7"
		}
		same(w, got[store.ToolCall](w)(w.s.ToolCall(w.ctx, store.System(), c.ID)), c)
	}
	c := w.toolCall(s.ID, "t", store.ToolDispatched)
	same(w, len(w.move(store.ToolCallTold{ID: c.ID}, store.ToolCallDelivered{ID: c.ID, At: at(5)})), 0)
	same(w, w.move(store.ToolCallTold{ID: c.ID}, store.ToolCallDelivered{ID: c.ID, At: at(6)}), []int{0, 1})
	c.Told, c.DeliveredAt = true, at(5)
	same(w, got[store.ToolCall](w)(w.s.ToolCall(w.ctx, store.System(), c.ID)), c)
}
