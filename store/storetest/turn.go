package storetest

import (
	"fmt"
	"slices"

	"aqueduct/store"
)

func testTurns(w *world) {
	s := w.session(alice())
	turn := store.Turn{ID: w.id(), SessionID: s.ID, AgentID: "demo", Status: store.TurnQueued,
		Input: []byte(`{"z":"\u0000","a":[1.50]}`), Roles: []byte(`["dev","hr"]`), TokenHash: []byte{0, 1, 255}, Usage: []byte(`{"n":1}`),
		ErrorCode: "c", ErrorMessage: "m", CreatedAt: at(1), StartedAt: at(2), DispatchedAt: at(3), EndedAt: at(4), Traced: true, Traceparent: "00-a-b-01", Tracestate: "v=1"}
	w.tx(func(tx store.Tx) error { return tx.InsertTurn(w.ctx, turn) })
	same(w, got[store.Turn](w)(w.s.Turn(w.ctx, store.System(), turn.ID)), turn)

	bare := w.turn(s.ID, store.TurnQueued)
	same(w, got[store.Turn](w)(w.s.Turn(w.ctx, store.System(), bare.ID)), bare)
	w.is(w.s.InTx(w.ctx, func(tx store.Tx) error { return tx.InsertTurn(w.ctx, turn) }), store.ErrConflict)
}

func testActiveTurn(w *world) {
	s := w.session(alice())
	active := func() string {
		w.Helper()
		return got[store.Turn](w)(w.s.ActiveTurn(w.ctx, store.System(), s.ID)).ID
	}
	none := func() {
		w.Helper()
		_, err := w.s.ActiveTurn(w.ctx, store.System(), s.ID)
		w.is(err, store.ErrNotFound)
	}
	none()
	for _, over := range store.AllTurnStatuses() {
		if over.Terminal() {
			w.turn(s.ID, over)
		}
	}
	none()
	queued := w.turn(s.ID, store.TurnQueued)
	w.turn(s.ID, store.TurnQueued)
	same(w, active(), queued.ID)
	for _, status := range []store.TurnStatus{store.TurnRunning, store.TurnPausedApproval, store.TurnPausedTool} {
		begun := w.turn(s.ID, status) // younger than those queued, and yet before them
		same(w, active(), begun.ID)
		w.move(store.TurnMove{ID: begun.ID, From: []store.TurnStatus{status}, To: store.TurnFailed})
		same(w, active(), queued.ID)
	}
}

// testTurnMoves tries all pairs, and each move against every status it does not name.
func testTurnMoves(w *world) {
	s := w.session(alice())
	pairs(w, store.AllTurnStatuses(), machine[store.TurnStatus]{
		insert: func(st store.TurnStatus) string { return w.turn(s.ID, st).ID },
		move: func(id string, from, to store.TurnStatus) store.Move {
			return store.TurnMove{ID: id, From: []store.TurnStatus{from}, To: to}
		},
		status: func(id string) (store.TurnStatus, error) {
			turn, err := w.s.Turn(w.ctx, store.System(), id)
			return turn.Status, err
		},
	})
	turn := w.turn(s.ID, store.TurnPausedTool)
	paused := []store.TurnStatus{store.TurnPausedApproval, store.TurnPausedTool}
	if lost := w.move(store.TurnMove{ID: turn.ID, From: paused, To: store.TurnRunning}); len(lost) > 0 {
		w.Error("a move from either of two statuses is lost")
	}
	w.refuse(store.ErrData, store.Batch{Moves: []store.Move{
		store.TurnMove{ID: turn.ID, From: append(paused, store.TurnDone), To: store.TurnRunning}}})
	w.refuse(store.ErrData, store.Batch{Moves: []store.Move{store.TurnMove{ID: turn.ID, To: store.TurnDone}}})
}

// machine is how the moves of one kind of row are tried.
type machine[S any] struct {
	insert func(S) string
	move   func(id string, from, to S) store.Move
	status func(id string) (S, error)
}

// pairs enumerates (status of the row, From, To): the move is refused when the machine
// does not have it, lost when the row is elsewhere, and made otherwise.
func pairs[S interface {
	~string
	CanBecome(S) bool
}](w *world, all []S, m machine[S]) {
	w.Helper()
	for _, from := range all {
		for _, to := range all {
			if !from.CanBecome(to) {
				id := m.insert(from)
				w.refuse(store.ErrData, store.Batch{Moves: []store.Move{m.move(id, from, to)}})
				same(w, got[S](w)(m.status(id)), from)
				continue
			}
			for _, is := range all {
				id := m.insert(is)
				lost, want := w.move(m.move(id, from, to)), is
				if is == from {
					want = to
				}
				if made := len(lost) == 0; made != (is == from) {
					w.Fatalf("%s→%s on %s: made %t", from, to, is, made)
				}
				same(w, got[S](w)(m.status(id)), want)
			}
		}
	}
}

