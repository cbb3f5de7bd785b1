package storetest

import (
	"errors"
	"reflect"
	"time"

	"aqueduct/store"
)

// insertFull is a Session with a row of every kind.
type full struct {
	session    store.Session
	turn       store.Turn
	run        store.Run
	toolCall   store.ToolCall
	approval   store.Approval
	message    store.Message
	record     store.Record
	part       store.MessagePart
	stranded   store.Turn
	unsearched store.Session
	command    store.Command
	proxy      store.Proxy
	instance   store.SandboxInstance
	tool       store.Tool
	agent      store.Agent
	modelCall  store.ModelCall
	budget     store.BudgetUse
	task       store.Task
	entry      store.ContextEntry
	grant      store.Grant
	delegation store.Delegation
	child      store.ToolCall // of an agent that the Turn's agent called
	called     store.ToolCall // a server tool whose replica is gone
	credential store.Credential
	keyBegun   store.AuditEntry // the last of the audit
}

func insertFull(env *storeEnv, p store.Principal) full {
	env.Helper()
	f := full{session: env.session(p)}
	env.move(store.SessionMove{ID: f.session.ID, Bytes: 5, UpdatedAt: f.session.UpdatedAt})
	f.turn = env.turn(f.session.ID, store.TurnRunning)
	f.run = env.run(f.session.ID, f.turn.ID, store.RunRunning)
	env.run(f.session.ID, f.turn.ID, store.RunReserved)
	f.toolCall = store.ToolCall{ID: env.id(), SessionID: f.session.ID, TurnID: f.turn.ID, Name: "buy",
		Kind: store.KindQuestion, Status: store.ToolWaitingApproval, CreatedAt: at(4), ExpiresAt: at(99)}
	f.approval = env.approval(f.session.ID, f.turn.ID, store.ApprovalPending)
	f.message = store.Message{ID: env.id(), SessionID: f.session.ID, RunID: f.run.ID, ExternalID: "m1", Role: "user",
		Data: []byte(`{"id":"m1"}`), CreatedAt: at(6)}
	answer := store.Message{ID: env.id(), SessionID: f.session.ID, RunID: f.run.ID, ExternalID: "a1", Role: "assistant", Output: true,
		Data: []byte(`{"id":"a1"}`), CreatedAt: at(6)}
	broken := env.run(f.session.ID, f.turn.ID, store.RunFailed)
	f.record = store.Record{ID: env.id(), SessionID: f.session.ID, TurnID: f.turn.ID, Source: store.SourceACP,
		Type: "update", TS: at(7), Payload: []byte(`{}`)}
	f.stranded = env.turn(env.session(p).ID, store.TurnRunning)
	f.command = store.Command{ID: env.id(), SessionID: f.session.ID, TurnID: f.turn.ID, Kind: store.CommandCancel,
		CreatedAt: at(8)}
	below := store.Session{ID: env.id(), Tenant: p.Tenant, User: p.User, ExternalID: env.id(), ParentTurnID: f.turn.ID, RootTurnID: f.turn.ID, CreatedAt: at(1), UpdatedAt: at(1)}
	env.tx(func(tx store.Tx) error { return tx.InsertSession(env.ctx, below) })
	f.child = env.toolCall(below.ID, env.turn(below.ID, store.TurnRunning).ID, store.ToolWaitingApproval)
	f.proxy = store.Proxy{ID: "p1", Status: store.ProxyOnline, Replica: env.replica}
	f.instance = store.SandboxInstance{SessionID: f.session.ID, ProxyID: f.proxy.ID, CreatedAt: at(9), UpdatedAt: at(9)}
	f.tool = store.Tool{Name: "buy", Tenant: p.Tenant, Kind: store.KindServer, CreatedAt: at(1), UpdatedAt: at(1)}
	f.agent = store.Agent{ID: "agent of " + p.Tenant, Tenant: p.Tenant, Owner: p.User, Source: store.AgentFromAPI, Protocol: store.AgentHTTP, RegisteredAt: at(1), UpdatedAt: at(1)}
	f.modelCall = store.ModelCall{ID: env.id(), SessionID: f.session.ID, TurnID: f.turn.ID, AgentID: "a", Route: "chat/completions", Model: "m", Status: store.ModelOpen, StartedAt: at(1)}
	f.budget = store.BudgetUse{BudgetKey: store.BudgetKey{Tenant: p.Tenant, Budget: "run:tokens", Subject: f.turn.ID}, SessionID: f.session.ID, Used: 1}
	f.task = taskOf(env, p, "thread of a task")
	f.entry = entryOf(env, p, f.session.ID)
	f.entry.ExpiresAt = at(2)
	f.grant = store.Grant{ID: env.id(), Tenant: p.Tenant, User: p.User, CreatedAt: at(1)}
	f.delegation = store.Delegation{ID: env.id(), Tenant: p.Tenant, User: p.User, To: "dana", CreatedAt: at(1), ExpiresAt: time.Now().Add(time.Hour)}
	f.called = store.ToolCall{ID: env.id(), SessionID: f.session.ID, TurnID: f.turn.ID, Name: "buy", Kind: store.KindServer,
		Status: store.ToolRunning, IdempotencyKey: "k", Replica: "gone", CreatedAt: at(4)}
	f.credential = insertCredential(env, store.Credential{ID: env.id(), Kind: store.CredentialUser, Tenant: p.Tenant, User: p.User, CreatedAt: at(1)})
	taken := taskOf(env, p, "another thread")
	taken.Status = store.TaskTaken
	env.tx(func(tx store.Tx) error {
		_, err := tx.AppendAudit(env.ctx, store.AuditEntry{Tenant: p.Tenant, Actor: p.User, Action: "x", TS: at(1)})
		_, claimed := tx.ClaimAgent(env.ctx, f.agent)
		lost := f.modelCall
		lost.ID, lost.Replica = env.id(), "gone"
		called := errors.Join(tx.InsertTask(env.ctx, f.task), tx.InsertTask(env.ctx, taken), tx.InsertModelCall(env.ctx, f.modelCall), tx.InsertModelCall(env.ctx, lost), tx.AddToBudget(env.ctx, f.budget))
		ended := f.modelCall
		ended.Status, ended.EndedAt = store.ModelDone, at(2)
		_, over := tx.EndModelCall(env.ctx, ended)
		_, used := tx.UseLink(env.ctx, store.UsedLink{ID: "link of " + f.session.ID, Tenant: p.Tenant, User: p.User, UsedAt: at(1)})
		kept := errors.Join(tx.InsertContextEntry(env.ctx, f.entry), tx.InsertBlob(env.ctx, store.Blob{ID: env.id(), Status: store.BlobDoomed, CreatedAt: at(1)}))
		shared := tx.PutShare(env.ctx, store.Share{ID: env.id(), SessionID: f.session.ID, Tenant: p.Tenant, To: "user:nobody", CreatedBy: p.User, CreatedAt: at(1)})
		_, pinned := tx.PinTool(env.ctx, store.ToolPin{Tool: "files.read", SHA256: "aa", CreatedAt: at(1)})
		return errors.Join(err, claimed, called, over, used, kept, shared, pinned, tx.UpsertTool(env.ctx, f.tool), tx.InsertGrant(env.ctx, f.grant), tx.InsertDelegation(env.ctx, f.delegation),
			tx.InsertToolCall(env.ctx, f.called), tx.InsertOutbox(env.ctx, store.OutboxItem{ID: env.id(), SessionID: f.session.ID, Kind: "note", Target: "x", CreatedAt: at(1)}))
	})
	env.tx(func(tx store.Tx) (err error) {
		if _, err = tx.AppendAudit(env.ctx, store.AuditEntry{Tenant: p.Tenant, Actor: p.User, Action: "x", SubjectType: store.SubjectPolicy, SubjectID: "p", TS: at(1)}); err != nil {
			return err
		}
		f.keyBegun, err = tx.AppendAudit(env.ctx, store.AuditEntry{Tenant: p.Tenant, Actor: p.User, Action: "x", SubjectType: store.SubjectAuditKey, SubjectID: "key of " + f.session.ID, TS: at(1)})
		return err
	})
	env.tx(func(tx store.Tx) error { _, err := tx.SequenceApprovals(env.ctx, 10); return err })
	env.tx(func(tx store.Tx) error {
		input := f.message
		input.ID, input.RunID, input.ExternalID = env.id(), f.turn.ID, "m2"
		return errors.Join(tx.InsertMessage(env.ctx, f.message), tx.InsertMessage(env.ctx, input), tx.InsertMessage(env.ctx, answer), tx.InsertCommand(env.ctx, f.command),
			tx.UpsertProxy(env.ctx, f.proxy), tx.UpsertSandboxInstance(env.ctx, f.instance))
	})
	insertServerCall(env, f.session.ID, store.ToolCall{Status: store.ToolWaitingClient, TurnID: env.turn(f.session.ID, store.TurnDone).ID})
	f.part = store.MessagePart{SessionID: f.session.ID, SHA256: "abc", MimeType: "image/png", Data: []byte("p"), CreatedAt: at(6)}
	hidden := env.session(p)
	env.tx(func(tx store.Tx) error {
		return errors.Join(tx.InsertMessagePart(env.ctx, f.part),
			tx.KeepSealed(env.ctx, store.Sealed{Ref: "args:" + f.session.ID + ":1", SessionID: f.session.ID, KID: "k", Data: []byte("s"), CreatedAt: at(6)}), tx.DeleteSession(env.ctx, hidden.ID, at(2)))
	})
	searched(env)
	f.unsearched = env.session(p) // its title is not searched yet
	later := f.record             // which is not sequenced yet
	later.ID = env.id()
	env.commit(store.Batch{Events: []store.EventRow{row(f.session.ID, 2, 2)}, Records: []store.Record{f.record, later},
		Moves: []store.Move{store.InsertToolCall{ToolCall: f.toolCall}, store.RunStateChanges{ID: broken.ID, Changes: []byte(`{}`)}}})
	env.tx(func(tx store.Tx) error { _, err := tx.SequenceRecords(env.ctx, f.session.ID, 1); return err })
	return f
}

