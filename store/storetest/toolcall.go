package storetest

import (
	"fmt"
	"time"

	"aqueduct/store"
)

func toolCallID(c store.ToolCall) string { return c.ID }

func testToolCalls(env *storeEnv) {
	s, ctx, all := env.session(alice()), env.ctx, store.System()
	whole := store.ToolCall{ID: env.id(), SessionID: s.ID, TurnID: "t1", RunID: "r1", Name: "buy", Kind: store.KindClient,
		Status: store.ToolSucceeded, Args: []byte(`{"b":1,"a":2}`), Result: []byte(`"ok"`), ErrorCode: "c",
		ArgsSHA256: "ab", Edited: true, Error: []byte(`{"code":"c"}`), IdempotencyKey: "k", Risk: "high", GrantID: "g",
		OnFailure: store.FailureEndsRun, Timeout: 1500 * time.Millisecond, Replica: "r9", RunningAt: at(5),
		UpstreamID: "up", Event: []byte(`"{\"q\":1}"`), InTranscript: true, Carded: true, CreatedAt: at(1), ExpiresAt: at(2), EndedAt: at(3), DeliveredAt: at(4)}
	env.move(store.InsertToolCall{ToolCall: whole})
	same(env, got[store.ToolCall](env)(env.s.ToolCall(ctx, all, whole.ID)), whole)
	env.refuse(store.ErrConflict, store.Batch{Moves: []store.Move{store.InsertToolCall{ToolCall: whole}}})

	var open, turn []string
	turn = append(turn, whole.ID)
	for _, status := range store.AllToolCallStatuses() {
		c := env.toolCall(s.ID, "t1", status)
		turn = append(turn, c.ID)
		if status == store.ToolWaitingApproval || status == store.ToolWaitingClient {
			open = append(open, c.ID)
		}
	}
	// An id does not tell the time: a Question's follows from what its agent named it.
	first := whole
	first.ID, first.Status, first.CreatedAt, first.IdempotencyKey = "zz-"+whole.ID, store.ToolWaitingClient, at(0), "k0"
	first.ExpiresAt = time.Time{}
	env.move(store.InsertToolCall{ToolCall: first})
	turn, open = append([]string{first.ID}, turn...), append([]string{first.ID}, open...)
	same(env, idsOf(got[[]store.ToolCall](env)(env.s.OpenToolCalls(ctx, all, s.ID)), toolCallID), open)
	same(env, idsOf(got[[]store.ToolCall](env)(env.s.ToolCallsOfTurn(ctx, all, "t1")), toolCallID), turn)
	underWay := 0
	for _, c := range got[[]store.ToolCall](env)(env.s.ToolCallsOfTurn(ctx, all, "t1")) {
		if !c.Status.Terminal() {
			underWay++
		}
	}
	n, unended, err := env.s.CountToolCalls(ctx, all, "t1")
	env.is(err, nil)
	same(env, []int{n, unended}, []int{len(turn), underWay})

	expiring := func(status store.ToolCallStatus, ms int64) string {
		c := store.ToolCall{ID: env.id(), SessionID: s.ID, TurnID: "t2", Name: "buy", Kind: store.KindQuestion,
			Status: status, CreatedAt: at(1), ExpiresAt: at(ms)}
		env.move(store.InsertToolCall{ToolCall: c})
		return c.ID
	}
	late := expiring(store.ToolWaitingApproval, 300)
	soon := expiring(store.ToolWaitingClient, 100)
	expiring(store.ToolTimeout, 50)
	same(env, idsOf(got[[]store.ToolCall](env)(env.s.ExpiringToolCalls(ctx, all, 10)), toolCallID), []string{soon, late})
	same(env, idsOf(got[[]store.ToolCall](env)(env.s.ExpiringToolCalls(ctx, all, 1)), toolCallID), []string{soon})
}

func testToolCallMoves(env *storeEnv) {
	s := env.session(alice())
	m := machine[store.ToolCallStatus]{
		insert: func(st store.ToolCallStatus) string { return env.toolCall(s.ID, "t", st).ID },
		move: func(id string, from, to store.ToolCallStatus) store.Move {
			return store.ToolCallMove{ID: id, From: from, To: to}
		},
		status: func(id string) (store.ToolCallStatus, error) {
			c, err := env.s.ToolCall(env.ctx, store.System(), id)
			return c.Status, err
		},
	}
	pairs(env, store.AllToolCallStatuses(), m)

	// A request moves through the same machine.
	id := m.insert(store.ToolWaitingApproval)
	move := store.ToolCallMove{ID: id, From: store.ToolWaitingApproval, To: store.ToolDispatched}
	for _, want := range []bool{true, false} {
		env.tx(func(tx store.Tx) error { same(env, got[bool](env)(tx.MoveToolCall(env.ctx, move)), want); return nil })
	}
	move.From, move.To = store.ToolSucceeded, store.ToolRunning
	env.is(env.s.InTx(env.ctx, func(tx store.Tx) error { _, err := tx.MoveToolCall(env.ctx, move); return err }), store.ErrData)
}