func testTurnMembers(w *world) {
	s := w.session(alice())
	turn := w.turn(s.ID, store.TurnQueued)
	check := func() {
		w.Helper()
		same(w, got[store.Turn](w)(w.s.Turn(w.ctx, store.System(), turn.ID)), turn)
	}
	queued, running := []store.TurnStatus{store.TurnQueued}, []store.TurnStatus{store.TurnRunning}

	w.move(store.TurnMove{ID: turn.ID, From: queued, To: store.TurnRunning, StartedAt: at(10), TokenHash: []byte{1, 2}})
	turn.Status, turn.StartedAt, turn.TokenHash = store.TurnRunning, at(10), []byte{1, 2}
	check()
	// No To: only the members.
	w.move(store.TurnMove{ID: turn.ID, From: running, DispatchedAt: at(11), Usage: []byte(`{"a":1}`)})
	turn.DispatchedAt, turn.Usage = at(11), []byte(`{"a":1}`)
	check()
	if lost := w.move(store.TurnMove{ID: turn.ID, From: queued, DispatchedAt: at(12)}); !slices.Equal(lost, []int{0}) {
		w.Error("members were set although the status is another")
	}
	check()
	w.move(store.TurnMove{ID: turn.ID, From: running, To: store.TurnFailed, EndedAt: at(13), TokenHash: []byte{},
		ErrorCode: "c", ErrorMessage: "m"})
	turn.Status, turn.EndedAt, turn.TokenHash, turn.ErrorCode, turn.ErrorMessage = store.TurnFailed, at(13), nil, "c", "m"
	check()
	w.move(store.TurnMove{ID: turn.ID, Usage: []byte(`{"a":2}`)}) // whatever the status
	turn.Usage = []byte(`{"a":2}`)
	check()
}

func testRuns(w *world) {
	s, ctx, all := w.session(alice()), w.ctx, store.System()
	_, err := w.s.LastRun(ctx, all, s.ID)
	w.is(err, store.ErrNotFound)
	whole := store.Run{ID: w.id(), SessionID: s.ID, TurnID: "t1", ExternalID: "named", Status: store.RunFinished,
		Profile: []byte(`{"dialect":"1.0"}`), BodyHash: []byte{9}, FirstSeq: 1, LastSeq: 4, ErrorCode: "c",
		CreatedAt: at(1), StartedAt: at(2), EndedAt: at(3)}
	w.tx(func(tx store.Tx) error { return tx.InsertRun(ctx, whole) })
	running := w.run(s.ID, "t1", store.RunRunning)
	first := w.run(s.ID, "t2", store.RunReserved)
	second := w.run(s.ID, "t2", store.RunReserved)

	same(w, got[store.Run](w)(w.s.Run(ctx, all, whole.ID)), whole)
	same(w, got[store.Run](w)(w.s.RunByExternalID(ctx, all, s.ID, "named")), whole)
	_, err = w.s.RunByExternalID(ctx, all, "elsewhere", "named")
	w.is(err, store.ErrNotFound)
	same(w, got[store.Run](w)(w.s.LastRun(ctx, all, s.ID)), running)
	same(w, got[[]store.Run](w)(w.s.ReservedRuns(ctx, all, s.ID)), []store.Run{first, second})
	same(w, got[[]store.Run](w)(w.s.RunsOfTurn(ctx, all, "t1")), []store.Run{whole, running})
	w.is(w.s.InTx(ctx, func(tx store.Tx) error { // two open Runs would be two ends of one log
		return tx.InsertRun(ctx, store.Run{ID: w.id(), SessionID: s.ID, TurnID: "t3", ExternalID: "second", Status: store.RunRunning, CreatedAt: at(9)})
	}), store.ErrConflict)

	insert := func(sessionID string) error {
		return w.s.InTx(ctx, func(tx store.Tx) error {
			return tx.InsertRun(ctx, store.Run{ID: w.id(), SessionID: sessionID, TurnID: "t9", ExternalID: "named",
				Status: store.RunReserved, CreatedAt: at(9)})
		})
	}
	w.is(insert(s.ID), store.ErrConflict)
	w.ok(insert(w.session(alice()).ID))
	same(w, got[store.Run](w)(w.s.FindRun(ctx, store.As(alice()), whole.ID)), whole)
	if r := got[store.Run](w)(w.s.FindRun(ctx, store.As(alice()), "named")); r.TurnID != "t9" {
		w.Errorf("FindRun gives %s, not the newest", r.ID)
	}
}

func testRunMoves(w *world) {
	pairs(w, store.AllRunStatuses(), machine[store.RunStatus]{
		insert: func(st store.RunStatus) string { return w.run(w.session(alice()).ID, "t", st).ID },
		move: func(id string, from, to store.RunStatus) store.Move {
			return store.RunMove{ID: id, From: from, To: to}
		},
		status: func(id string) (store.RunStatus, error) {
			r, err := w.s.Run(w.ctx, store.System(), id)
			return r.Status, err
		},
	})
}