// testScope asks every read for a row of alice's in every Scope, outside of a transaction and
// inside.
func testScope(env *storeEnv) {
	f := insertFull(env, alice())
	env.approval(f.session.ID, f.turn.ID, store.ApprovalPending) // behind the others, so without a position
	reads, owned, tenants, unowned, byPrincipal := readsOfSession(env, f), ownerReads(env, f), tenantReads(env, f), unownedReads(env, f), principalReads(env, f)
	reader := reflect.TypeFor[store.Reader]()
	for i := range reader.NumMethod() {
		name := reader.Method(i).Name
		if reads[name] == nil && owned[name] == nil && tenants[name] == nil && unowned[name] == nil && byPrincipal[name] == nil {
			env.Errorf("no entry for Reader.%s: a new read must be tried with foreign eyes", name)
		}
	}
	checkEveryScope(env, env.s, reads, true)
	env.tx(func(tx store.Tx) error { checkEveryScope(env, tx, reads, true); return nil })
	checkEveryScope(env, env.s, owned, true)
	env.tx(func(tx store.Tx) error { checkEveryScope(env, tx, owned, true); return nil })
	checkTenantWide(env, tenants)
	checkPrincipals(env, f, byPrincipal)
	for name, read := range unowned {
		for _, in := range []store.Scope{store.As(alice()), store.Within("acme"), store.Within(""), store.Installation(), {}, store.System()} {
			if seen, err := read(env.s, in); err != nil || seen != in.All() {
				env.Errorf("%s as %+v: seen %t, %v", name, in, seen, err)
			}
		}
	}

	lock := func(in store.Scope) (ok bool) {
		env.tx(func(tx store.Tx) (err error) { ok, err = found(tx.LockSession(env.ctx, in, f.session.ID)); return err })
		return ok
	}
	if !lock(store.As(alice())) || !lock(store.System()) || !lock(store.Within("acme")) {
		env.Error("LockSession does not show a Session to its owner")
	}
	if lock(store.As(bob())) || lock(store.Within("other")) || lock(store.As(carol())) || lock(store.Scope{}) {
		env.Error("LockSession shows a Session to others")
	}
}
