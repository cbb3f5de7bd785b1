package storetest

import (
	"fmt"
	"slices"

	"aqueduct/store"
)

func testTurns(env *storeEnv) {
	s := env.session(alice())
	turn := store.Turn{ID: env.id(), SessionID: s.ID, AgentID: "demo", Status: store.TurnQueued,
		Input: []byte(`{"z":"\u0000","a":[1.50]}`), Roles: []byte(`["dev","hr"]`), TokenHash: []byte{0, 1, 255}, Usage: []byte(`{"n":1}`),
		ErrorCode: "c", ErrorMessage: "m", CreatedAt: at(1), StartedAt: at(2), DispatchedAt: at(3), EndedAt: at(4), Traced: true, Traceparent: "00-a-b-01", Tracestate: "v=1", Resumable: true}
	env.tx(func(tx store.Tx) error { return tx.InsertTurn(env.ctx, turn) })
	same(env, got[store.Turn](env)(env.s.Turn(env.ctx, store.System(), turn.ID)), turn)

	bare := env.turn(s.ID, store.TurnQueued)
	same(env, got[store.Turn](env)(env.s.Turn(env.ctx, store.System(), bare.ID)), bare)
	env.is(env.s.InTx(env.ctx, func(tx store.Tx) error { return tx.InsertTurn(env.ctx, turn) }), store.ErrConflict)
}

func testActiveTurn(env *storeEnv) {
	s := env.session(alice())
	active := func() string {
		env.Helper()
		return got[store.Turn](env)(env.s.ActiveTurn(env.ctx, store.System(), s.ID)).ID
	}
	none := func() {
		env.Helper()
		_, err := env.s.ActiveTurn(env.ctx, store.System(), s.ID)
		env.is(err, store.ErrNotFound)
	}
	none()
	for _, over := range store.AllTurnStatuses() {
		if over.Terminal() {
			env.turn(s.ID, over)
		}
	}
	none()
	queued := env.turn(s.ID, store.TurnQueued)
	env.turn(s.ID, store.TurnQueued)
	same(env, active(), queued.ID)
	for _, status := range []store.TurnStatus{store.TurnRunning, store.TurnPausedApproval, store.TurnPausedTool} {
		begun := env.turn(s.ID, status) // younger than those queued, and yet before them
		same(env, active(), begun.ID)
		env.move(store.TurnMove{ID: begun.ID, From: []store.TurnStatus{status}, To: store.TurnFailed})
		same(env, active(), queued.ID)
	}
}

// testTurnMoves tries all pairs, and each move against every status it does not name.
func testTurnMoves(env *storeEnv) {
	s := env.session(alice())
	pairs(env, store.AllTurnStatuses(), machine[store.TurnStatus]{
		insert: func(st store.TurnStatus) string { return env.turn(s.ID, st).ID },
		move: func(id string, from, to store.TurnStatus) store.Move {
			return store.TurnMove{ID: id, From: []store.TurnStatus{from}, To: to}
		},
		status: func(id string) (store.TurnStatus, error) {
			turn, err := env.s.Turn(env.ctx, store.System(), id)
			return turn.Status, err
		},
	})
	turn := env.turn(s.ID, store.TurnPausedTool)
	paused := []store.TurnStatus{store.TurnPausedApproval, store.TurnPausedTool}
	if lost := env.move(store.TurnMove{ID: turn.ID, From: paused, To: store.TurnRunning}); len(lost) > 0 {
		env.Error("a move from either of two statuses is lost")
	}
	env.refuse(store.ErrData, store.Batch{Moves: []store.Move{
		store.TurnMove{ID: turn.ID, From: append(paused, store.TurnDone), To: store.TurnRunning}}})
	env.refuse(store.ErrData, store.Batch{Moves: []store.Move{store.TurnMove{ID: turn.ID, To: store.TurnDone}}})
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
}](env *storeEnv, all []S, m machine[S]) {
	env.Helper()
	for _, from := range all {
		for _, to := range all {
			if !from.CanBecome(to) {
				id := m.insert(from)
				env.refuse(store.ErrData, store.Batch{Moves: []store.Move{m.move(id, from, to)}})
				same(env, got[S](env)(m.status(id)), from)
				continue
			}
			for _, is := range all {
				id := m.insert(is)
				lost, want := env.move(m.move(id, from, to)), is
				if is == from {
					want = to
				}
				if made := len(lost) == 0; made != (is == from) {
					env.Fatalf("%s→%s on %s: made %t", from, to, is, made)
				}
				same(env, got[S](env)(m.status(id)), want)
			}
		}
	}
}

