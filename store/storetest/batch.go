package storetest

import (
	"fmt"

	"aqueduct/store"
)

// testBatchOrder: moves are applied in order and after the events.
func testBatchOrder(env *storeEnv) {
	s := env.session(alice())
	r := store.Run{ID: env.id(), SessionID: s.ID, TurnID: "t", ExternalID: "x", Status: store.RunReserved, CreatedAt: at(1)}
	lost := env.commit(store.Batch{
		Events: []store.EventRow{row(s.ID, 2, 2)},
		Moves: []store.Move{
			store.RunMove{ID: r.ID, From: store.RunReserved, To: store.RunRunning}, // not there yet
			store.InsertRun{Run: r},
			store.RunMove{ID: r.ID, From: store.RunRunning, To: store.RunFinished}, // not running yet
			store.RunMove{ID: r.ID, From: store.RunReserved, To: store.RunRunning, FirstSeq: 1},
			store.RunMove{ID: r.ID, From: store.RunRunning, To: store.RunFinished, LastSeq: 2},
		},
	})
	same(env, lost, []int{0, 2})
	last := got[store.Run](env)(env.s.LastRun(env.ctx, store.System(), s.ID))
	same(env, []int64{last.FirstSeq, last.LastSeq}, []int64{1, 2})
	env.commit(store.Batch{}) // nothing at all is no error
}

// testBatchLost: a lost move changes nothing, and the rest stands.
func testBatchLost(env *storeEnv) {
	s := env.session(alice())
	done := env.turn(s.ID, store.TurnDone)
	call := env.toolCall(s.ID, "t", store.ToolDispatched)
	lost := env.commit(store.Batch{
		Events: []store.EventRow{row(s.ID, 1, 1)},
		Moves: []store.Move{
			store.ToolCallMove{ID: call.ID, From: store.ToolDispatched, To: store.ToolSucceeded},
			store.TurnMove{ID: done.ID, From: []store.TurnStatus{store.TurnRunning}, To: store.TurnFailed, ErrorCode: "c"},
			store.SessionMove{ID: s.ID, Title: "new", UpdatedAt: at(9)},
			store.ToolCallMove{ID: "no such", From: store.ToolDispatched, To: store.ToolFailed},
		},
	})
	same(env, lost, []int{1, 3})
	same(env, got[store.Turn](env)(env.s.Turn(env.ctx, store.System(), done.ID)), done)
	same(env, got[store.ToolCall](env)(env.s.ToolCall(env.ctx, store.System(), call.ID)).Status, store.ToolSucceeded)
	same(env, got[store.Session](env)(env.s.Session(env.ctx, store.System(), s.ID)).Title, "new")
	same(env, len(readEvents(env, s.ID, 0, 1<<20)), 1)
}

// testRecordOf: a Record about a ToolCall is kept with the move that it is about, and not without.
func testRecordOf(env *storeEnv) {
	s := env.session(alice())
	turn := env.turn(s.ID, store.TurnRunning)
	call := env.toolCall(s.ID, turn.ID, store.ToolRunning)
	of := func(kind, id string, status store.ToolCallStatus, ms int64) store.RecordOf {
		m := store.RecordOf{ToolCallID: id, Status: status, Record: store.Record{ID: env.id(), SessionID: s.ID, TurnID: turn.ID,
			Source: store.SourcePlatform, Type: kind, AtSeq: 3, TS: at(5), Payload: []byte(`{"a":1}`)}}
		if ms > 0 {
			m.At = at(ms)
		}
		return m
	}
	fresh := store.ToolCall{ID: env.id(), SessionID: s.ID, TurnID: turn.ID, Name: "x", Kind: store.KindServer, Status: store.ToolRunning, IdempotencyKey: "k", CreatedAt: at(1), RunningAt: at(2)}
	again := fresh
	again.ID = env.id()
	ended := of("ended", call.ID, store.ToolSucceeded, 9)
	begun := of("begun", fresh.ID, store.ToolRunning, 2)
	lost := env.commit(store.Batch{Moves: []store.Move{
		store.ToolCallMove{ID: call.ID, From: store.ToolRunning, To: store.ToolSucceeded, EndedAt: at(9)},
		ended,
		of("late", call.ID, store.ToolFailed, 9),
		of("other", call.ID, store.ToolSucceeded, 8),
		store.TakeToolCall{ToolCall: fresh},
		begun,
	}})
	same(env, lost, []int{2, 3})
	taken := of("taken", fresh.ID, "", 0)
	lost = env.commit(store.Batch{Moves: []store.Move{store.TakeToolCall{ToolCall: again}, of("again", again.ID, "", 0), taken}})
	same(env, lost, []int{0, 1})
	same(env, got[[]store.Record](env)(env.s.RecordsOfTurn(env.ctx, store.System(), turn.ID, store.Page{})), []store.Record{ended.Record, begun.Record, taken.Record})
	env.refuse(store.ErrConflict, store.Batch{Moves: []store.Move{taken}})
}