func testRunMembers(w *world) {
	s := w.session(alice())
	r := store.Run{ID: w.id(), SessionID: s.ID, TurnID: "t", ExternalID: "x", Status: store.RunReserved, CreatedAt: at(1)}
	w.move(store.InsertRun{Run: r}, store.RunMove{ID: r.ID, From: store.RunReserved, To: store.RunRunning,
		FirstSeq: 1 << 40, StartedAt: at(2)})
	r.Status, r.FirstSeq, r.StartedAt = store.RunRunning, 1<<40, at(2)
	same(w, got[store.Run](w)(w.s.Run(w.ctx, store.System(), r.ID)), r)
	w.move(store.RunMove{ID: r.ID, From: store.RunRunning, To: store.RunFailed, LastSeq: 1<<40 + 1, ErrorCode: "c", EndedAt: at(3)})
	r.Status, r.LastSeq, r.ErrorCode, r.EndedAt = store.RunFailed, 1<<40+1, "c", at(3)
	same(w, got[store.Run](w)(w.s.Run(w.ctx, store.System(), r.ID)), r)
}

// unused keeps the names of many things apart.
func unused(i int) string { return fmt.Sprintf("name-%04d", i) }

// testPassingOn: what was settled and is still to be passed on is work; a Turn that nothing moves is stranded.
func testPassingOn(w *world) {
	replica := w.id()
	w.ok(w.s.Register(w.ctx, store.Replica{ID: replica, Name: "a"}))
	s := w.session(alice())
	turn := w.turn(s.ID, store.TurnPausedApproval)
	work := func() (settled, listed, stranded bool) {
		w.Helper()
		todo := got[store.Agenda](w)(w.s.Agenda(w.ctx, store.System(), s.ID))
		ids := got[[]string](w)(w.s.SessionsWithWork(w.ctx, store.System(), replica))
		turns := got[[]store.Turn](w)(w.s.StrandedTurns(w.ctx, store.System(), replica, 10))
		return todo.Settled, slices.Contains(ids, s.ID), slices.ContainsFunc(turns, func(t store.Turn) bool { return t.ID == turn.ID })
	}
	expect := func(step string, settled, listed, stranded bool) {
		w.Helper()
		a, b, c := work()
		if a != settled || b != listed || c != stranded {
			w.Errorf("%s: settled %t, listed %t, stranded %t; want %t, %t, %t", step, a, b, c, settled, listed, stranded)
		}
	}
	upstream := func(to string) { w.move(store.TurnMove{ID: turn.ID, Upstream: to}) }
	expect("nothing open", false, false, true)
	one, two := w.toolCall(s.ID, turn.ID, store.ToolWaitingApproval), w.toolCall(s.ID, turn.ID, store.ToolWaitingClient)
	expect("both open", false, false, false)
	upstream(replica)
	w.move(store.ToolCallMove{ID: one.ID, From: store.ToolWaitingApproval, To: store.ToolDispatched})
	expect("one settled", true, true, false)
	w.move(store.ToolCallTold{ID: one.ID})
	expect("told, its agent is held", true, true, false)
	upstream(store.UpstreamWaits)
	expect("told, its agent waits for both", false, false, false)
	w.move(store.ToolCallMove{ID: two.ID, From: store.ToolWaitingClient, To: store.ToolSucceeded, Told: true})
	expect("both settled", true, true, false)
	w.move(store.ToolCallDelivered{ID: one.ID, At: at(9)}, store.ToolCallDelivered{ID: two.ID, At: at(9)})
	expect("both delivered", false, false, true)
	// A move of the status carries it too, in whichever way the store writes such moves.
	w.move(store.TurnMove{ID: turn.ID, From: []store.TurnStatus{store.TurnPausedApproval}, To: store.TurnRunning, Upstream: "somebody"})
	same(w, got[store.Turn](w)(w.s.Turn(w.ctx, store.System(), turn.ID)).Upstream, "somebody")
	w.move(store.TurnMove{ID: turn.ID, From: []store.TurnStatus{store.TurnRunning}, To: store.TurnPausedApproval})
	same(w, got[store.Turn](w)(w.s.Turn(w.ctx, store.System(), turn.ID)).Upstream, "somebody")
	upstream("another")
	expect("called by another replica", false, true, true)
	upstream(store.UpstreamNone)
	same(w, got[store.Turn](w)(w.s.Turn(w.ctx, store.System(), turn.ID)).Upstream, "")
	run := w.run(s.ID, turn.ID, store.RunRunning)
	same(w, got[store.Agenda](w)(w.s.Agenda(w.ctx, store.System(), s.ID)).Running, run.ID)
	expect("a run is open", false, true, false)
}

// testNothingBeginsAfterItsTurn: a move that needs the Turn is lost when that is over.
func testNothingBeginsAfterItsTurn(w *world) {
	s := w.session(alice())
	for _, c := range []struct {
		turn store.TurnStatus
		lost []int
	}{{store.TurnPausedApproval, nil}, {store.TurnRunning, nil}, {store.TurnFailed, []int{0}}, {store.TurnCancelled, []int{0}}, {store.TurnDone, []int{0}}} {
		call := w.toolCall(s.ID, w.turn(s.ID, c.turn).ID, store.ToolDispatched)
		lost := w.move(store.ToolCallMove{ID: call.ID, From: store.ToolDispatched, To: store.ToolRunning, Replica: "r", RunningAt: at(5), WhileTurn: true})
		same(w, lost, c.lost)
	}
}