func testTurnMembers(env *storeEnv) {
	s := env.session(alice())
	turn := env.turn(s.ID, store.TurnQueued)
	check := func() {
		env.Helper()
		same(env, got[store.Turn](env)(env.s.Turn(env.ctx, store.System(), turn.ID)), turn)
	}
	queued, running := []store.TurnStatus{store.TurnQueued}, []store.TurnStatus{store.TurnRunning}

	env.move(store.TurnMove{ID: turn.ID, From: queued, To: store.TurnRunning, StartedAt: at(10), TokenHash: []byte{1, 2}})
	turn.Status, turn.StartedAt, turn.TokenHash = store.TurnRunning, at(10), []byte{1, 2}
	check()
	// No To: only the members.
	env.move(store.TurnMove{ID: turn.ID, From: running, DispatchedAt: at(11), Usage: []byte(`{"a":1}`)})
	turn.DispatchedAt, turn.Usage = at(11), []byte(`{"a":1}`)
	check()
	if lost := env.move(store.TurnMove{ID: turn.ID, From: queued, DispatchedAt: at(12)}); !slices.Equal(lost, []int{0}) {
		env.Error("members were set although the status is another")
	}
	check()
	env.move(store.TurnMove{ID: turn.ID, From: running, To: store.TurnFailed, EndedAt: at(13), TokenHash: []byte{},
		ErrorCode: "c", ErrorMessage: "m"})
	turn.Status, turn.EndedAt, turn.TokenHash, turn.ErrorCode, turn.ErrorMessage = store.TurnFailed, at(13), nil, "c", "m"
	check()
	env.move(store.TurnMove{ID: turn.ID, Usage: []byte(`{"a":2}`)}) // whatever the status
	turn.Usage = []byte(`{"a":2}`)
	check()
}

func testRuns(env *storeEnv) {
	s, ctx, all := env.session(alice()), env.ctx, store.System()
	_, err := env.s.LastRun(ctx, all, s.ID)
	env.is(err, store.ErrNotFound)
	whole := store.Run{ID: env.id(), SessionID: s.ID, TurnID: "t1", ExternalID: "named", Status: store.RunFinished,
		Profile: []byte(`{"dialect":"1.0"}`), BodyHash: []byte{9}, FirstSeq: 1, LastSeq: 4, ErrorCode: "c",
		CreatedAt: at(1), StartedAt: at(2), EndedAt: at(3)}
	env.tx(func(tx store.Tx) error { return tx.InsertRun(ctx, whole) })
	running := env.run(s.ID, "t1", store.RunRunning)
	first := env.run(s.ID, "t2", store.RunReserved)
	second := env.run(s.ID, "t2", store.RunReserved)

	same(env, got[store.Run](env)(env.s.Run(ctx, all, whole.ID)), whole)
	same(env, got[store.Run](env)(env.s.RunByExternalID(ctx, all, s.ID, "named")), whole)
	_, err = env.s.RunByExternalID(ctx, all, "elsewhere", "named")
	env.is(err, store.ErrNotFound)
	same(env, got[store.Run](env)(env.s.LastRun(ctx, all, s.ID)), running)
	same(env, got[[]store.Run](env)(env.s.ReservedRuns(ctx, all, s.ID)), []store.Run{first, second})
	same(env, got[[]store.Run](env)(env.s.RunsOfTurn(ctx, all, "t1")), []store.Run{whole, running})
	env.is(env.s.InTx(ctx, func(tx store.Tx) error { // two open Runs would be two ends of one log
		return tx.InsertRun(ctx, store.Run{ID: env.id(), SessionID: s.ID, TurnID: "t3", ExternalID: "second", Status: store.RunRunning, CreatedAt: at(9)})
	}), store.ErrConflict)

	insert := func(sessionID string) error {
		return env.s.InTx(ctx, func(tx store.Tx) error {
			return tx.InsertRun(ctx, store.Run{ID: env.id(), SessionID: sessionID, TurnID: "t9", ExternalID: "named",
				Status: store.RunReserved, CreatedAt: at(9)})
		})
	}
	env.is(insert(s.ID), store.ErrConflict)
	env.ok(insert(env.session(alice()).ID))
	same(env, got[store.Run](env)(env.s.FindRun(ctx, store.As(alice()), whole.ID)), whole)
	if r := got[store.Run](env)(env.s.FindRun(ctx, store.As(alice()), "named")); r.TurnID != "t9" {
		env.Errorf("FindRun gives %s, not the newest", r.ID)
	}
}