// spoilers are Batches with a single offender, and the error each must give. The
// offender stands last and first among what is good, by turns.
func spoilers(env *storeEnv, s store.Session) map[string]struct {
	want error
	b    store.Batch
} {
	taken := env.run(s.ID, "t", store.RunFinished)
	event := row(s.ID, 1, 1)
	env.commit(store.Batch{Events: []store.EventRow{event}})
	noData := row(s.ID, 2, 0)
	noData.N = 0
	next := row(s.ID, 2, 1)
	type spoiler = struct {
		want error
		b    store.Batch
	}
	record := store.Record{ID: env.id(), SessionID: s.ID, TurnID: "spoiled", Source: store.SourceACP, Type: "x", TS: at(1)}
	bad := record
	bad.ID, bad.Payload = env.id(), []byte(`{"half":`)
	message := newMessage(env, s.ID, "bad")
	message.Data = []byte(`nonsense`)
	return map[string]spoiler{
		"position taken":   {store.ErrConflict, store.Batch{Events: []store.EventRow{next, event}}},
		"no events in row": {store.ErrData, store.Batch{Events: []store.EventRow{next, noData}}},
		"bad record":       {store.ErrData, store.Batch{Events: []store.EventRow{next}, Records: []store.Record{record, bad}}},
		"run name taken": {store.ErrConflict, store.Batch{Events: []store.EventRow{next}, Records: []store.Record{record},
			Moves: []store.Move{store.InsertRun{Run: store.Run{ID: env.id(), SessionID: s.ID, TurnID: "t",
				ExternalID: taken.ExternalID, Status: store.RunReserved, CreatedAt: at(1)}}}}},
		"bad message":  {store.ErrData, store.Batch{Events: []store.EventRow{next}, Moves: []store.Move{store.UpsertMessage{Message: message}}}},
		"bad state":    {store.ErrData, store.Batch{Events: []store.EventRow{next}, Moves: []store.Move{store.SessionMove{ID: s.ID, State: []byte("{"), UpdatedAt: at(1)}}}},
		"illegal move": {store.ErrData, store.Batch{Events: []store.EventRow{next}, Moves: []store.Move{store.RunMove{ID: taken.ID, From: store.RunFinished, To: store.RunRunning}}}},
	}
}

