package storetest

import (
	"errors"
	"reflect"
	"slices"
	"time"

	"aqueduct/store"
)

// full is a Session with a row of every kind.
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
	command    store.Command
	proxy      store.Proxy
	instance   store.SandboxInstance
	tool       store.Tool
	grant      store.Grant
	delegation store.Delegation
	called     store.ToolCall // a server tool that nobody runs any more
	credential store.Credential
	keyBegun   store.AuditEntry // the last of the audit
}

func (w *world) full(p store.Principal) full {
	w.Helper()
	f := full{session: w.session(p)}
	w.move(store.SessionMove{ID: f.session.ID, Bytes: 5, UpdatedAt: f.session.UpdatedAt})
	f.turn = w.turn(f.session.ID, store.TurnRunning)
	f.run = w.run(f.session.ID, f.turn.ID, store.RunRunning)
	w.run(f.session.ID, f.turn.ID, store.RunReserved)
	f.toolCall = store.ToolCall{ID: w.id(), SessionID: f.session.ID, TurnID: f.turn.ID, Name: "buy",
		Kind: store.KindQuestion, Status: store.ToolWaitingApproval, CreatedAt: at(4), ExpiresAt: at(99)}
	f.approval = w.approval(f.session.ID, f.turn.ID, store.ApprovalPending)
	f.message = store.Message{ID: w.id(), SessionID: f.session.ID, RunID: f.run.ID, ExternalID: "m1", Role: "user",
		Data: []byte(`{"id":"m1"}`), CreatedAt: at(6)}
	answer := store.Message{ID: w.id(), SessionID: f.session.ID, RunID: f.run.ID, ExternalID: "a1", Role: "assistant", Output: true,
		Data: []byte(`{"id":"a1"}`), CreatedAt: at(6)}
	broken := w.run(f.session.ID, f.turn.ID, store.RunFailed)
	f.record = store.Record{ID: w.id(), SessionID: f.session.ID, TurnID: f.turn.ID, Source: store.SourceACP,
		Type: "update", TS: at(7), Payload: []byte(`{}`)}
	f.stranded = w.turn(w.session(p).ID, store.TurnRunning)
	f.command = store.Command{ID: w.id(), SessionID: f.session.ID, TurnID: f.turn.ID, Kind: store.CommandCancel,
		CreatedAt: at(8)}
	f.proxy = store.Proxy{ID: "p1", Status: store.ProxyOnline}
	f.instance = store.SandboxInstance{SessionID: f.session.ID, ProxyID: f.proxy.ID, CreatedAt: at(9), UpdatedAt: at(9)}
	f.tool = store.Tool{Name: "buy", Tenant: p.Tenant, Kind: store.KindServer, CreatedAt: at(1), UpdatedAt: at(1)}
	f.grant = store.Grant{ID: w.id(), Tenant: p.Tenant, User: p.User, CreatedAt: at(1)}
	f.delegation = store.Delegation{ID: w.id(), Tenant: p.Tenant, User: p.User, To: "dana", CreatedAt: at(1), ExpiresAt: time.Now().Add(time.Hour)}
	f.called = store.ToolCall{ID: w.id(), SessionID: f.session.ID, TurnID: f.turn.ID, Name: "buy", Kind: store.KindServer,
		Status: store.ToolRunning, IdempotencyKey: "k", Replica: "gone", CreatedAt: at(4)}
	f.credential = w.keep(store.Credential{ID: w.id(), Kind: store.CredentialUser, Tenant: p.Tenant, User: p.User, CreatedAt: at(1)})
	w.tx(func(tx store.Tx) error {
		_, err := tx.AppendAudit(w.ctx, store.AuditEntry{Tenant: p.Tenant, Actor: p.User, Action: "x", TS: at(1)})
		_, used := tx.UseLink(w.ctx, store.UsedLink{ID: "link of " + f.session.ID, Tenant: p.Tenant, User: p.User, UsedAt: at(1)})
		shared := tx.PutShare(w.ctx, store.Share{ID: w.id(), SessionID: f.session.ID, Tenant: p.Tenant, To: "user:nobody", CreatedBy: p.User, CreatedAt: at(1)})
		return errors.Join(err, used, shared, tx.UpsertTool(w.ctx, f.tool), tx.InsertGrant(w.ctx, f.grant), tx.InsertDelegation(w.ctx, f.delegation),
			tx.InsertToolCall(w.ctx, f.called), tx.InsertOutbox(w.ctx, store.OutboxItem{ID: w.id(), CreatedAt: at(1)}))
	})
	w.tx(func(tx store.Tx) (err error) {
		f.keyBegun, err = tx.AppendAudit(w.ctx, store.AuditEntry{Tenant: p.Tenant, Actor: p.User, Action: "x", SubjectType: store.SubjectAuditKey, SubjectID: "key of " + f.session.ID, TS: at(1)})
		return err
	})
	w.tx(func(tx store.Tx) error { _, err := tx.SequenceApprovals(w.ctx, 10); return err })
	w.tx(func(tx store.Tx) error {
		input := f.message
		input.ID, input.RunID, input.ExternalID = w.id(), f.turn.ID, "m2"
		return errors.Join(tx.InsertMessage(w.ctx, f.message), tx.InsertMessage(w.ctx, input), tx.InsertMessage(w.ctx, answer), tx.InsertCommand(w.ctx, f.command),
			tx.UpsertProxy(w.ctx, f.proxy), tx.UpsertSandboxInstance(w.ctx, f.instance))
	})
	w.serverCall(f.session.ID, store.ToolCall{Status: store.ToolWaitingClient, TurnID: w.turn(f.session.ID, store.TurnDone).ID})
	f.part = store.MessagePart{SessionID: f.session.ID, SHA256: "abc", MimeType: "image/png", Data: []byte("p"), CreatedAt: at(6)}
	hidden := w.session(p)
	w.tx(func(tx store.Tx) error {
		return errors.Join(tx.InsertMessagePart(w.ctx, f.part),
			tx.KeepSealed(w.ctx, store.Sealed{Ref: "args:" + f.session.ID + ":1", SessionID: f.session.ID, KID: "k", Data: []byte("s"), CreatedAt: at(6)}), tx.DeleteSession(w.ctx, hidden.ID, at(2)))
	})
	later := f.record // which is not sequenced yet
	later.ID = w.id()
	w.commit(store.Batch{Events: []store.EventRow{row(f.session.ID, 2, 2)}, Records: []store.Record{f.record, later},
		Moves: []store.Move{store.InsertToolCall{ToolCall: f.toolCall}, store.RunStateChanges{ID: broken.ID, Changes: []byte(`{}`)}}})
	w.tx(func(tx store.Tx) error { _, err := tx.SequenceRecords(w.ctx, f.session.ID, 1); return err })
	return f
}

