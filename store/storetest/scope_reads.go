package storetest

import (
	"errors"
	"maps"
	"slices"

	"aqueduct/store"
)

// Every read of store.Reader with the rows of a full Session, by whose rows it shows: testScope
// tries each of them in every Scope, and fails when a method of the Reader has no entry here.

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

// readsOfSession has the reads of rows that belong to a Session.
func readsOfSession(env *storeEnv, f full) map[string]sees {
	reads := readsOfTurns(env, f)
	maps.Copy(reads, readsOfLog(env, f))
	maps.Copy(reads, readsOfCalls(env, f))
	return reads
}

// readsOfTurns has those of Sessions, Turns and Runs.
func readsOfTurns(env *storeEnv, f full) map[string]sees {
	ctx, session, turn := env.ctx, f.session.ID, f.turn.ID
	return map[string]sees{
		"Session": func(r store.Reader, in store.Scope) (bool, error) { return found(r.Session(ctx, in, session)) },
		"SessionByExternalID": func(r store.Reader, in store.Scope) (bool, error) {
			return found(r.SessionByExternalID(ctx, in, f.session.ExternalID))
		},
		"Sessions": func(r store.Reader, in store.Scope) (bool, error) {
			return some(r.Sessions(ctx, in, store.Page{}))
		},
		"SessionsArchived": func(r store.Reader, in store.Scope) (bool, error) {
			return some(r.SessionsArchived(ctx, in, false, store.Page{}))
		},
		"Search": func(r store.Reader, in store.Scope) (bool, error) {
			found, _, err := r.Search(ctx, in, store.SearchQuery{Words: []string{"m1"}})
			return some(found, err)
		},
		"SessionsWithWork": func(r store.Reader, in store.Scope) (bool, error) {
			return some(r.SessionsWithWork(ctx, in, env.replica))
		},
		"SessionsWithCommands": func(r store.Reader, in store.Scope) (bool, error) {
			return some(r.SessionsWithCommands(ctx, in, env.replica))
		},
		"AbandonedSessions": func(r store.Reader, in store.Scope) (bool, error) {
			return some(r.AbandonedSessions(ctx, in))
		},
		"Agenda": func(r store.Reader, in store.Scope) (bool, error) { return found(r.Agenda(ctx, in, session)) },
		"Turn":   func(r store.Reader, in store.Scope) (bool, error) { return found(r.Turn(ctx, in, turn)) },
		"ChildTurns": func(r store.Reader, in store.Scope) (bool, error) {
			return some(r.ChildTurns(ctx, in, f.turn.ID))
		},
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
	}
}

// readsOfLog has those of the log, Records and messages.
func readsOfLog(env *storeEnv, f full) map[string]sees {
	ctx, session, turn := env.ctx, f.session.ID, f.turn.ID
	return map[string]sees{
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
		"LastCursor": func(r store.Reader, in store.Scope) (bool, error) { return found(r.LastCursor(ctx, in, session)) },
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
		"ModelCall": func(r store.Reader, in store.Scope) (bool, error) {
			return found(r.ModelCall(env.ctx, in, f.modelCall.ID))
		},
		"AbandonedModelCalls": func(r store.Reader, in store.Scope) (bool, error) {
			return some(r.AbandonedModelCalls(env.ctx, in, 10))
		},
		"ContextEntry": func(r store.Reader, in store.Scope) (bool, error) {
			return found(r.ContextEntry(env.ctx, in, f.entry.Key))
		},
		"ContextData": func(r store.Reader, in store.Scope) (bool, error) {
			return found(r.ContextData(env.ctx, in, f.entry.Key, f.entry.Version))
		},
		"ContextEntries": func(r store.Reader, in store.Scope) (bool, error) {
			return some(r.ContextEntries(env.ctx, in, f.entry.OwnerType, f.entry.OwnerID, at(1), store.Page{}))
		},
		"UsageOfTurn": func(r store.Reader, in store.Scope) (bool, error) {
			return some(r.UsageOfTurn(env.ctx, in, f.turn.ID))
		},
		"Sealed": func(r store.Reader, in store.Scope) (bool, error) {
			return found(r.Sealed(ctx, in, "args:"+f.session.ID+":1"))
		},
		"MessagePart": func(r store.Reader, in store.Scope) (bool, error) {
			return found(r.MessagePart(ctx, in, session, f.part.SHA256))
		},
	}
}