func testToolCallMembers(env *storeEnv) {
	s := env.session(alice())
	c := env.toolCall(s.ID, "t", store.ToolDispatched)
	env.move(store.ToolCallShown{ID: c.ID, RunID: "r", Anyway: true, Carded: true}, store.ToolCallMove{ID: c.ID, From: store.ToolDispatched, RunID: "r", InTranscript: true, CardAnswered: true})
	c.RunID, c.InTranscript = "r", true
	same(env, got[store.ToolCall](env)(env.s.ToolCall(env.ctx, store.System(), c.ID)), c)
	env.move(store.ToolCallMove{ID: c.ID, From: store.ToolDispatched, To: store.ToolFailed, Result: []byte(`{"no":1}`),
		ErrorCode: "rejected", EndedAt: at(9)})
	c.Status, c.Result, c.ErrorCode, c.EndedAt = store.ToolFailed, []byte(`{"no":1}`), "rejected", at(9)
	same(env, got[store.ToolCall](env)(env.s.ToolCall(env.ctx, store.System(), c.ID)), c)
}

func testToolCallStamps(env *storeEnv) {
	s := env.session(alice())
	for _, status := range store.AllToolCallStatuses() {
		c := env.toolCall(s.ID, "t", status)
		waits := status == store.ToolWaitingApproval || status == store.ToolWaitingClient
		lost := env.move(store.ToolCallShown{ID: c.ID, RunID: "r7"})
		if waits != (len(lost) == 0) {
			env.Errorf("ToolCallShown on %s: lost %v", status, lost)
		}
		if waits {
			c.RunID = "r7"
		}
		same(env, got[store.ToolCall](env)(env.s.ToolCall(env.ctx, store.System(), c.ID)), c)
		same(env, len(env.move(store.ToolCallShown{ID: c.ID, RunID: "r8", Anyway: true, Carded: true})), 0)
		same(env, len(env.move(store.ToolCallShown{ID: c.ID, RunID: "r8", Anyway: true})), 0)
		c.RunID, c.Carded = "r8", true
		same(env, got[store.ToolCall](env)(env.s.ToolCall(env.ctx, store.System(), c.ID)), c)
	}
	c := env.toolCall(s.ID, "t", store.ToolDispatched)
	same(env, len(env.move(store.ToolCallInTranscript{ID: c.ID}, store.ToolCallDelivered{ID: c.ID, At: at(5)})), 0)
	same(env, env.move(store.ToolCallInTranscript{ID: c.ID}, store.ToolCallDelivered{ID: c.ID, At: at(6)}), []int{0, 1})
	c.InTranscript, c.DeliveredAt = true, at(5)
	same(env, got[store.ToolCall](env)(env.s.ToolCall(env.ctx, store.System(), c.ID)), c)
}

// serverCall inserts one as a request does.
func insertServerCall(env *storeEnv, sessionID string, c store.ToolCall) store.ToolCall {
	env.Helper()
	c.ID, c.SessionID, c.Name, c.CreatedAt = env.id(), sessionID, "buy", at(1)
	if c.Kind == "" {
		c.Kind = store.KindServer
	}
	if c.TurnID == "" {
		c.TurnID = "t"
	}
	env.tx(func(tx store.Tx) error { return tx.InsertToolCall(env.ctx, c) })
	return c
}

