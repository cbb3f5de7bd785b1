package bridge

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"time"

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
	var (
		reply Reply
		rung  bool
	)
	err := s.cfg.Store.InTx(ctx, func(tx store.Tx) (err error) {
		in := intake{s: s, tx: tx, req: req}
		reply, rung, err = in.take(ctx)
		return err
	})
	if errors.Is(err, store.ErrConflict) {
		// Two POSTs made the same thread or Run at once; the other was first, and is seen now.
		err = s.cfg.Store.InTx(ctx, func(tx store.Tx) (err error) {
			in := intake{s: s, tx: tx, req: req}
			reply, rung, err = in.take(ctx)
			return err
		})
	}
	if err != nil || !rung {
		return reply, err
	}
	if reply.begun != nil && reply.Session.Owner == s.cfg.Replica {
		s.rouse(reply.Session.ID, false, reply.begun)
	} else {
		s.cfg.Bell.Ring(reply.Session.ID)
	}
	return reply, nil
}

func (req *ChatRequest) check() error {
	for _, id := range []string{req.ThreadID, req.RunID} {
		if id != "" && !ValidExternalID(id) {
			return &Refusal{Code: RefusedInvalidID, Message: "Ids are 1 to 128 letters, digits, dots, colons, underscores or hyphens."}
		}
	}
	for _, m := range req.Messages {
		if !ValidExternalID(m.ID) {
			return &Refusal{Code: RefusedInvalidID, Message: "Message ids are 1 to 128 letters, digits, dots, colons, underscores or hyphens."}
		}
	}
	return nil
}