// readsOfCalls has those of tool calls, Approvals, Commands, sandboxes and what is counted.
func readsOfCalls(env *storeEnv, f full) map[string]sees {
	ctx, session, turn := env.ctx, f.session.ID, f.turn.ID
	return map[string]sees{
		"ToolCall": func(r store.Reader, in store.Scope) (bool, error) {
			return found(r.ToolCall(ctx, in, f.toolCall.ID))
		},
		"OpenToolCallsUnder": func(r store.Reader, in store.Scope) (bool, error) {
			return some(r.OpenToolCallsUnder(ctx, in, f.turn.ID))
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
		"ExpiringToolCalls": func(r store.Reader, in store.Scope) (bool, error) {
			return some(r.ExpiringToolCalls(ctx, in, 10))
		},
		"ToolCallsOfTurn": func(r store.Reader, in store.Scope) (bool, error) {
			return some(r.ToolCallsOfTurn(ctx, in, turn))
		},
		"CountToolCalls": func(r store.Reader, in store.Scope) (bool, error) {
			n, _, err := r.CountToolCalls(ctx, in, turn)
			return n > 0, err
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
			return some(r.OrphanedToolCalls(ctx, in, "", 10))
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

// ownerReads has the reads of rows that belong to a user and to no Session.
func ownerReads(env *storeEnv, f full) map[string]sees {
	p := store.Principal{Tenant: f.session.Tenant, User: f.session.User}
	return map[string]sees{
		"Grant": func(r store.Reader, in store.Scope) (bool, error) { return found(r.Grant(env.ctx, in, f.grant.ID)) },
		"Task":  func(r store.Reader, in store.Scope) (bool, error) { return found(r.Task(env.ctx, in, f.task.ID)) },
		"CountAgents": func(r store.Reader, in store.Scope) (bool, error) {
			n, err := r.CountAgents(env.ctx, in, 10)
			return n > 0, err
		},
		"CountTasks": func(r store.Reader, in store.Scope) (bool, error) {
			n, err := r.CountTasks(env.ctx, in, 10)
			return n > 0, err
		},
		"Grants": func(r store.Reader, in store.Scope) (bool, error) { return some(r.Grants(env.ctx, in, store.Page{})) },
		"LiveGrants": func(r store.Reader, in store.Scope) (bool, error) {
			return some(r.LiveGrants(env.ctx, in, p.Tenant, p.User, "a", "s", at(1)))
		},
		"Delegation": func(r store.Reader, in store.Scope) (bool, error) {
			return found(r.Delegation(env.ctx, in, f.delegation.ID))
		},
		"Delegations": func(r store.Reader, in store.Scope) (bool, error) {
			return some(r.Delegations(env.ctx, in, store.Page{}))
		},
		"Shares": func(r store.Reader, in store.Scope) (bool, error) { return some(r.Shares(env.ctx, in, f.session.ID)) },
		"Audit":  func(r store.Reader, in store.Scope) (bool, error) { return some(r.Audit(env.ctx, in, 0, 10)) },
		"UsedLink": func(r store.Reader, in store.Scope) (bool, error) {
			return found(r.UsedLink(env.ctx, in, "link of "+f.session.ID))
		},
		"Credential": func(r store.Reader, in store.Scope) (bool, error) {
			return found(r.Credential(env.ctx, in, f.credential.ID))
		},
		"Credentials": func(r store.Reader, in store.Scope) (bool, error) {
			rows, err := r.Credentials(env.ctx, in, store.CredentialFilter{})
			return some(slices.DeleteFunc(rows, func(c store.Credential) bool { return c.ID != f.credential.ID }), err)
		},
	}
}

// principalReads has the reads that take no Scope but take a Principal. The rows belong to the user "nobody"
// of the Session's tenant.
func principalReads(env *storeEnv, f full) map[string]func(r store.Reader, who store.Principal) (bool, error) {
	return map[string]func(r store.Reader, who store.Principal) (bool, error){
		"Access": func(r store.Reader, who store.Principal) (bool, error) {
			return found(r.Access(env.ctx, who, store.AccessBy{SessionID: f.session.ID}))
		},
		"RevokedCredentials": func(r store.Reader, who store.Principal) (bool, error) {
			return some(r.RevokedCredentials(env.ctx, []string{heldBy(f, who), f.credential.ID}))
		},
		"UserRevokedAt": func(r store.Reader, who store.Principal) (bool, error) {
			at, err := r.UserRevokedAt(env.ctx, who.Tenant, who.User)
			return !at.IsZero(), err
		},
	}
}

// tenantReads has the reads of what every user of a tenant sees.
func tenantReads(env *storeEnv, f full) map[string]sees {
	return map[string]sees{
		"Tool": func(r store.Reader, in store.Scope) (bool, error) { return found(r.Tool(env.ctx, in, f.tool.Name)) },
		"ToolOf": func(r store.Reader, in store.Scope) (bool, error) {
			return found(r.ToolOf(env.ctx, in, f.tool.Tenant, f.tool.Name))
		},
		"Agent":  func(r store.Reader, in store.Scope) (bool, error) { return found(r.Agent(env.ctx, in, f.agent.ID)) },
		"Agents": func(r store.Reader, in store.Scope) (bool, error) { return some(r.Agents(env.ctx, in, store.Page{})) },
		"Tools":  func(r store.Reader, in store.Scope) (bool, error) { return some(r.Tools(env.ctx, in, store.Page{})) },
	}
}

// unownedReads has the reads of rows that belong to no Session: they are the system's alone.
func unownedReads(env *storeEnv, f full) map[string]sees {
	return map[string]sees{
		"Proxy": func(r store.Reader, in store.Scope) (bool, error) { return found(r.Proxy(env.ctx, in, f.proxy.ID)) },
		"ToolPinned": func(r store.Reader, in store.Scope) (bool, error) {
			return r.ToolPinned(env.ctx, in, store.ToolPin{Tool: "files.read", SHA256: "aa", Tenant: f.tool.Tenant})
		},
		"TenantBytes": func(r store.Reader, in store.Scope) (bool, error) {
			n, err := r.TenantBytes(env.ctx, in, f.session.Tenant)
			return n > 0, err
		},
		"ContextBytes": func(r store.Reader, in store.Scope) (bool, error) {
			n, err := r.ContextBytes(env.ctx, in, f.session.Tenant, f.session.User)
			return n > 0, err
		},
		"AgentsStamp": func(r store.Reader, in store.Scope) (bool, error) {
			stamp, err := r.AgentsStamp(env.ctx, in)
			return stamp > 0, err
		},
		"Proxies": func(r store.Reader, in store.Scope) (bool, error) { return some(r.Proxies(env.ctx, in)) },
		"OutboxDue": func(r store.Reader, in store.Scope) (bool, error) {
			return some(r.OutboxDue(env.ctx, in, store.OutboxLane{Kind: "note", Target: "x"}, at(1), 10))
		},
		"OutboxLanes": func(r store.Reader, in store.Scope) (bool, error) { return some(r.OutboxLanes(env.ctx, in, "note")) },
		"OutboxOf":    func(r store.Reader, in store.Scope) (bool, error) { return some(r.OutboxOf(env.ctx, in, f.session.ID)) },
		"ProxyLinks":  func(r store.Reader, in store.Scope) (bool, error) { return some(r.ProxyLinks(env.ctx, in)) },
		"ExpiredContext": func(r store.Reader, in store.Scope) (bool, error) {
			return some(r.ExpiredContext(env.ctx, in, at(9), 10))
		},
		"TaskLines": func(r store.Reader, in store.Scope) (bool, error) {
			return some(r.TaskLines(env.ctx, in, store.TaskLine{}, 10))
		},
		"NextTasks": func(r store.Reader, in store.Scope) (bool, error) {
			return some(r.NextTasks(env.ctx, in, store.TaskLine{AgentID: f.task.AgentID, Tenant: f.task.Tenant, User: f.task.User}, 10))
		},
		"TakenTasks": func(r store.Reader, in store.Scope) (bool, error) { return some(r.TakenTasks(env.ctx, in)) },
		"BudgetUse": func(r store.Reader, in store.Scope) (bool, error) {
			return found(r.BudgetUse(env.ctx, in, f.budget.BudgetKey))
		},
		"DoomedBlobs": func(r store.Reader, in store.Scope) (bool, error) {
			return some(r.DoomedBlobs(env.ctx, in, "", store.Blob{}, 10))
		},
		"SearchBehind": func(r store.Reader, in store.Scope) (bool, error) {
			return r.SearchBehind(env.ctx, in)
		},
		"DeletedSessions": func(r store.Reader, in store.Scope) (bool, error) {
			return some(r.DeletedSessions(env.ctx, in, 10))
		},
		"LastApprovalChange": func(r store.Reader, in store.Scope) (bool, error) {
			last, err := r.LastApprovalChange(env.ctx, in)
			return last > 0, err
		},
		"ApprovalsUnsequenced": func(r store.Reader, in store.Scope) (bool, error) { return r.ApprovalsUnsequenced(env.ctx, in) },
		"DelegationsOf": func(r store.Reader, in store.Scope) (bool, error) {
			return some(r.DelegationsOf(env.ctx, in, f.approval.ID, f.delegation.To))
		},
		"AuditHead": func(r store.Reader, in store.Scope) (bool, error) {
			head, err := r.AuditHead(env.ctx, in)
			if err == nil && head.Hash != f.keyBegun.Hash {
				env.Errorf("the head of the audit is entry %d, want %d", head.Seq, f.keyBegun.Seq)
			}
			return found(head, err)
		},
		"PolicyChanged": func(r store.Reader, in store.Scope) (bool, error) { return found(r.PolicyChanged(env.ctx, in)) },
		"AuditKeyBegun": func(r store.Reader, in store.Scope) (bool, error) {
			return found(r.AuditKeyBegun(env.ctx, in, f.keyBegun.SubjectID))
		},
	}
}
