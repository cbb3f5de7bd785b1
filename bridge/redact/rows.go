// This file has a function for each kind of row: which members are masked, and which of these are sealed as well.
// The rest of a row is written as it is: TestS60 has a list of those members and fails on one that it does not know.

package redact

import (
	"fmt"
	"time"
	"unicode/utf8"

	"aqueduct/store"
)

// rows masks the members of rows that hold words of agents, users and tools, and collects the originals of those that
// run. Ids, hashes and what operators configured stay.
// One is made for each transaction or Batch and thrown away after it; sealed is written with the rows it belongs to, so
// that a crash leaves neither without the other.
type rows struct {
	shown
	vault  *Vault
	sealed []store.Sealed
}

// shown masks what is shown only: the original is gone when the row is written.
type shown struct{ filter *Filter }

func (r *shown) text(s *string) { *s = r.filter.Text(*s) }

func (r *shown) json(b *[]byte) { *b = r.filter.JSON(*b) }

// sealing is json for what runs. session tells the Session, which a move does not name; it is asked only when there is
// something to seal.
// A ToolCall's move names the call only. The Session is needed because sealed originals are deleted with it.
func (r *rows) sealing(kind, id string, session func() string, b *[]byte) {
	masked := r.filter.JSON(*b)
	if same(*b, masked) {
		return
	}
	r.seal(kind, id, session(), *b, masked)
	*b = masked
}

// seal adds the original of what was masked. Its ref has the masked text in it, so writing the same row again replaces
// the original with an equal one, and writing another text adds a second; both go with the Session.
func (r *rows) seal(kind, id, session string, original, masked []byte) {
	if session == "" {
		return // it would never be deleted
	}
	ref := refOf(kind, id, masked)
	kid, data := r.vault.Seal(ref, original)
	r.sealed = append(r.sealed, store.Sealed{Ref: ref, SessionID: session, KID: kid, Data: data, CreatedAt: time.Now()})
}

// known is the session of a row that names it.
func known(session string) func() string { return func() string { return session } }

func (r *shown) session(s store.Session) store.Session {
	r.text(&s.Title)
	r.json(&s.State)
	return s
}

func (r *rows) turn(t store.Turn) store.Turn {
	r.sealing(ofInput, t.ID, known(t.SessionID), &t.Input)
	r.json(&t.Usage)
	r.text(&t.ErrorCode)
	r.text(&t.ErrorMessage)
	return t
}

func (r *shown) run(n store.Run) store.Run {
	r.json(&n.Profile)
	r.text(&n.ErrorCode)
	return n
}

// message seals what users and clients sent. An answer is not sent to a program that acts on it, so it has no original:
// agents get their history masked.
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

// context masks what describes an entry. The content is encrypted by who writes it.
func (r *shown) context(e store.ContextEntry) store.ContextEntry {
	r.json(&e.Metadata)
	return e
}

// call seals args, result and event, which are executed or sent to the agent. An error is only shown.
func (r *rows) call(c store.ToolCall) store.ToolCall {
	r.sealing(ofArgs, c.ID, known(c.SessionID), &c.Args)
	r.sealing(ofResult, c.ID, known(c.SessionID), &c.Result)
	r.sealing(ofEvent, c.ID, known(c.SessionID), &c.Event)
	r.json(&c.Error)
	if c.Kind == store.KindQuestion { // the agent's word; other calls are found by the name of a tool that is there
		r.text(&c.Name)
	}
	return c
}

// callMove is call for what a move changes. The Session is looked up only where there is something to seal.
func (r *rows) callMove(m store.ToolCallMove, session func() string) store.ToolCallMove {
	r.sealing(ofArgs, m.ID, session, &m.Args)
	r.sealing(ofResult, m.ID, session, &m.Result)
	r.json(&m.Error)
	return m
}

// approval seals what is decided about and the decision. The options and the schema are shown to who decides and are
// never executed. What runs of EditedArgs is the ToolCall's arguments, which have an original of their own.
func (r *rows) proposal(p store.ApprovalProposal) store.ApprovalProposal {
	r.json(&p.Args)
	return p
}

