package redact

import (
	"time"
	"unicode/utf8"

	"aqueduct/store"
)

// rows masks the members of rows that hold words of agents, users and tools, and collects the originals of those that
// run. Ids, hashes and what operators configured stay.
type rows struct {
	filter *Filter
	vault  *Vault
	sealed []store.Sealed
}

func (r *rows) text(s *string) { *s = r.filter.Text(*s) }

func (r *rows) json(b *[]byte) { *b = r.filter.JSON(*b) }

// sealing is json for what runs. session tells the Session, which a move does not name; it is asked only when there is
// something to seal.
func (r *rows) sealing(kind, id string, session func() string, b *[]byte) {
	masked := r.filter.JSON(*b)
	if same(*b, masked) {
		return
	}
	r.seal(kind, id, session(), *b, masked)
	*b = masked
}

func (r *rows) seal(kind, id, session string, original, masked []byte) {
	if session == "" {
		return // it would never be deleted
	}
	ref := refOf(kind, id, masked)
	kid, data := r.vault.seal(ref, original)
	r.sealed = append(r.sealed, store.Sealed{Ref: ref, SessionID: session, KID: kid, Data: data, CreatedAt: time.Now()})
}

func known(session string) func() string { return func() string { return session } }

func (r *rows) session(s store.Session) store.Session {
	r.text(&s.Title)
	r.json(&s.State)
	return s
}

func (r *rows) turn(t store.Turn) store.Turn {
	r.sealing(ofInput, t.ID, known(t.SessionID), &t.Input)
	r.text(&t.ErrorCode)
	r.text(&t.ErrorMessage)
	return t
}

func (r *rows) run(n store.Run) store.Run {
	r.json(&n.Profile)
	r.text(&n.ErrorCode)
	return n
}

func (r *rows) message(m store.Message) store.Message {
	if m.Output {
		r.json(&m.Data)
	} else {
		r.sealing(ofMessage, messageID(m), known(m.SessionID), &m.Data)
	}
	return m
}

// part masks one that is a text: in other bytes nothing is looked for.
func (r *rows) part(p store.MessagePart) store.MessagePart {
	if !utf8.Valid(p.Data) {
		return p
	}
	if masked := r.filter.Bytes(p.Data); !same(p.Data, masked) {
		r.seal(ofPart, partID(p), p.SessionID, p.Data, masked)
		p.Data = masked
	}
	return p
}

func (r *rows) call(c store.ToolCall) store.ToolCall {
	r.sealing(ofArgs, c.ID, known(c.SessionID), &c.Args)
	r.sealing(ofResult, c.ID, known(c.SessionID), &c.Result)
	r.json(&c.Error)
	if c.Kind == store.KindQuestion { // the agent's word; other calls are found by the name of a tool that is there
		r.text(&c.Name)
	}
	return c
}

func (r *rows) callMove(m store.ToolCallMove, session func() string) store.ToolCallMove {
	r.sealing(ofArgs, m.ID, session, &m.Args)
	r.sealing(ofResult, m.ID, session, &m.Result)
	r.json(&m.Error)
	return m
}

func (r *rows) approval(a store.Approval) store.Approval {
	r.text(&a.Title)
	r.text(&a.Tool)
	r.sealing(ofArgs, a.ID, known(a.SessionID), &a.Args)
	r.json(&a.Options)
	r.json(&a.ResponseSchema)
	r.json(&a.EditedArgs)
	r.sealing(ofDecision, a.ID, known(a.SessionID), &a.Decision)
	r.text(&a.Reason)
	return a
}

func (r *rows) approvalMove(m store.ApprovalMove, session func() string) store.ApprovalMove {
	r.sealing(ofDecision, m.ID, session, &m.Decision)
	r.json(&m.EditedArgs)
	r.text(&m.Reason)
	return m
}

func (r *rows) record(e store.Record) store.Record {
	r.json(&e.Payload)
	return e
}

func (r *rows) command(c store.Command) store.Command {
	r.json(&c.Payload)
	return c
}

func (r *rows) outbox(i store.OutboxItem) store.OutboxItem {
	r.json(&i.Payload)
	r.text(&i.LastError)
	return i
}

func (r *rows) proxy(p store.Proxy) store.Proxy {
	r.json(&p.Capabilities)
	r.json(&p.Sandboxes)
	r.json(&p.Workspaces)
	r.text(&p.LastError)
	return p
}

func (r *rows) sandbox(i store.SandboxInstance) store.SandboxInstance {
	r.json(&i.Init)
	r.json(&i.Transport)
	r.text(&i.LastError)
	return i
}

func (r *rows) grant(g store.Grant) store.Grant {
	r.json(&g.Match)
	r.text(&g.Note)
	return g
}

func (r *rows) delegation(d store.Delegation) store.Delegation {
	r.text(&d.Note)
	return d
}

func (r *rows) audit(e store.AuditEntry) store.AuditEntry {
	r.json(&e.Payload)
	return e
}

func (r *rows) tool(t store.Tool) store.Tool {
	r.json(&t.Metadata)
	return t
}

// move masks one move. session finds the Session of a ToolCall.
func (r *rows) move(m store.Move, session func(callID string) string) store.Move {
	switch m := m.(type) {
	case store.TurnMove:
		r.text(&m.ErrorCode)
		r.text(&m.ErrorMessage)
		return m
	case store.RunMove:
		r.text(&m.ErrorCode)
		return m
	case store.RunStateChanges: // its keys are the state's, which are masked as well
		r.json(&m.Changes)
		return m
	case store.ToolCallMove:
		return r.callMove(m, func() string { return session(m.ID) })
	case store.ApprovalMove:
		return r.approvalMove(m, func() string { return session(m.ID) })
	case store.InsertRun:
		m.Run = r.run(m.Run)
		return m
	case store.InsertToolCall:
		m.ToolCall = r.call(m.ToolCall)
		return m
	case store.TakeToolCall:
		m.ToolCall = r.call(m.ToolCall)
		return m
	case store.InsertApproval:
		m.Approval = r.approval(m.Approval)
		return m
	case store.RecordOf:
		m.Record = r.record(m.Record)
		return m
	case store.InsertOutbox:
		m.Item = r.outbox(m.Item)
		return m
	case store.UpsertMessage:
		m.Message = r.message(m.Message)
		return m
	case store.InsertPart:
		m.Part = r.part(m.Part)
		return m
	case store.SessionMove:
		r.text(&m.Title)
		r.json(&m.State)
		return m
	}
	return m // holds no words
}
