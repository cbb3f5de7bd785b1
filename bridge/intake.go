package bridge

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"

	"aqueduct/agui"
	"aqueduct/bridge/inbox"
	"aqueduct/store"
)

// Chat takes one POST. What it asks for is written in one transaction; the Reply says
// what the response tails. The error is a *Refusal when nothing was taken.
func (s *Sessions) Chat(ctx context.Context, req ChatRequest) (Reply, error) {
	if err := req.check(); err != nil {
		return Reply{}, err
	}
	if req.prompts() {
		if err := s.mayPrompt(ctx, req.Principal); err != nil {
			return Reply{}, err
		}
	}
	k := taking{s: s, req: req}
	err := k.patiently(ctx)
	reply := k.reply
	if err != nil || !k.rung {
		return reply, err
	}
	s.carryOn(k.settled...)
	if reply.begun != nil && reply.Session.Owner == s.cfg.Replica {
		s.rouse(reply.Session.ID, reply.begun)
	} else {
		s.cfg.Bell.Ring(reply.Session.ID)
	}
	return reply, nil
}

// prompts reports whether the request can begin a Turn.
func (req *ChatRequest) prompts() bool {
	return !req.JoinOnly && len(req.Answers) == 0 && slices.ContainsFunc(req.Messages, func(m agui.Message) bool { return m.Role == agui.RoleUser })
}

func (req *ChatRequest) check() error {
	for _, id := range []string{req.ThreadID, req.RunID} {
		if id != "" && !ValidExternalID(id) {
			return &Refusal{Code: RefusedInvalidID, Message: InvalidIDs}
		}
	}
	for _, m := range req.Messages {
		if !ValidExternalID(m.ID) {
			return &Refusal{Code: RefusedInvalidID, Message: "A message has no good id. " + InvalidIDs}
		}
	}
	return req.checkState()
}

// intake takes one request inside one transaction.
type intake struct {
	s   *Sessions
	tx  store.Tx
	req ChatRequest

	session   store.Session
	exists    bool
	fresh     []agui.Message  // messages of the user that are new
	answers   []given         // what answers a Question of this Session
	settled   []inbox.Settled // Questions this request settled
	dropped   []agui.Message  // what a client says that others said, which is not taken
	answering bool            // it answers something, of this Session or not
	notes     []agui.Event    // what the client must hear beside the log
	active    *store.Turn     // the Turn under way
	profile   []byte
	queued    store.Turn // by this request
	known     map[string]bool
	branch    *branch       // nil: the newest Turn is continued
	under     underway      // when there is something to be started
	last      bool          // there is no more waiting for tails to leave
	access    *store.Access // what the caller may do with a Session of others; nil for its own
}

// given is an Answer and the Question it is meant for.
type given struct {
	question inbox.Question
	answer   inbox.Answer
}

// take follows the table "body, after merging known messages by id".
func (in *intake) take(ctx context.Context) (Reply, bool, error) {
	if err := in.load(ctx); err != nil {
		return Reply{}, false, err
	}
	if reply, known, err := in.knownRun(ctx); known || err != nil {
		return reply, false, err
	}
	if err := in.findBranch(ctx, in.known); err != nil {
		return Reply{}, false, err
	}
	if err := in.meet(ctx); err != nil {
		return Reply{}, false, err
	}
	v := in.verdict()
	if err := in.mayTake(v); err != nil {
		return Reply{Session: in.session}, false, err
	}
	if !in.last && (v == refuseBusy || v == takeJoin && in.branch != nil && in.under.tailed) {
		return Reply{}, false, errTailed
	}
	if in.exists && (v == takeJoin || v == takeAnswer) {
		if err := in.noteDropped(ctx); err != nil {
			return Reply{}, false, err
		}
	}
	if v == takeJoin && !in.req.JoinOnly && len(in.fresh) > 0 && len(in.req.Answers) == 0 {
		in.note("message_not_taken", map[string]any{"ids": idsOf(in.fresh)})
	}
	switch v {
	case takeAnswer:
		return in.takeAnswers(ctx)
	case takePrompt:
		return in.takePrompt(ctx)
	case refuseBusy:
		return Reply{Session: in.session}, false, &Refusal{Code: RefusedRunInProgress, Message: "This thread is still answering. Cancel the run, or wait until it has ended."}
	case refuseEmpty:
		return Reply{}, false, &Refusal{Code: RefusedNothingToDo, Message: "The body has neither a new message of a user, nor an answer, nor a thread to join."}
	default:
		reply, err := in.join(ctx)
		return reply, false, err
	}
}