func testRunMoves(env *storeEnv) {
	pairs(env, store.AllRunStatuses(), machine[store.RunStatus]{
		insert: func(st store.RunStatus) string { return env.run(env.session(alice()).ID, "t", st).ID },
		move: func(id string, from, to store.RunStatus) store.Move {
			return store.RunMove{ID: id, From: from, To: to}
		},
		status: func(id string) (store.RunStatus, error) {
			r, err := env.s.Run(env.ctx, store.System(), id)
			return r.Status, err
		},
	})
}

func testRunMembers(env *storeEnv) {
	s := env.session(alice())
	r := store.Run{ID: env.id(), SessionID: s.ID, TurnID: "t", ExternalID: "x", Status: store.RunReserved, CreatedAt: at(1)}
	env.move(store.InsertRun{Run: r}, store.RunMove{ID: r.ID, From: store.RunReserved, To: store.RunRunning,
		FirstSeq: 1 << 40, StartedAt: at(2)})
	r.Status, r.FirstSeq, r.StartedAt = store.RunRunning, 1<<40, at(2)
	same(env, got[store.Run](env)(env.s.Run(env.ctx, store.System(), r.ID)), r)
	env.move(store.RunMove{ID: r.ID, From: store.RunRunning, To: store.RunFailed, LastSeq: 1<<40 + 1, ErrorCode: "c", EndedAt: at(3)})
	r.Status, r.LastSeq, r.ErrorCode, r.EndedAt = store.RunFailed, 1<<40+1, "c", at(3)
	same(env, got[store.Run](env)(env.s.Run(env.ctx, store.System(), r.ID)), r)
}

// unused keeps the names of many things apart.
func unused(i int) string { return fmt.Sprintf("name-%04d", i) }