// intake takes one request inside one transaction.
type intake struct {
	s   *Sessions
	tx  store.Tx
	req ChatRequest

	session store.Session
	exists  bool
	fresh   []agui.Message  // messages of the user that are new
	answers []given         // what answers a Question of this Session
	settled []inbox.Settled // Questions this request settled
	notes   []agui.Event    // what the client must hear beside the log
	active  *store.Turn     // the Turn under way
	profile []byte
	queued  store.Turn // by this request
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
	switch v := in.verdict(); v {
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

// verdict is the row of the table a request falls under.
type verdict int

const (
	takeJoin    verdict = iota // nothing new, or only what is settled already
	takeAnswer                 // names an open Question
	takePrompt                 // a new message and nobody is answering
	refuseBusy                 // a new message while a Turn runs
	refuseEmpty                // nothing usable
)

func (in *intake) verdict() verdict {
	paused := in.active != nil && in.active.Status.Paused()
	switch {
	case in.req.JoinOnly && in.exists:
		return takeJoin
	case in.req.JoinOnly:
		return refuseEmpty
	case len(in.answers) > 0:
		return takeAnswer
	case len(in.req.Answers) > 0 && in.exists:
		return takeJoin // unknown Questions: told so in the notes
	case len(in.fresh) > 0 && in.active == nil:
		return takePrompt
	case len(in.fresh) > 0 && !paused:
		return refuseBusy
	case in.exists:
		return takeJoin
	}
	return refuseEmpty
}

// load finds the Session, holds it, and sorts what the request brings.
func (in *intake) load(ctx context.Context) error {
	if err := in.findSession(ctx); err != nil {
		return err
	}
	in.profile = mustJSON(in.req.profile())
	if !in.exists {
		in.fresh = usersOf(in.req.Messages, nil)
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
	in.fresh = usersOf(in.req.Messages, known)
	return in.matchAnswers(ctx, append(in.req.Answers, toolAnswers(in.req.Messages, known)...))
}

// findSession finds the thread by its id or, for an answer that names none, by the
// Question. A thread of somebody else is as good as none.
func (in *intake) findSession(ctx context.Context) error {
	who := store.As(in.req.Principal)
	id := ""
	if in.req.ThreadID != "" {
		found, err := in.tx.SessionByExternalID(ctx, who, in.req.ThreadID)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return err
		}
		id = found.ID
	}
	for _, a := range in.req.Answers {
		if id != "" || a.QuestionID == "" {
			continue
		}
		call, err := in.tx.ToolCall(ctx, who, a.QuestionID)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return err
		}
		id = call.SessionID
	}
	if id == "" {
		return nil
	}
	session, err := in.tx.LockSession(ctx, who, id)
	in.session, in.exists = session, err == nil
	return err
}

func (req ChatRequest) profile() Profile {
	p := Profile{Dialect: req.Dialect}
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

// takePrompt starts a new Turn.
func (in *intake) takePrompt(ctx context.Context) (Reply, bool, error) {
	if !in.exists {
		if err := in.newSession(ctx); err != nil {
			return Reply{}, false, err
		}
	}
	run, err := in.queueTurn(ctx, in.req.RunID)
	if err != nil {
		return Reply{}, false, err
	}
	reply, err := in.tail(ctx, run)
	reply.begun = &begun{todo: store.Agenda{Session: in.session, LastSeq: reply.After, Turn: &in.queued, Run: &run, Reserved: 1}}
	if !in.exists {
		reply.begun.messages = in.fresh
	}
	return reply, true, err
}

func (in *intake) newSession(ctx context.Context) error {
	agent := in.req.AgentID
	if agent == "" {
		agent = in.s.cfg.Agents.Default()
	}
	if in.s.cfg.Agents.agent(agent) == nil {
		return &Refusal{Code: RefusedUnknownAgent, Message: "There is no agent of that name here."}
	}
	now := time.Now()
	in.session = store.Session{
		ID: newID(), Tenant: in.req.Principal.Tenant, User: in.req.Principal.User, ExternalID: in.req.ThreadID,
		AgentID: agent, Title: sessionTitle(in.fresh), Owner: in.s.cfg.Replica, CreatedAt: now, UpdatedAt: now,
	}
	if in.session.ExternalID == "" {
		in.session.ExternalID = in.session.ID
	}
	return in.tx.InsertSession(ctx, in.session)
}

// queueTurn writes a prompt: its messages, a queued Turn, and its first Run, reserved.
func (in *intake) queueTurn(ctx context.Context, externalID string) (store.Run, error) {
	if a := in.req.AgentID; a != "" && a != in.session.AgentID {
		return store.Run{}, &Refusal{Code: RefusedUnknownAgent, Message: "This thread belongs to another agent."}
	}
	now := time.Now()
	run := store.Run{
		ID: newID(), SessionID: in.session.ID, ExternalID: externalID, Status: store.RunReserved,
		Profile: in.profile, BodyHash: in.req.BodyHash, CreatedAt: now,
	}
	run.TurnID = run.ID // a Turn's id is its first Run's
	if externalID == "" {
		run.ExternalID = run.ID
	}
	turn := store.Turn{
		ID: run.ID, SessionID: in.session.ID, AgentID: in.session.AgentID, Status: store.TurnQueued, CreatedAt: now,
		Input: mustJSON(turnInput{Context: in.req.Context, State: in.req.State, Props: in.req.Props, Traceparent: in.req.Traceparent}),
	}
	in.queued = turn
	if err := in.tx.InsertTurn(ctx, turn); err != nil {
		return run, err
	}
	if err := in.tx.InsertRun(ctx, run); err != nil {
		return run, err
	}
	for _, m := range in.fresh {
		if err := in.insertMessage(ctx, m, run.ID); err != nil {
			return run, err
		}
	}
	return run, nil
}

func (in *intake) insertMessage(ctx context.Context, m agui.Message, runID string) error {
	return in.tx.InsertMessage(ctx, store.Message{
		ID: newID(), SessionID: in.session.ID, RunID: runID, ExternalID: m.ID, Role: m.Role,
		Data: m.AppendJSON(nil), CreatedAt: time.Now(),
	})
}

// tail is the Reply that gives a Run from its first event.
func (in *intake) tail(ctx context.Context, run store.Run) (Reply, error) {
	r := Reply{Session: in.session, Run: run, RunID: run.ExternalID, Dialect: in.req.Dialect, Notes: in.notes}
	var err error
	if r.CallNames, err = in.callNames(ctx, run); err != nil {
		return r, err
	}
	if run.FirstSeq > 0 {
		r.After = run.FirstSeq - 1
		return r, nil
	}
	if !in.exists {
		return r, nil
	}
	r.After, err = in.tx.LastSeq(ctx, store.System(), in.session.ID)
	if err != nil || run.ID == "" || run.ID == in.queued.ID {
		return r, err
	}
	// The owner may have begun the Run since its row was read. It then begins before the
	// end of the log, and who waits for it behind that waits for ever.
	if r.Run, err = in.tx.Run(ctx, store.System(), run.ID); err == nil && r.Run.FirstSeq > 0 {
		r.After = r.Run.FirstSeq - 1
	}
	return r, err
}

func (in *intake) callNames(ctx context.Context, run store.Run) (map[string]string, error) {
	if in.req.Dialect != DialectTDesign || run.ID == "" {
		return nil, nil
	}
	calls, err := in.tx.ToolCallsOfTurn(ctx, store.System(), run.TurnID)
	names := make(map[string]string, len(calls))
	for _, c := range calls {
		names[c.ID] = c.Name
	}
	return names, err
}

// join is the Reply of somebody who comes to what is there: the Run under way, the one
// that is about to begin, or the thread at rest.
func (in *intake) join(ctx context.Context) (Reply, error) {
	run, err := in.currentRun(ctx)
	if err != nil {
		return Reply{}, err
	}
	r, err := in.tail(ctx, run)
	r.Join = true
	if in.active != nil {
		r.turnID = in.active.ID
	}
	if run.ID == "" {
		r.RunID = in.req.RunID
	}
	if r.RunID == "" {
		r.RunID = newID()
	}
	return r, err
}

// currentRun is the Run that is open or reserved next; the zero Run when all is at rest.
func (in *intake) currentRun(ctx context.Context) (store.Run, error) {
	// In this order: a Run that begins in between is then seen by one of the two.
	waiting, err := in.tx.ReservedRuns(ctx, store.System(), in.session.ID)
	if err != nil {
		return store.Run{}, err
	}
	last, err := in.tx.LastRun(ctx, store.System(), in.session.ID)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return store.Run{}, err
	}
	if err == nil && last.Status == store.RunRunning {
		return last, nil
	}
	for _, run := range waiting {
		if in.active != nil && run.TurnID == in.active.ID {
			return run, nil
		}
	}
	return store.Run{}, nil
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

// sessionTitle is the beginning of what the thread is about.
func sessionTitle(fresh []agui.Message) string {
	const most = 80
	title := plainTitle(fresh[0].Content.String())
	if runes := []rune(title); len(runes) > most {
		title = string(runes[:most]) + "…"
	}
	return title
}

// decodeMessage reads a transcript row.
func decodeMessage(row store.Message) (m agui.Message, err error) {
	return m, json.Unmarshal(row.Data, &m)
}
