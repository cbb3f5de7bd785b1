package bridge

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"aqueduct/agui"
	"aqueduct/bridge/approval"
	"aqueduct/internal/fault"
	"aqueduct/store"
)

// thread is the Session that a request is for, as its caller may see it, held in the request's transaction. The parts of
// the intake share it.
type thread struct {
	tx  store.Tx
	req ChatRequest

	session store.Session
	exists  bool
	access  *store.Access   // what the caller may do with a Session of others; nil for its own
	active  *store.Turn     // the Turn under way
	known   map[string]bool // ids of the request's messages that the transcript has
	fresh   []agui.Message  // messages of the user that are new
	seed    []agui.Message  // the history that begins a new thread
	pairs   map[string]bool // calls that the client made itself, by id
	dropped []agui.Message  // what a client wrote in the names of others, which is not taken
	notes   []agui.Event    // for the client's response alone, beside the log
}

// find finds the thread by its id or, for an answer that names none, by the
// Question. A thread of another user that is not shared with the caller is as good as none; one that is goes by our
// own id, because a client's id may be that of a thread of the caller's as well.
// Its lock is held to the end of the transaction: two requests on one thread, on any replicas, are taken one behind
// the other. The lock is taken last, in the scope that has been found, so that a thread which was deleted or unshared
// meanwhile is gone for this request too.
func (th *thread) find(ctx context.Context) error {
	who := store.As(th.req.Principal)
	id := ""
	if th.req.ThreadID != "" {
		found, err := th.tx.SessionByExternalID(ctx, who, th.req.ThreadID)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return err
		}
		if id = found.ID; id == "" {
			if id, err = th.sharedSession(ctx, store.AccessBy{SessionID: th.req.ThreadID}); err != nil {
				return err
			}
		}
	}
	for _, a := range th.req.Answers {
		if id != "" || a.QuestionID == "" {
			continue
		}
		call, err := th.tx.ToolCall(ctx, who, a.QuestionID)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return err
		}
		if id = call.SessionID; id == "" {
			if id, err = th.sharedSession(ctx, store.AccessBy{ToolCallID: a.QuestionID}); err != nil {
				return err
			}
		}
		if id == "" && th.req.ThreadID == "" {
			if id, err = th.sessionOf(ctx, a.QuestionID); err != nil {
				return err
			}
		}
	}
	if id == "" && th.req.ThreadID == "" && th.req.After > 0 {
		var err error
		if id, err = th.posted(ctx, who); err != nil {
			return err
		}
	}
	if id == "" {
		return nil
	}
	session, err := th.tx.LockSession(ctx, th.scope(), id)
	th.session, th.exists = session, err == nil
	return err
}

// agentID returns the Agent of the request, if no branch names another.
func (th *thread) agentID(agents *Directory) string {
	return cmp.Or(th.req.AgentID, th.session.AgentID, agents.Default(th.req.Principal.Tenant))
}

// toolAnswers returns the tool messages that a client added, as answers to its calls. A known message id does not count,
// because clients send the whole history with each request. The result of a call that the client made itself does not count
// either.
func (th *thread) toolAnswers() []approval.Answer {
	var answers []approval.Answer
	for _, m := range th.req.Messages {
		if m.Role == agui.RoleTool && !th.known[m.ID] && !th.pairs[m.ToolCallID] {
			answers = append(answers, approval.Answer{
				QuestionID: approval.QuestionOf(m.ToolCallID), CardID: m.ToolCallID, Payload: mustJSON(m.Content.String()), MessageID: m.ID, Error: m.Error,
			})
		}
	}
	return answers
}

// sharedSession finds a Session of others that the caller has access to; "" when there is none.
func (th *thread) sharedSession(ctx context.Context, by store.AccessBy) (string, error) {
	a, err := th.tx.Access(ctx, th.req.Principal, by)
	if errors.Is(err, store.ErrNotFound) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	th.access = &a
	return a.Session.ID, nil
}

// postedLooks bounds the threads in which a request that names none is looked for. A client comes back within seconds, so its
// thread is among the caller's newest; each look reads one Run.
const postedLooks = 16

// posted finds the thread that a request which names none made when it came first: a Run of the same body holds the position.
func (th *thread) posted(ctx context.Context, who store.Scope) (string, error) {
	sessions, err := th.tx.Sessions(ctx, who, store.Page{Limit: postedLooks})
	for _, s := range sessions {
		runs, err := th.tx.RunsWithin(ctx, store.System(), s.ID, th.req.After, th.req.After)
		if err != nil {
			return "", err
		}
		if slices.ContainsFunc(runs, func(r store.Run) bool { return bytes.Equal(r.BodyHash, th.req.BodyHash) }) {
			return s.ID, nil
		}
	}
	return "", err
}

// sessionOf finds the caller's thread with an open call, among the threads that were used last. It is for an answer that
// names no thread.
func (th *thread) sessionOf(ctx context.Context, callID string) (string, error) {
	sessions, err := th.tx.Sessions(ctx, store.As(th.req.Principal), store.Page{Limit: postedLooks})
	for _, s := range sessions {
		said, err := saidSince(ctx, th.tx, s.ID)
		if err != nil {
			return "", err
		}
		for _, m := range said {
			if slices.ContainsFunc(m.ToolCalls, func(c agui.ToolCall) bool { return c.ID == callID }) {
				return s.ID, nil
			}
		}
	}
	return "", err
}

// scope is what the caller sees of the thread: its own rows, or those of one that is shared with it.
func (th *thread) scope() store.Scope {
	if th.access != nil {
		return th.access.Scope()
	}
	return store.As(th.req.Principal)
}

// promptedBy is who prompts a thread of others; "" in the caller's own.
func (th *thread) promptedBy() string {
	if th.req.parent != nil { // whose prompt it goes back to
		return th.req.parent.turn.PromptedBy
	}
	if th.access == nil {
		return ""
	}
	return th.req.Principal.User
}

// mayTake refuses a message in a thread that is shared without the right to write.
func (th *thread) mayTake(v verdict) error {
	if th.access == nil || th.access.Write {
		return nil
	}
	if v == takePrompt || v == refuseBusy || !th.req.JoinOnly && len(th.fresh) > 0 {
		return NotShared("write")
	}
	return nil
}

// mayAnswer refuses an answer in a thread that is shared without the right to give it: a client's tool is
// answered by who may write, what a person is asked by who may decide.
func (th *thread) mayAnswer(q approval.Question) error {
	if th.access == nil || q.ClientTool() && th.access.Write || !q.ClientTool() && th.access.Decide {
		return nil
	}
	return fault.New(approval.NotApprover, "This thread is shared with you, but not to answer its questions.")
}

// insertMessage keeps a message, and gives it as it is kept: what is large in it is a row of its own.
func (th *thread) insertMessage(ctx context.Context, m agui.Message, runID string) (agui.Message, error) {
	m, err := th.keepParts(ctx, m)
	if err != nil {
		return m, err
	}
	err = th.tx.InsertMessage(ctx, store.Message{
		ID: newID(), SessionID: th.session.ID, RunID: runID, ExternalID: m.ID, Role: m.Role,
		Data: m.AppendJSON(nil), CreatedAt: time.Now(),
	})
	return m, err
}

// note adds an event for this response alone. It tells the client what became of its request and has no place in the
// log, which everyone reads.
func (th *thread) note(name string, value any) {
	th.notes = append(th.notes, &agui.Custom{Name: name, Value: mustJSON(value)})
}

// noteSettled shows a client that comes late, or comes again, how a Question was settled.
func (th *thread) noteSettled(q approval.Question) { th.note("question_settled", settledNote(q)) }