// testToolCallWork: what is to be dispatched or taken up is found, Questions and what has
// ended never.
func testToolCallWork(env *storeEnv) {
	s, ctx, all := env.session(alice()), env.ctx, store.System()
	byStatus := map[store.ToolCallStatus]string{}
	for _, status := range store.AllToolCallStatuses() {
		byStatus[status] = insertServerCall(env, s.ID, store.ToolCall{Status: status, Replica: env.replica}).ID
		env.toolCall(s.ID, "t", status)
	}
	client := insertServerCall(env, s.ID, store.ToolCall{Kind: store.KindClient, Status: store.ToolDispatched}).ID
	listed := func(kind store.ToolCallKind, limit int, statuses ...store.ToolCallStatus) []string {
		env.Helper()
		return idsOf(got[[]store.ToolCall](env)(env.s.ToolCallsByStatus(ctx, all, statuses, kind, limit)), toolCallID)
	}
	same(env, listed(store.KindServer, 0, store.ToolDispatched), []string{byStatus[store.ToolDispatched]})
	same(env, listed("", 0, store.ToolDispatched, store.ToolRunning),
		[]string{byStatus[store.ToolDispatched], byStatus[store.ToolRunning], client})
	same(env, len(listed("", 2, store.ToolDispatched, store.ToolRunning)), 2)
	same(env, listed(store.KindClient, 0), []string{client})
	same(env, len(listed(store.KindQuestion, 0)), 0)
	for _, status := range store.AllToolCallStatuses() {
		same(env, len(listed(store.KindServer, 0, status)) == 0, status.Terminal())
	}

	var abandoned []string
	for _, turn := range []store.TurnStatus{store.TurnDone, store.TurnFailed, store.TurnCancelled, store.TurnPausedTool} {
		id := env.turn(s.ID, turn).ID
		for _, status := range []store.ToolCallStatus{store.ToolWaitingApproval, store.ToolWaitingClient, store.ToolDispatched} {
			c := insertServerCall(env, s.ID, store.ToolCall{Status: status, TurnID: id})
			if turn.Terminal() && status != store.ToolDispatched {
				abandoned = append(abandoned, c.ID)
			}
		}
		env.toolCall(s.ID, id, store.ToolWaitingApproval)
	}
	same(env, idsOf(got[[]store.ToolCall](env)(env.s.AbandonedToolCalls(ctx, all, 0)), toolCallID), abandoned)
	same(env, idsOf(got[[]store.ToolCall](env)(env.s.AbandonedToolCalls(ctx, all, 2)), toolCallID), abandoned[:2])

	orphansOf := func(replica string) []string {
		env.Helper()
		return idsOf(got[[]store.ToolCall](env)(env.s.OrphanedToolCalls(ctx, all, replica, 0)), toolCallID)
	}
	orphans := func() []string { return orphansOf("") }
	same(env, len(orphans()), 0)
	same(env, orphansOf(env.replica), []string{byStatus[store.ToolRunning]})
	lost := insertServerCall(env, s.ID, store.ToolCall{Status: store.ToolRunning, Replica: "gone"}).ID
	insertServerCall(env, s.ID, store.ToolCall{Status: store.ToolRunning, Replica: "gone", Kind: store.KindClient})
	same(env, orphans(), []string{lost})
	env.ok(env.s.Fence(ctx, env.replica))
	same(env, orphans(), []string{byStatus[store.ToolRunning], lost})
}

func testToolCallKeys(env *storeEnv) {
	s := env.session(alice())
	first := insertServerCall(env, s.ID, store.ToolCall{Status: store.ToolCreated, IdempotencyKey: "k"})
	same(env, got[store.ToolCall](env)(env.s.ToolCallByKey(env.ctx, store.As(alice()), "t", "k")), first)
	insertServerCall(env, s.ID, store.ToolCall{Status: store.ToolCreated, IdempotencyKey: "k", TurnID: "t2"})
	for range 2 { // none is no key
		insertServerCall(env, s.ID, store.ToolCall{Status: store.ToolCreated})
	}
	again := first
	again.ID = env.id()
	env.is(env.s.InTx(env.ctx, func(tx store.Tx) error { return tx.InsertToolCall(env.ctx, again) }), store.ErrConflict)
	env.refuse(store.ErrConflict, store.Batch{Moves: []store.Move{store.InsertToolCall{ToolCall: again}}})
	_, err := env.s.ToolCallByKey(env.ctx, store.System(), "t", "")
	env.is(err, store.ErrNotFound)
}

// testTakeToolCall: a call that runs from the beginning is taken once, of a Turn that is not
// over, and what is lost spoils nothing beside it.
func testTakeToolCall(env *storeEnv) {
	s := env.session(alice())
	call := func(turnID string) store.ToolCall {
		return store.ToolCall{ID: env.id(), SessionID: s.ID, TurnID: turnID, Name: "buy", Kind: store.KindServer, Status: store.ToolRunning,
			Args: []byte(`{"n":1}`), ArgsSHA256: "a", IdempotencyKey: "k", Timeout: time.Second, Replica: "r", RunningAt: at(2), CreatedAt: at(1)}
	}
	for _, status := range store.AllTurnStatuses() {
		c := call(env.turn(s.ID, status).ID)
		if status.Terminal() {
			same(env, env.move(store.TakeToolCall{ToolCall: c}), []int{0})
			_, err := env.s.ToolCall(env.ctx, store.System(), c.ID)
			env.is(err, store.ErrNotFound)
			continue
		}
		sameKey, other := call(c.TurnID), call(c.TurnID)
		other.IdempotencyKey = ""
		same(env, env.move(store.TakeToolCall{ToolCall: c}, store.TakeToolCall{ToolCall: sameKey}, store.TakeToolCall{ToolCall: c},
			store.TakeToolCall{ToolCall: other}), []int{1, 2})
		same(env, got[[]store.ToolCall](env)(env.s.ToolCallsOfTurn(env.ctx, store.System(), c.TurnID)), []store.ToolCall{c, other})
	}
	same(env, env.move(store.TakeToolCall{ToolCall: call("none")}), []int{0})
}

