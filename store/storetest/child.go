package storetest

import (
	"errors"

	"aqueduct/store"
)

// testChildren: Sessions that agents began are in no list of threads or Approvals, are found by the Turn that they go back
// to, and are deleted with its Session.
func testChildren(env *storeEnv) {
	root := env.session(alice())
	prompt := env.turn(root.ID, store.TurnRunning)
	begin := func(parent store.Turn, callers string) (store.Session, store.Turn) {
		s := store.Session{
			ID: env.id(), Tenant: root.Tenant, User: root.User, ExternalID: env.id(), AgentID: "helper", CreatedAt: at(1), UpdatedAt: at(2),
			ParentTurnID: parent.ID, RootTurnID: prompt.ID, Callers: []byte(callers),
		}
		env.tx(func(tx store.Tx) error { return tx.InsertSession(env.ctx, s) })
		same(env, got[store.Session](env)(env.s.Session(env.ctx, store.As(alice()), s.ID)), s)
		return s, env.turn(s.ID, store.TurnRunning)
	}
	first, called := begin(prompt, `[{"agent_id":"a","session_id":"s","turn_id":"t"}]`)
	second, below := begin(called, `[{"agent_id":"a","session_id":"s","turn_id":"t"},{"agent_id":"b"}]`)
	same(env, first.CallerList(), []store.Caller{{AgentID: "a", SessionID: "s", TurnID: "t"}})
	same(env, []bool{root.IsChild(), first.IsChild()}, []bool{false, true})

	want := []store.ChildTurn{{Turn: called, ParentTurnID: prompt.ID}, {Turn: below, ParentTurnID: called.ID}}
	same(env, got[[]store.ChildTurn](env)(env.s.ChildTurns(env.ctx, store.As(alice()), prompt.ID)), want)
	same(env, len(got[[]store.ChildTurn](env)(env.s.ChildTurns(env.ctx, store.As(bob()), prompt.ID))), 0)
	same(env, len(got[[]store.ChildTurn](env)(env.s.ChildTurns(env.ctx, store.System(), ""))), 0)

	listed := got[[]store.Session](env)(env.s.Sessions(env.ctx, store.As(alice()), store.Page{}))
	same(env, len(listed), 1)
	ask := env.toolCall(second.ID, below.ID, store.ToolWaitingApproval)
	asked := env.approval(second.ID, below.ID, store.ApprovalPending)
	relayed := store.Approval{
		ID: env.id(), SessionID: root.ID, TurnID: prompt.ID, Kind: store.ApprovalPermission, Status: store.ApprovalPending, CreatedAt: at(1), Path: []byte(`["a","b"]`),
	}
	env.move(store.InsertApproval{Approval: relayed})
	env.tx(func(tx store.Tx) error { _, err := tx.SequenceApprovals(env.ctx, 10); return err })
	same(env, got[store.Approval](env)(env.s.Approval(env.ctx, store.As(alice()), relayed.ID)), relayed)
	same(env, got[[]store.ToolCall](env)(env.s.OpenToolCallsUnder(env.ctx, store.As(alice()), prompt.ID)), []store.ToolCall{ask})
	for _, in := range []store.Scope{store.As(alice()), store.System()} {
		all := got[[]store.Approval](env)(env.s.Approvals(env.ctx, in, store.ApprovalFilter{}, store.Page{}))
		open := got[[]store.ApprovalChange](env)(env.s.OpenApprovals(env.ctx, in, store.Page{}))
		changes := got[[]store.ApprovalChange](env)(env.s.ApprovalChanges(env.ctx, in, 0, 10))
		same(env, []int{len(all), len(open), len(changes)}, []int{1, 1, 1})
		same(env, []string{all[0].ID, open[0].Approval.ID, changes[0].Approval.ID}, []string{relayed.ID, relayed.ID, relayed.ID})
	}
	// Who names the child's Turn or Session gets what it asks.
	same(env, got[[]store.Approval](env)(env.s.Approvals(env.ctx, store.System(), store.ApprovalFilter{TurnID: below.ID}, store.Page{})), []store.Approval{asked})
	same(env, got[[]store.Approval](env)(env.s.Approvals(env.ctx, store.System(), store.ApprovalFilter{SessionID: second.ID}, store.Page{})), []store.Approval{asked})

	look := store.Command{ID: env.id(), SessionID: root.ID, TurnID: prompt.ID, Kind: store.CommandLook, CreatedAt: at(3)}
	env.move(store.InsertCommand{Command: look})
	same(env, got[[]store.Command](env)(env.s.PendingCommands(env.ctx, store.System(), root.ID)), []store.Command{look})

	env.tx(func(tx store.Tx) error { return tx.DeleteSession(env.ctx, root.ID, at(4)) })
	for _, id := range []string{root.ID, first.ID, second.ID} {
		_, err := env.s.Session(env.ctx, store.System(), id)
		env.is(err, store.ErrNotFound)
	}
	gone := got[[]store.Deleted](env)(env.s.DeletedSessions(env.ctx, store.System(), 10))
	same(env, len(gone), 3)
	if _, err := env.s.Turn(env.ctx, store.System(), below.ID); !errors.Is(err, store.ErrNotFound) {
		env.Errorf("the Turn of a deleted child: %v", err)
	}
}