// testPassingOn: what was settled and is still to be passed on is work; a Turn that nothing moves is stranded.
func testPassingOn(env *storeEnv) {
	replica := env.id()
	env.ok(env.s.Register(env.ctx, store.Replica{ID: replica, Name: "a"}))
	s := env.session(alice())
	turn := env.turn(s.ID, store.TurnPausedApproval)
	work := func() (settled, listed, stranded bool) {
		env.Helper()
		todo := got[store.Agenda](env)(env.s.Agenda(env.ctx, store.System(), s.ID))
		ids := got[[]string](env)(env.s.SessionsWithWork(env.ctx, store.System(), replica))
		turns := got[[]store.Turn](env)(env.s.StrandedTurns(env.ctx, store.System(), replica, 10))
		return todo.Settled, slices.Contains(ids, s.ID), slices.ContainsFunc(turns, func(t store.Turn) bool { return t.ID == turn.ID })
	}
	expect := func(step string, settled, listed, stranded bool) {
		env.Helper()
		a, b, c := work()
		if a != settled || b != listed || c != stranded {
			env.Errorf("%s: settled %t, listed %t, stranded %t; want %t, %t, %t", step, a, b, c, settled, listed, stranded)
		}
	}
	upstream := func(to string) { env.move(store.TurnMove{ID: turn.ID, Upstream: to}) }
	expect("nothing open", false, false, true)
	one, two := env.toolCall(s.ID, turn.ID, store.ToolWaitingApproval), env.toolCall(s.ID, turn.ID, store.ToolWaitingClient)
	expect("both open", false, false, false)
	upstream(replica)
	env.move(store.ToolCallMove{ID: one.ID, From: store.ToolWaitingApproval, To: store.ToolDispatched})
	expect("one settled", true, true, false)
	env.move(store.ToolCallInTranscript{ID: one.ID})
	expect("told, its agent is held", true, true, false)
	upstream(store.UpstreamLost)
	expect("told, its agent is called again with both", false, false, false)
	upstream(store.UpstreamWaits)
	expect("told, its agent waits for both", false, false, false)
	env.move(store.ToolCallMove{ID: two.ID, From: store.ToolWaitingClient, To: store.ToolSucceeded, InTranscript: true})
	expect("both settled", true, true, false)
	upstream(store.UpstreamLost)
	expect("both settled, its agent is called again", true, true, false)
	env.move(store.ToolCallDelivered{ID: one.ID, At: at(9)}, store.ToolCallDelivered{ID: two.ID, At: at(9)})
	expect("both delivered", false, false, true)
	// A move of the status carries it too, in whichever way the store writes such moves.
	env.move(store.TurnMove{ID: turn.ID, From: []store.TurnStatus{store.TurnPausedApproval}, To: store.TurnRunning, Upstream: "somebody"})
	same(env, got[store.Turn](env)(env.s.Turn(env.ctx, store.System(), turn.ID)).Upstream, "somebody")
	env.move(store.TurnMove{ID: turn.ID, From: []store.TurnStatus{store.TurnRunning}, To: store.TurnPausedApproval})
	same(env, got[store.Turn](env)(env.s.Turn(env.ctx, store.System(), turn.ID)).Upstream, "somebody")
	upstream("another")
	expect("called by another replica", false, true, true)
	env.move(store.TurnMove{ID: turn.ID, Resumable: true}, store.TurnMove{ID: turn.ID, Upstream: store.UpstreamCalling})
	if found := got[store.Turn](env)(env.s.Turn(env.ctx, store.System(), turn.ID)); !found.Resumable || found.Upstream != store.UpstreamCalling {
		env.Errorf("a later move loses that the agent can be called again: %+v", found)
	}
	expect("called again, by another replica", false, true, true)
	upstream(store.UpstreamNone)
	same(env, got[store.Turn](env)(env.s.Turn(env.ctx, store.System(), turn.ID)).Upstream, "")
	run := env.run(s.ID, turn.ID, store.RunRunning)
	same(env, got[store.Agenda](env)(env.s.Agenda(env.ctx, store.System(), s.ID)).Running, run.ID)
	expect("a run is open", false, true, false)
}

// testNothingBeginsAfterItsTurn: a move that needs the Turn is lost when that is over.
func testNothingBeginsAfterItsTurn(env *storeEnv) {
	s := env.session(alice())
	for _, c := range []struct {
		turn store.TurnStatus
		lost []int
	}{{store.TurnPausedApproval, nil}, {store.TurnRunning, nil}, {store.TurnFailed, []int{0}}, {store.TurnCancelled, []int{0}}, {store.TurnDone, []int{0}}} {
		call := env.toolCall(s.ID, env.turn(s.ID, c.turn).ID, store.ToolDispatched)
		lost := env.move(store.ToolCallMove{ID: call.ID, From: store.ToolDispatched, To: store.ToolRunning, Replica: "r", RunningAt: at(5), WhileTurn: true})
		same(env, lost, c.lost)
	}
}