// testToolCallAttempts follows one through a person's change, a crash and a second run, by
// a Batch and by a request in turn.
func testToolCallAttempts(env *storeEnv) {
	c := insertServerCall(env, env.session(alice()).ID, store.ToolCall{Status: store.ToolWaitingApproval, Args: []byte(`{"n":1}`), ArgsSHA256: "a"})
	byBatch := false
	move := func(m store.ToolCallMove, want bool) {
		env.Helper()
		m.ID, m.From = c.ID, c.Status
		made := false
		if byBatch = !byBatch; byBatch {
			made = len(env.move(m)) == 0
		} else {
			env.tx(func(tx store.Tx) (err error) { made, err = tx.MoveToolCall(env.ctx, m); return err })
		}
		same(env, made, want)
		if made && m.To != "" {
			c.Status = m.To
		}
		same(env, got[store.ToolCall](env)(env.s.ToolCall(env.ctx, store.System(), c.ID)), c)
	}
	for range 2 { // so that each way of moving makes each move
		c = insertServerCall(env, c.SessionID, store.ToolCall{Status: store.ToolWaitingApproval, Args: []byte(`{"n":1}`), ArgsSHA256: "a"})
		edited := store.ToolCallMove{To: store.ToolDispatched, Args: []byte(`{"n":2}`), ArgsSHA256: "b", Risk: "high", GrantID: "g", ExpiresAt: at(50)}
		c.Args, c.ArgsSHA256, c.Edited, c.Risk, c.GrantID, c.ExpiresAt = edited.Args, "b", true, "high", "g", at(50)
		move(edited, true)
		c.Replica, c.RunningAt = "one", at(5)
		move(store.ToolCallMove{To: store.ToolRunning, Replica: "one", RunningAt: at(5)}, true)
		move(store.ToolCallMove{To: store.ToolSucceeded, OnlyOf: "two", Result: []byte(`1`)}, false)
		c.ErrorCode, c.Error = "lost", []byte(`{"code":"lost"}`)
		move(store.ToolCallMove{To: store.ToolUnknown, OnlyOf: "one", ErrorCode: "lost", Error: c.Error}, true)
		c.ErrorCode, c.Error = "", nil
		move(store.ToolCallMove{To: store.ToolDispatched}, true)
		c.Replica, c.RunningAt = "two", at(6)
		move(store.ToolCallMove{To: store.ToolRunning, Replica: "two", RunningAt: at(6)}, true)
		move(store.ToolCallMove{To: store.ToolSucceeded, OnlyOf: "one", Result: []byte(`1`)}, false)
		c.Result, c.EndedAt = []byte(`{"ok":true}`), at(7)
		move(store.ToolCallMove{To: store.ToolSucceeded, OnlyOf: "two", Result: c.Result, EndedAt: at(7)}, true)
		byBatch = !byBatch
	}
}

// testOneKey: of many that invoke with one key at once, one makes the ToolCall.
func testOneKey(env *storeEnv) {
	s := env.session(alice())
	const n = 20
	ids := make([]string, n)
	for i := range ids {
		ids[i] = env.id()
	}
	_ = atOnce(n, func(i int) error {
		return env.s.InTx(env.ctx, func(tx store.Tx) error {
			return tx.InsertToolCall(env.ctx, store.ToolCall{ID: ids[i], SessionID: s.ID, TurnID: "t", Name: "buy",
				Kind: store.KindServer, Status: store.ToolCreated, IdempotencyKey: "k", CreatedAt: at(1)})
		})
	})
	calls := got[[]store.ToolCall](env)(env.s.ToolCallsOfTurn(env.ctx, store.System(), "t"))
	if len(calls) != 1 {
		env.Fatal(fmt.Sprint(len(calls), " with one key"))
	}
}