// load finds the Session, holds it, and sorts what the request brings.
func (in *intake) load(ctx context.Context) error {
	if err := in.findSession(ctx); err != nil {
		return err
	}
	profile := in.req.profile()
	var err error
	if profile.Client, err = in.clientState(ctx); err != nil {
		return err
	}
	in.profile = mustJSON(profile)
	if !in.exists {
		in.fresh, in.dropped = usersOf(in.req.Messages, nil), droppedOf(in.req.Messages, nil, false)
		return nil
	}
	active, err := in.tx.ActiveTurn(ctx, store.System(), in.session.ID)
	if err == nil {
		in.active = &active
	} else if !errors.Is(err, store.ErrNotFound) {
		return err
	}
	known, err := in.tx.KnownMessageIDs(ctx, store.System(), in.session.ID, idsOf(in.req.Messages))
	if err != nil {
		return err
	}
	in.known, in.fresh, in.dropped = known, usersOf(in.req.Messages, known), droppedOf(in.req.Messages, known, in.active != nil)
	answers := append(in.req.Answers, toolAnswers(in.req.Messages, known)...)
	in.answering = len(answers) > 0
	return in.matchAnswers(ctx, answers)
}

// findSession finds the thread by its id or, for an answer that names none, by the
// Question. A thread of somebody else that is not shared with the caller is as good as none; one that is goes by our
// own id, because a client's id may be that of a thread of the caller's as well.
func (in *intake) findSession(ctx context.Context) error {
	who := store.As(in.req.Principal)
	id := ""
	if in.req.ThreadID != "" {
		found, err := in.tx.SessionByExternalID(ctx, who, in.req.ThreadID)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return err
		}
		if id = found.ID; id == "" {
			if id, err = in.sharedSession(ctx, store.AccessBy{SessionID: in.req.ThreadID}); err != nil {
				return err
			}
		}
	}
	for _, a := range in.req.Answers {
		if id != "" || a.QuestionID == "" {
			continue
		}
		call, err := in.tx.ToolCall(ctx, who, a.QuestionID)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return err
		}
		if id = call.SessionID; id == "" {
			if id, err = in.sharedSession(ctx, store.AccessBy{ToolCallID: a.QuestionID}); err != nil {
				return err
			}
		}
	}
	if id == "" {
		return nil
	}
	session, err := in.tx.LockSession(ctx, in.scope(), id)
	in.session, in.exists = session, err == nil
	return err
}

func (req ChatRequest) profile() Profile {
	p := Profile{Dialect: req.Dialect, Callback: req.Callback}
	for _, t := range req.Tools {
		p.Tools = append(p.Tools, ToolBrief{Name: t.Name, Description: t.Description, Parameters: t.Parameters})
	}
	return p
}

// knownRun answers a POST whose runId is known: the same body tails that Run again, from
// its first event; another body is a mistake.
func (in *intake) knownRun(ctx context.Context) (Reply, bool, error) {
	if !in.exists || in.req.RunID == "" || in.req.JoinOnly {
		return Reply{}, false, nil
	}
	run, err := in.tx.RunByExternalID(ctx, store.System(), in.session.ID, in.req.RunID)
	if errors.Is(err, store.ErrNotFound) {
		return Reply{}, false, nil
	}
	if err != nil {
		return Reply{}, false, err
	}
	if bytes.Equal(run.BodyHash, in.req.BodyHash) {
		reply, err := in.tail(ctx, run)
		return reply, true, err
	}
	if len(in.answers) > 0 || len(in.req.Answers) > 0 {
		in.req.RunID = "" // an answer is never refused over its run's name; it gets one of ours
		return Reply{}, false, nil
	}
	return Reply{}, true, &Refusal{Code: RefusedRunIDConflict, Message: "This runId was used for another request on this thread."}
}

// usersOf are the messages of the user that are not known. Whatever else a client says
// happened gains no authority: the transcript kept here is the truth.
func usersOf(messages []agui.Message, known map[string]bool) []agui.Message {
	var fresh []agui.Message
	for _, m := range messages {
		if m.Role == "user" && !known[m.ID] {
			fresh = append(fresh, m)
		}
	}
	return fresh
}

func idsOf(messages []agui.Message) []string {
	ids := make([]string, len(messages))
	for i, m := range messages {
		ids[i] = m.ID
	}
	return ids
}

// toolAnswers are the tool messages a client added: answers to calls it was left with.
func toolAnswers(messages []agui.Message, known map[string]bool) []inbox.Answer {
	var answers []inbox.Answer
	for _, m := range messages {
		if m.Role == "tool" && !known[m.ID] {
			answers = append(answers, inbox.Answer{
				QuestionID: m.ToolCallID, Payload: mustJSON(m.Content.String()), MessageID: m.ID, Error: m.Error,
			})
		}
	}
	return answers
}

// decodeMessage reads a transcript row.
func decodeMessage(row store.Message) (m agui.Message, err error) {
	return m, json.Unmarshal(row.Data, &m)
}