// testBatchAtomic: of a Batch with one bad row nothing is written, and the store is
// as good as before.
func testBatchAtomic(env *storeEnv) {
	s := env.session(alice())
	good := env.turn(s.ID, store.TurnQueued)
	for name, x := range spoilers(env, s) {
		env.Log(name)
		x.b.Moves = append([]store.Move{store.TurnMove{ID: good.ID, From: []store.TurnStatus{store.TurnQueued},
			To: store.TurnRunning}, store.SessionMove{ID: s.ID, Title: "spoiled", UpdatedAt: at(2)}}, x.b.Moves...)
		env.refuse(x.want, x.b)
		same(env, got[int64](env)(env.s.LastSeq(env.ctx, store.System(), s.ID)), 1)
		same(env, got[store.Turn](env)(env.s.Turn(env.ctx, store.System(), good.ID)), good)
		same(env, got[store.Session](env)(env.s.Session(env.ctx, store.System(), s.ID)).Title, "")
		same(env, len(got[[]store.Record](env)(env.s.RecordsOfTurn(env.ctx, store.System(), "spoiled", store.Page{}))), 0)
		same(env, len(got[[]store.Message](env)(env.s.Messages(env.ctx, store.System(), s.ID, store.Page{}))), 0)
	}
	env.commit(store.Batch{Events: []store.EventRow{row(s.ID, 2, 1)}})
}

// testBatchRepeated: after an unknown outcome the same Batch is sent again, and its
// event rows show that it had landed.
func testBatchRepeated(env *storeEnv) {
	s := env.session(alice())
	turn := env.turn(s.ID, store.TurnQueued)
	b := store.Batch{Events: []store.EventRow{row(s.ID, 2, 2)}, Moves: []store.Move{
		store.TurnMove{ID: turn.ID, From: []store.TurnStatus{store.TurnQueued}, To: store.TurnRunning}}}
	env.commit(b)
	env.refuse(store.ErrConflict, b)
	env.refuse(store.ErrConflict, store.Batch{Events: b.Events})
	same(env, readEvents(env, s.ID, 0, 1<<20), b.Events)
}

// testBatchNumbered: without event rows the number identifies it, and a Batch that
// was refused has not used it up.
func testBatchNumbered(env *storeEnv) {
	s := env.session(alice())
	turn := env.turn(s.ID, store.TurnQueued)
	move := func(seq int64, from, to store.TurnStatus) store.Batch {
		return store.Batch{Seq: seq, Moves: []store.Move{store.TurnMove{ID: turn.ID, From: []store.TurnStatus{from}, To: to}}}
	}
	env.refuse(store.ErrData, move(7, store.TurnDone, store.TurnRunning))
	b := move(7, store.TurnQueued, store.TurnRunning)
	same(env, len(env.commit(b)), 0)
	env.refuse(store.ErrConflict, b)
	env.refuse(store.ErrConflict, move(6, store.TurnRunning, store.TurnDone))
	same(env, len(env.commit(store.Batch{Seq: 8, Events: []store.EventRow{row(s.ID, 1, 1)}})), 0)
	same(env, len(env.commit(move(9, store.TurnRunning, store.TurnPausedTool))), 0)
	same(env, env.commit(move(0, store.TurnRunning, store.TurnDone)), []int{0})
	env.ok(env.s.Fence(env.ctx, env.replica))
	env.refuse(store.ErrFenced, move(9, store.TurnRunning, store.TurnPausedTool))
	env.refuse(store.ErrFenced, move(10, store.TurnPausedTool, store.TurnRunning))
	same(env, got[store.Turn](env)(env.s.Turn(env.ctx, store.System(), turn.ID)).Status, store.TurnPausedTool)
}