func (r *rows) approval(a store.Approval) store.Approval {
	r.text(&a.Title)
	r.text(&a.Tool)
	r.text(&a.ToolKind)
	r.sealing(ofArgs, a.ID, known(a.SessionID), &a.Args)
	r.json(&a.Options)
	r.json(&a.ResponseSchema)
	r.json(&a.EditedArgs)
	r.json(&a.Proposed)
	r.json(&a.Definition)
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

func (r *shown) record(e store.Record) store.Record {
	r.json(&e.Payload)
	return e
}

func (r *shown) command(c store.Command) store.Command {
	r.json(&c.Payload)
	return c
}

func (r *shown) outbox(i store.OutboxItem) store.OutboxItem {
	r.json(&i.Payload)
	r.text(&i.LastError)
	return i
}

func (r *shown) proxy(p store.Proxy) store.Proxy {
	r.json(&p.Capabilities)
	r.json(&p.Sandboxes)
	r.json(&p.Workspaces)
	r.text(&p.Name)
	r.text(&p.LastError)
	return p
}

// agent masks an agent's own words about itself. Auth is encrypted by the caller.
func (r *shown) agent(a store.Agent) store.Agent {
	r.text(&a.Name)
	r.json(&a.Capabilities)
	return a
}

// task masks why a Task was not begun. Body is encrypted by the caller.
func (r *shown) task(t store.Task) store.Task {
	r.text(&t.Message)
	return t
}

func (r *shown) taskMove(m store.TaskMove) store.TaskMove {
	r.text(&m.Message)
	return m
}

func (r *shown) sandbox(i store.SandboxInstance) store.SandboxInstance {
	r.json(&i.Init)
	r.json(&i.Transport)
	r.text(&i.LastError)
	return i
}

func (r *shown) grant(g store.Grant) store.Grant {
	r.json(&g.Match)
	r.text(&g.Note)
	return g
}

func (r *shown) delegation(d store.Delegation) store.Delegation {
	r.text(&d.Note)
	return d
}

func (r *shown) audit(e store.AuditEntry) store.AuditEntry {
	r.json(&e.Payload)
	return e
}

func (r *shown) tool(t store.Tool) store.Tool {
	r.json(&t.Metadata)
	return t
}

// move masks one move, and refuses a kind that it does not know. session finds the Session of a ToolCall.
func (r *rows) move(m store.Move, session func(callID string) string) (store.Move, error) {
	switch m := m.(type) {
	case store.TurnMove:
		r.json(&m.Usage)
		r.text(&m.ErrorCode)
		r.text(&m.ErrorMessage)
		return m, nil
	case store.RunMove:
		r.text(&m.ErrorCode)
		return m, nil
	case store.RunStateChanges: // its keys are the state's, which are masked as well
		r.json(&m.Changes)
		return m, nil
	// The status of a row is not known here, so a move that is lost may leave an original that no row refers to.
	case store.ToolCallMove:
		return r.callMove(m, func() string { return session(m.ID) }), nil
	case store.ApprovalMove:
		return r.approvalMove(m, func() string { return session(m.ID) }), nil
	case store.InsertRun:
		m.Run = r.run(m.Run)
		return m, nil
	case store.InsertToolCall:
		m.ToolCall = r.call(m.ToolCall)
		return m, nil
	case store.TakeToolCall:
		m.ToolCall = r.call(m.ToolCall)
		return m, nil
	case store.InsertApproval:
		m.Approval = r.approval(m.Approval)
		return m, nil
	case store.RecordOf:
		m.Record = r.record(m.Record)
		return m, nil
	case store.InsertOutbox:
		m.Item = r.outbox(m.Item)
		return m, nil
	case store.InsertCommand:
		m.Command = r.command(m.Command)
		return m, nil
	case store.UpsertMessage:
		m.Message = r.message(m.Message)
		return m, nil
	case store.InsertPart:
		m.Part = r.part(m.Part)
		return m, nil
	case store.InsertContext: // an event that is too large for the log, masked as events are: without an original
		m.Entry = r.context(m.Entry)
		r.json(&m.Entry.Data)
		return m, nil
	case store.SessionMove:
		r.text(&m.Title)
		r.json(&m.State)
		return m, nil
	// These hold ids, times, statuses and what is sealed.
	case store.ToolCallShown, store.ToolCallInTranscript, store.ToolCallDelivered, store.MoveMessage, store.ReplaceMessages, store.CommandDone, store.KeepSealed:
		return m, nil
	}
	return nil, fmt.Errorf("%w: no rule says how a %T is masked", store.ErrData, m)
}