// sees is one read of the store: whether it shows a row of the Session.
type sees func(r store.Reader, in store.Scope) (bool, error)

// found reads one row, which is there or ErrNotFound.
func found[T any](_ T, err error) (bool, error) {
	if errors.Is(err, store.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

func some[T any](rows []T, err error) (bool, error) { return len(rows) > 0, err }

// reads has, with unowned, an entry for every method of store.Reader.
func (w *world) reads(f full) map[string]sees {
	ctx, session, turn := w.ctx, f.session.ID, f.turn.ID
	return map[string]sees{
		"Session": func(r store.Reader, in store.Scope) (bool, error) { return found(r.Session(ctx, in, session)) },
		"SessionByExternalID": func(r store.Reader, in store.Scope) (bool, error) {
			return found(r.SessionByExternalID(ctx, in, f.session.ExternalID))
		},
		"Sessions": func(r store.Reader, in store.Scope) (bool, error) {
			return some(r.Sessions(ctx, in, store.Page{}))
		},
		"SessionsWithWork": func(r store.Reader, in store.Scope) (bool, error) {
			return some(r.SessionsWithWork(ctx, in, w.replica))
		},
		"AbandonedSessions": func(r store.Reader, in store.Scope) (bool, error) {
			return some(r.AbandonedSessions(ctx, in))
		},
		"Agenda": func(r store.Reader, in store.Scope) (bool, error) { return found(r.Agenda(ctx, in, session)) },
		"Turn":   func(r store.Reader, in store.Scope) (bool, error) { return found(r.Turn(ctx, in, turn)) },
		"ActiveTurn": func(r store.Reader, in store.Scope) (bool, error) {
			return found(r.ActiveTurn(ctx, in, session))
		},
		"Run": func(r store.Reader, in store.Scope) (bool, error) { return found(r.Run(ctx, in, f.run.ID)) },
		"RunByExternalID": func(r store.Reader, in store.Scope) (bool, error) {
			return found(r.RunByExternalID(ctx, in, session, f.run.ExternalID))
		},
		"FindRun": func(r store.Reader, in store.Scope) (bool, error) {
			return found(r.FindRun(ctx, in, f.run.ExternalID))
		},
		"LastRun": func(r store.Reader, in store.Scope) (bool, error) { return found(r.LastRun(ctx, in, session)) },
		"ReservedRuns": func(r store.Reader, in store.Scope) (bool, error) {
			return some(r.ReservedRuns(ctx, in, session))
		},
		"RunsOfTurn": func(r store.Reader, in store.Scope) (bool, error) { return some(r.RunsOfTurn(ctx, in, turn)) },
		"BrokenRuns": func(r store.Reader, in store.Scope) (bool, error) {
			return some(r.BrokenRuns(ctx, in, session, "", "~"))
		},
		"StateChanges": func(r store.Reader, in store.Scope) (bool, error) {
			return some(r.StateChanges(ctx, in, session, ""))
		},
		"NewestRunOf": func(r store.Reader, in store.Scope) (bool, error) {
			newest, err := r.NewestRunOf(ctx, in, session, []string{"m1", "none"})
			return newest != "", err
		},
		"LastAnswer": func(r store.Reader, in store.Scope) (bool, error) {
			return found(r.LastAnswer(ctx, in, session, f.run.ID))
		},
		"Events": func(r store.Reader, in store.Scope) (bool, error) {
			return some(r.Events(ctx, in, session, 0, 1<<20))
		},
		"LastSeq": func(r store.Reader, in store.Scope) (bool, error) { return found(r.LastSeq(ctx, in, session)) },
		"RecordsOfTurn": func(r store.Reader, in store.Scope) (bool, error) {
			return some(r.RecordsOfTurn(ctx, in, turn, store.Page{}))
		},
		"RunsWithin": func(r store.Reader, in store.Scope) (bool, error) {
			return some(r.RunsWithin(ctx, in, session, 1, 10))
		},
		"RecordsOfSession": func(r store.Reader, in store.Scope) (bool, error) {
			return some(r.RecordsOfSession(ctx, in, session, 0, 10))
		},
		"RecordsUnsequenced": func(r store.Reader, in store.Scope) (bool, error) {
			return r.RecordsUnsequenced(ctx, in, session, "")
		},
		"PlacedRecordsOfTurn": func(r store.Reader, in store.Scope) (bool, error) {
			return some(r.PlacedRecordsOfTurn(ctx, in, turn, 0, 10))
		},
		"RecordsOfType": func(r store.Reader, in store.Scope) (bool, error) {
			return some(r.RecordsOfType(ctx, in, f.record.Type, store.Page{}))
		},
		"LastMark": func(r store.Reader, in store.Scope) (bool, error) { return found(r.LastMark(ctx, in, session)) },
		"AgentsOfSession": func(r store.Reader, in store.Scope) (bool, error) {
			return some(r.AgentsOfSession(ctx, in, session))
		},
		"StrandedTurns": func(r store.Reader, in store.Scope) (bool, error) {
			return some(r.StrandedTurns(ctx, in, "nobody", 10))
		},
		"Messages": func(r store.Reader, in store.Scope) (bool, error) {
			return some(r.Messages(ctx, in, session, store.Page{}))
		},
		"Message": func(r store.Reader, in store.Scope) (bool, error) { return found(r.Message(ctx, in, f.message.ID)) },
		"BranchMessages": func(r store.Reader, in store.Scope) (bool, error) {
			return some(r.BranchMessages(ctx, in, session, turn, store.Page{}))
		},
		"MessagePlace": func(r store.Reader, in store.Scope) (bool, error) {
			return found(r.MessagePlace(ctx, in, session, "m1"))
		},
		"InputsOfTurn": func(r store.Reader, in store.Scope) (bool, error) {
			return some(r.InputsOfTurn(ctx, in, session, turn))
		},
		"TurnBefore": func(r store.Reader, in store.Scope) (bool, error) {
			return found(r.TurnBefore(ctx, in, turn))
		},
		"KnownMessageIDs": func(r store.Reader, in store.Scope) (bool, error) {
			known, err := r.KnownMessageIDs(ctx, in, session, []string{"m1"})
			return known["m1"], err
		},
		"Sealed": func(r store.Reader, in store.Scope) (bool, error) {
			return found(r.Sealed(ctx, in, "args:"+f.session.ID+":1"))
		},
		"MessagePart": func(r store.Reader, in store.Scope) (bool, error) {
			return found(r.MessagePart(ctx, in, session, f.part.SHA256))
		},
		"ToolCall": func(r store.Reader, in store.Scope) (bool, error) {
			return found(r.ToolCall(ctx, in, f.toolCall.ID))
		},
		"OpenToolCalls": func(r store.Reader, in store.Scope) (bool, error) {
			return some(r.OpenToolCalls(ctx, in, session))
		},
		"CountWaiting": func(r store.Reader, in store.Scope) (bool, error) {
			n, err := r.CountWaiting(ctx, in, "", 10)
			return n > 0, err
		},
		"CountActiveTurns": func(r store.Reader, in store.Scope) (bool, error) {
			n, err := r.CountActiveTurns(ctx, in, 10)
			return n > 0, err
		},
		"EventBytes": func(r store.Reader, in store.Scope) (bool, error) {
			n, err := r.EventBytes(ctx, in, session)
			if errors.Is(err, store.ErrNotFound) {
				err = nil
			}
			return n > 0, err
		},
		"TenantBytes": func(r store.Reader, in store.Scope) (bool, error) {
			n, err := r.TenantBytes(ctx, in)
			return n > 0, err
		},
		"ExpiringToolCalls": func(r store.Reader, in store.Scope) (bool, error) {
			return some(r.ExpiringToolCalls(ctx, in, 10))
		},
		"ToolCallsOfTurn": func(r store.Reader, in store.Scope) (bool, error) {
			return some(r.ToolCallsOfTurn(ctx, in, turn))
		},
		"ToolCallByKey": func(r store.Reader, in store.Scope) (bool, error) {
			return found(r.ToolCallByKey(ctx, in, turn, f.called.IdempotencyKey))
		},
		"ToolCallsByStatus": func(r store.Reader, in store.Scope) (bool, error) {
			return some(r.ToolCallsByStatus(ctx, in, []store.ToolCallStatus{store.ToolRunning}, "", 10))
		},
		"AbandonedToolCalls": func(r store.Reader, in store.Scope) (bool, error) {
			return some(r.AbandonedToolCalls(ctx, in, 10))
		},
		"OrphanedToolCalls": func(r store.Reader, in store.Scope) (bool, error) {
			return some(r.OrphanedToolCalls(ctx, in, 10))
		},
		"Approval": func(r store.Reader, in store.Scope) (bool, error) {
			return found(r.Approval(ctx, in, f.approval.ID))
		},
		"Approvals": func(r store.Reader, in store.Scope) (bool, error) {
			return some(r.Approvals(ctx, in, store.ApprovalFilter{}, store.Page{}))
		},
		"OpenApprovals": func(r store.Reader, in store.Scope) (bool, error) {
			return some(r.OpenApprovals(ctx, in, store.Page{}))
		},
		"ApprovalChanges": func(r store.Reader, in store.Scope) (bool, error) {
			return some(r.ApprovalChanges(ctx, in, 0, 10))
		},
		"PendingCommands": func(r store.Reader, in store.Scope) (bool, error) {
			return some(r.PendingCommands(ctx, in, session))
		},
		"SandboxInstance": func(r store.Reader, in store.Scope) (bool, error) {
			return found(r.SandboxInstance(ctx, in, session))
		},
		"SandboxInstancesOf": func(r store.Reader, in store.Scope) (bool, error) {
			return some(r.SandboxInstancesOf(ctx, in, f.proxy.ID, store.Page{}))
		},
	}
}

// owned has the reads of rows that belong to a user and to no Session.
func (w *world) owned(f full) map[string]sees {
	p := store.Principal{Tenant: f.session.Tenant, User: f.session.User}
	return map[string]sees{
		"Grant":  func(r store.Reader, in store.Scope) (bool, error) { return found(r.Grant(w.ctx, in, f.grant.ID)) },
		"Grants": func(r store.Reader, in store.Scope) (bool, error) { return some(r.Grants(w.ctx, in, store.Page{})) },
		"LiveGrants": func(r store.Reader, in store.Scope) (bool, error) {
			return some(r.LiveGrants(w.ctx, in, p.Tenant, p.User, "a", "s", at(1)))
		},
		"Delegation": func(r store.Reader, in store.Scope) (bool, error) {
			return found(r.Delegation(w.ctx, in, f.delegation.ID))
		},
		"Delegations": func(r store.Reader, in store.Scope) (bool, error) {
			return some(r.Delegations(w.ctx, in, store.Page{}))
		},
		"Shares": func(r store.Reader, in store.Scope) (bool, error) { return some(r.Shares(w.ctx, in, f.session.ID)) },
		"Audit":  func(r store.Reader, in store.Scope) (bool, error) { return some(r.Audit(w.ctx, in, 0, 10)) },
		"UsedLink": func(r store.Reader, in store.Scope) (bool, error) {
			return found(r.UsedLink(w.ctx, in, "link of "+f.session.ID))
		},
		"Credential": func(r store.Reader, in store.Scope) (bool, error) {
			return found(r.Credential(w.ctx, in, f.credential.ID))
		},
		"Credentials": func(r store.Reader, in store.Scope) (bool, error) {
			rows, err := r.Credentials(w.ctx, in, store.CredentialFilter{})
			return some(slices.DeleteFunc(rows, func(c store.Credential) bool { return c.ID != f.credential.ID }), err)
		},
	}
}

// byPrincipal has the reads that take no Scope but say whose rows they are about. The rows belong to the user "nobody"
// of the Session's tenant.
func (w *world) byPrincipal(f full) map[string]func(r store.Reader, who store.Principal) (bool, error) {
	return map[string]func(r store.Reader, who store.Principal) (bool, error){
		"Access": func(r store.Reader, who store.Principal) (bool, error) {
			return found(r.Access(w.ctx, who, store.AccessBy{SessionID: f.session.ID}))
		},
		"RevokedCredentials": func(r store.Reader, who store.Principal) (bool, error) {
			return some(r.RevokedCredentials(w.ctx, []string{heldBy(f, who), f.credential.ID}))
		},
		"UserRevokedAt": func(r store.Reader, who store.Principal) (bool, error) {
			at, err := r.UserRevokedAt(w.ctx, who.Tenant, who.User)
			return !at.IsZero(), err
		},
	}
}

// tenants has the reads of what every user of a tenant sees.
func (w *world) tenants(f full) map[string]sees {
	return map[string]sees{
		"Tool": func(r store.Reader, in store.Scope) (bool, error) { return found(r.Tool(w.ctx, in, f.tool.Name)) },
		"ToolOf": func(r store.Reader, in store.Scope) (bool, error) {
			return found(r.ToolOf(w.ctx, in, f.tool.Tenant, f.tool.Name))
		},
		"Tools": func(r store.Reader, in store.Scope) (bool, error) { return some(r.Tools(w.ctx, in, store.Page{})) },
	}
}

// unowned has the reads of rows that belong to no Session: they are the system's alone.
func (w *world) unowned(f full) map[string]sees {
	return map[string]sees{
		"Proxy":     func(r store.Reader, in store.Scope) (bool, error) { return found(r.Proxy(w.ctx, in, f.proxy.ID)) },
		"Proxies":   func(r store.Reader, in store.Scope) (bool, error) { return some(r.Proxies(w.ctx, in)) },
		"OutboxDue": func(r store.Reader, in store.Scope) (bool, error) { return some(r.OutboxDue(w.ctx, in, at(1), 10)) },
		"DeletedSessions": func(r store.Reader, in store.Scope) (bool, error) {
			return some(r.DeletedSessions(w.ctx, in, 10))
		},
		"LastApprovalChange": func(r store.Reader, in store.Scope) (bool, error) {
			last, err := r.LastApprovalChange(w.ctx, in)
			return last > 0, err
		},
		"ApprovalsUnsequenced": func(r store.Reader, in store.Scope) (bool, error) { return r.ApprovalsUnsequenced(w.ctx, in) },
		"DelegationsOf": func(r store.Reader, in store.Scope) (bool, error) {
			return some(r.DelegationsOf(w.ctx, in, f.approval.ID, f.delegation.To))
		},
		"AuditHead": func(r store.Reader, in store.Scope) (bool, error) {
			head, err := r.AuditHead(w.ctx, in)
			if err == nil && head.Hash != f.keyBegun.Hash {
				w.Errorf("the head of the audit is entry %d, want %d", head.Seq, f.keyBegun.Seq)
			}
			return found(head, err)
		},
		"AuditKeyBegun": func(r store.Reader, in store.Scope) (bool, error) {
			return found(r.AuditKeyBegun(w.ctx, in, f.keyBegun.SubjectID))
		},
	}
}

// testScope asks every read for a row of alice's with everybody's eyes, beside
// transactions and inside.
func testScope(w *world) {
	f := w.full(alice())
	w.approval(f.session.ID, f.turn.ID, store.ApprovalPending) // behind the others, so without a position
	reads, owned, tenants, unowned, byPrincipal := w.reads(f), w.owned(f), w.tenants(f), w.unowned(f), w.byPrincipal(f)
	reader := reflect.TypeFor[store.Reader]()
	for i := range reader.NumMethod() {
		name := reader.Method(i).Name
		if reads[name] == nil && owned[name] == nil && tenants[name] == nil && unowned[name] == nil && byPrincipal[name] == nil {
			w.Errorf("no entry for Reader.%s: a new read must be tried with foreign eyes", name)
		}
	}
	w.everybody(w.s, reads, true)
	w.tx(func(tx store.Tx) error { w.everybody(tx, reads, true); return nil })
	w.everybody(w.s, owned, true)
	w.tx(func(tx store.Tx) error { w.everybody(tx, owned, true); return nil })
	w.tenantwide(tenants)
	w.principals(f, byPrincipal)
	for name, read := range unowned {
		for _, in := range []store.Scope{store.As(alice()), store.Within("acme"), store.Within(""), store.Installation(), {}, store.System()} {
			if seen, err := read(w.s, in); err != nil || seen != in.All() {
				w.Errorf("%s as %+v: seen %t, %v", name, in, seen, err)
			}
		}
	}

	lock := func(in store.Scope) (ok bool) {
		w.tx(func(tx store.Tx) (err error) { ok, err = found(tx.LockSession(w.ctx, in, f.session.ID)); return err })
		return ok
	}
	if !lock(store.As(alice())) || !lock(store.System()) || !lock(store.Within("acme")) {
		w.Error("LockSession does not show a Session to its owner")
	}
	if lock(store.As(bob())) || lock(store.Within("other")) || lock(store.As(carol())) || lock(store.Scope{}) {
		w.Error("LockSession shows a Session to others")
	}
}