// testBatchPoison: one of a hundred Sessions has a row the database refuses. Halving,
// as the committer does, finds it, and the other ninety-nine are whole.
func testBatchPoison(env *storeEnv) {
	const n, offender = 100, 37
	sessions := make([]store.Session, n)
	parts := make([]store.Batch, n)
	for i := range sessions {
		sessions[i] = env.session(alice())
		parts[i] = store.Batch{Events: []store.EventRow{row(sessions[i].ID, 1, 1)},
			Moves: []store.Move{store.SessionMove{ID: sessions[i].ID, Title: "done", UpdatedAt: at(3)}}}
	}
	parts[offender].Moves = append(parts[offender].Moves, store.SessionMove{ID: sessions[offender].ID,
		State: []byte(`{"broken`), UpdatedAt: at(4)})
	var alone []int
	var commit func(from, to int)
	commit = func(from, to int) {
		b := store.Batch{Replica: env.replica}
		for _, p := range parts[from:to] {
			b.Events, b.Moves = append(b.Events, p.Events...), append(b.Moves, p.Moves...)
		}
		_, err := env.s.Commit(env.ctx, &b)
		if err == nil {
			return
		}
		env.is(err, store.ErrData)
		if to-from == 1 {
			alone = append(alone, from)
			return
		}
		commit(from, (from+to)/2)
		commit((from+to)/2, to)
	}
	commit(0, n)
	same(env, alone, []int{offender})
	for i, s := range sessions {
		want := fmt.Sprint(1, "done")
		if i == offender {
			want = fmt.Sprint(0, "")
		}
		s = got[store.Session](env)(env.s.Session(env.ctx, store.System(), s.ID))
		same(env, fmt.Sprint(got[int64](env)(env.s.LastSeq(env.ctx, store.System(), s.ID)), s.Title), want)
	}
}

// testOddText: free text of an agent may hold what a database refuses in a text; it
// must neither poison a Batch nor differ between the databases.
func testOddText(env *storeEnv) {
	const odd, kept = "a\x00b\xffc\u2028\U0001F600", "a\uFFFDb\uFFFDc\u2028\U0001F600"
	s := env.session(alice())
	turn := env.turn(s.ID, store.TurnRunning)
	call := store.ToolCall{ID: env.id(), SessionID: s.ID, TurnID: "t", Name: odd, Kind: store.KindQuestion,
		Status: store.ToolCreated, ErrorCode: odd, UpstreamID: odd, CreatedAt: at(1)}
	a := store.Approval{ID: env.id(), SessionID: s.ID, TurnID: "t", Kind: store.ApprovalInput, Status: store.ApprovalPending,
		Tool: odd, Title: odd, Risk: odd, CreatedAt: at(1)}
	record := store.Record{ID: env.id(), SessionID: s.ID, TurnID: "t", Source: store.SourceACP, Type: odd, TS: at(1),
		Payload: []byte(`{"text":"\u0000"}`)}
	env.commit(store.Batch{Records: []store.Record{record}, Moves: []store.Move{
		store.SessionMove{ID: s.ID, Title: odd, UpdatedAt: at(2)},
		store.TurnMove{ID: turn.ID, From: []store.TurnStatus{store.TurnRunning}, To: store.TurnFailed, ErrorMessage: odd},
		store.InsertToolCall{ToolCall: call}, store.InsertApproval{Approval: a},
		store.ApprovalMove{ID: a.ID, To: store.ApprovalRejected, Reason: odd, DecidedBy: odd}}})
	same(env, got[store.Session](env)(env.s.Session(env.ctx, store.System(), s.ID)).Title, kept)
	same(env, got[store.Turn](env)(env.s.Turn(env.ctx, store.System(), turn.ID)).ErrorMessage, kept)
	c := got[store.ToolCall](env)(env.s.ToolCall(env.ctx, store.System(), call.ID))
	same(env, []string{c.Name, c.ErrorCode, c.UpstreamID}, []string{kept, kept, kept})
	a = got[store.Approval](env)(env.s.Approval(env.ctx, store.System(), a.ID))
	same(env, []string{a.Tool, a.Title, a.Risk, a.Reason, a.DecidedBy}, []string{kept, kept, kept, kept, kept})
	record.Type = kept
	same(env, got[[]store.Record](env)(env.s.RecordsOfTurn(env.ctx, store.System(), "t", store.Page{})), []store.Record{record})
	_, err := env.s.SessionByExternalID(env.ctx, store.System(), odd)
	env.is(err, store.ErrNotFound) // asked for, not stored
}
