package bridge

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"

	"aqueduct/agui"
	"aqueduct/internal/fault"
	"aqueduct/internal/ids"
	"aqueduct/store"
)

// Chat takes one POST. What it asks for is written in one transaction; the Reply names
// what the response tails. The error is a *fault.Error when nothing was taken.
//
// The transaction decides and writes; nothing is driven in it. After the commit the owner is woken: by its goroutine
// here, with what was just written, so that the first token of a prompt costs no further query, or by a ring to
// another replica. A response that is cut between the two loses nothing, because the owner's poll finds the row.
func (s *Sessions) Chat(ctx context.Context, req ChatRequest) (Reply, error) {
	if err := req.Check(); err != nil {
		return Reply{}, err
	}
	if req.prompts() {
		if err := s.quota.mayPrompt(ctx, req.Principal); err != nil {
			return Reply{}, err
		}
	}
	if _, err := s.cfg.Agents.find(ctx, req.Principal.Tenant, req.AgentID); err != nil {
		return Reply{}, err
	}
	draining, handed, taken := s.draining.take()
	defer taken()
	k := taking{s: s, req: req, last: req.Task != nil, draining: draining}
	err := k.whileTailed(ctx)
	k.release(ctx)
	reply := k.reply
	if err != nil || !k.rung {
		return reply, err
	}
	s.approvals.AfterCommit(k.settled...)
	if len(reply.rings) > 0 {
		s.cfg.Bell.Ring(reply.rings...)
	}
	if reply.begun != nil && reply.Session.Owner == s.cfg.Replica {
		reply.begun.handed = handed
		s.schedule(reply.Session.ID, reply.begun)
	} else {
		s.cfg.Bell.Ring(reply.Session.ID)
	}
	return reply, nil
}

// MayPrompt refuses prompts of a user to an Agent: with RefusedUnknownAgent where there is none of that id for the user's tenant, or it
// is not talked to (ReservedAgent), and with RefusedForbiddenAgent where the policy keeps the user from it. It may ask the store for
// one that was registered elsewhere a moment ago, so it is not called in a transaction. The intake refuses the same by itself.
func (s *Sessions) MayPrompt(ctx context.Context, who store.Principal, agentID string) error {
	found, err := s.cfg.Agents.find(ctx, who.Tenant, agentID)
	if err != nil {
		return err
	}
	if found == nil || ReservedAgent(agentID) {
		return unknownAgent()
	}
	return s.cfg.mayUse(who, agentID)
}

// Check refuses ids and a state that could not be kept, with a *fault.Error. Chat does so by itself; it is for those who keep a
// request until later.
func (req *ChatRequest) Check() error {
	for _, id := range []string{req.ThreadID, req.RunID} {
		if id != "" && !ids.Valid(id) {
			return fault.New(RefusedInvalidID, ids.Form)
		}
	}
	for _, m := range req.Messages {
		if !ids.Valid(m.ID) {
			return fault.New(RefusedInvalidID, "A message has no good id. "+ids.Form)
		}
	}
	return req.checkState()
}

// intake takes one request inside one transaction. It decides what the request is, by the table in verdict, and has the
// part act that it is for.
//
// One is made for each attempt: the transaction may run again, and then starts from nothing. Its parts share the
// thread, which holds what was read of it, under the lock of the Session's row; so of two requests at once the second
// sees what the first has written.
type intake struct {
	*thread
	cfg   *Config
	tails *tails
	last  bool // there is no more waiting for tails to leave
	full  bool // this replica drains: it takes no prompt of a person

	profile  []byte
	act      actFinder
	branches branchFinder
	meets    busyCheck
	answers  answerTaker
}

func newIntake(s *Sessions, tx store.Tx, req ChatRequest, last bool) *intake {
	th := &thread{tx: tx, req: req}
	return &intake{
		thread: th, cfg: &s.cfg, tails: s.tails, last: last,
		act:      actFinder{thread: th, cfg: &s.cfg},
		branches: branchFinder{thread: th, tails: s.tails, agents: s.cfg.Agents},
		meets:    busyCheck{thread: th, tails: s.tails},
		answers:  answerTaker{thread: th, approvals: s.approvals, calls: openCalls{thread: th, agents: s.cfg.Agents}},
	}
}

func (in *intake) clientMessages() clientMessages { return clientMessages{in.thread, in.cfg.Agents} }

func (in *intake) replier() *replier { return &replier{thread: in.thread, answering: in.answers.any} }

// take follows the table "body, after merging known messages by id".
//
// The order is that of the table: a request that repeats a known runId is answered first, whatever else it holds; then
// what it means is found out (branch, answers); then what it meets. Only after the verdict is anything written.
func (in *intake) take(ctx context.Context) (Reply, bool, error) {
	if err := in.load(ctx); err != nil {
		return Reply{}, false, err
	}
	if reply, known, err := in.knownRun(ctx); known || err != nil {
		return reply, false, err
	}
	if err := in.branches.find(ctx); err != nil {
		return Reply{}, false, err
	}
	if !in.starts() && len(in.answers.given) == 0 {
		if err := in.act.find(ctx); err != nil {
			return Reply{}, false, err
		}
	}
	if in.exists && in.session.IsChild() && !in.req.JoinOnly && in.starts() {
		return Reply{}, false, ChildsThread()
	}
	if in.active != nil && !in.req.JoinOnly && in.starts() {
		if err := in.meets.load(ctx); err != nil {
			return Reply{}, false, err
		}
	}
	v := in.verdict()
	if err := in.mayTake(v); err != nil {
		return Reply{Session: in.session}, false, err
	}
	// A client that closed its response and asks again is often faster than the close is noticed here. So a refusal
	// waits a moment for tails to leave (taking.whileTailed), outside of the transaction.
	if !in.last && (v == refuseBusy || v == takeJoin && in.branches.branch != nil && in.meets.under.tailed) {
		return Reply{}, false, errTailed
	}
	if in.exists && (v == takeJoin || v == takeAnswer) {
		if err := in.noteDropped(ctx); err != nil {
			return Reply{}, false, err
		}
	}
	// The message stays with the client; without the note it would wait for an answer that never comes.
	if v == takeJoin && !in.req.JoinOnly && len(in.fresh) > 0 && len(in.req.Answers) == 0 {
		in.note("message_not_taken", notTaken(in.active, in.fresh))
	}
	switch v {
	case takeAnswer:
		return in.takeAnswers(ctx)
	case takePrompt:
		if in.full && in.req.parent == nil {
			return Reply{}, false, ShuttingDown()
		}
		in.answers.calls.begin()
		return in.takePrompt(ctx)
	case refuseBusy:
		return Reply{Session: in.session}, false, fault.New(RefusedRunInProgress, "This thread is still answering. Cancel the run, or wait until it has ended.")
	case refuseEmpty:
		return Reply{}, false, fault.New(RefusedNothingToDo, "The body has no new user message with content, no answer, and no thread to join.")
	default:
		reply, err := in.replier().join(ctx)
		return reply, false, err
	}
}

// load finds the Session, holds it, and sorts what the request brings.
// In an existing thread, messages in the name of others are not kept; see clientmessages.go.
func (in *intake) load(ctx context.Context) error {
	if err := in.req.parent.lock(ctx, in.tx); err != nil { // before the child's, in this order everywhere
		return err
	}
	if err := in.find(ctx); err != nil {
		return err
	}
	profile := in.req.profile()
	var err error
	if profile.Client, err = in.clientState(ctx); err != nil {
		return err
	}
	in.act.client = profile.Client
	in.profile = mustJSON(profile)
	if !in.exists {
		in.clientMessages().loadNew()
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
	in.known, in.fresh = known, usersOf(in.req.Messages, known)
	if err := in.clientMessages().findPairs(ctx); err != nil {
		return err
	}
	in.dropped = in.clientMessages().droppedOf(in.active != nil)
	answers := append(in.req.Answers, in.toolAnswers()...)
	in.answers.any = len(answers) > 0
	if err := in.answers.match(ctx, answers); err != nil {
		return err
	}
	return in.answers.takeWords(ctx)
}

// profile is what of a request later Runs of its Turn need to know: the dialect, and the tools that the client's page
// executes.
func (req ChatRequest) profile() Profile {
	p := Profile{Dialect: req.Dialect, Callback: req.Callback}
	for _, t := range req.Tools {
		p.Tools = append(p.Tools, ToolBrief{Name: t.Name, Description: t.Description, Parameters: t.Parameters})
	}
	return p
}

// knownRun answers a POST whose runId is known: the same body tails that Run again, from
// its first event; another body is a mistake.
// A retry after a lost response has the same body, and so gets the same Run. This is what makes a POST safe to repeat.
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
		reply, err := in.replier().tail(ctx, run)
		return reply, true, err
	}
	if len(in.answers.given) > 0 || len(in.req.Answers) > 0 {
		in.req.RunID = "" // an answer is never refused over its run's name; it gets one of ours
		return Reply{}, false, nil
	}
	return Reply{}, true, fault.New(RefusedRunIDConflict, "This runId was used for another request on this thread.")
}

// takeAnswers settles what the request answers and reserves the Run that follows.
//
// A client that answers wants to see what follows, so a Run is reserved for its response. Reserving fails when the Run
// that asked is still open: then the answer's effect goes into that one, which the client is reading anyway.
func (in *intake) takeAnswers(ctx context.Context) (Reply, bool, error) {
	if err := in.answers.settleGiven(ctx); err != nil {
		return Reply{}, false, err
	}
	in.answers.tookWords()
	settled := in.answers.settled
	if len(settled) == 0 {
		if err := in.answers.calls.keep(ctx, ""); err != nil {
			return Reply{}, false, err
		}
		reply, err := in.replier().join(ctx)
		return reply, false, err
	}
	next, err := reserveNext(ctx, in.tx, settled[0].Question.Call.TurnID, in.req.RunID, posted{
		profile: in.answerProfile(), bodyHash: in.req.BodyHash, parent: in.req.ParentRunID, tails: in.tails.of(in.req),
	})
	if err != nil {
		return Reply{}, false, err
	}
	if err := in.answers.keepToolMessages(ctx, next.run.ID); err != nil {
		return Reply{}, false, err
	}
	if !next.ok { // the Run that asked has not ended yet: it goes on by itself
		in.noteStateMissed()
		reply, err := in.replier().join(ctx)
		return reply, true, err
	}
	reply, err := in.replier().tail(ctx, next.run)
	if err != nil {
		return reply, false, err
	}
	reply.Join = next.run.BodyHash == nil // another client has reserved it already
	// Clients that answer and prompt in one body exist: the message becomes a Turn behind the one that goes on, and
	// the response gives both.
	if slices.ContainsFunc(in.fresh, hasContent) {
		in.profile = withoutClient(in.profile) // its state is in the Run before
		then, err := in.prompter().queueTurn(ctx, "")
		if err != nil {
			return reply, false, err
		}
		reply.Then = &then
	}
	return reply, true, nil
}

// noteStateMissed warns a client whose answer goes into a Run that is already open: that Run does not use its state.
func (in *intake) noteStateMissed() {
	var p Profile
	if json.Unmarshal(in.profile, &p) == nil && p.Client != nil && p.Client.State != nil {
		in.note(stateNotApplied, notApplied{
			Source: stateOfClient, Code: RefusedRunInProgress, Message: "A run was under way when your answer arrived, so the state in it was not applied.",
		})
	}
}

// answerProfile returns the profile of a Run that continues a Turn: with the messages and the forwardedProps that the Agent
// gets with the answers. It drops forwardedProps.command, which is an answer in the form of some frontends. Kept with the Run
// it would also answer the Turn's next Question.
func (in *intake) answerProfile() []byte {
	var p Profile
	if json.Unmarshal(in.profile, &p) != nil {
		return in.profile
	}
	var props map[string]json.RawMessage
	_ = json.Unmarshal(in.req.Props, &props) // anything but an object has no members
	delete(props, "command")
	if p.Added = in.clientMessages().added(); len(props) > 0 {
		p.Props = mustJSON(props)
	}
	return mustJSON(p)
}

// idsOf are the ids of messages, for one query that finds which are known.
func idsOf(messages []agui.Message) []string {
	ids := make([]string, len(messages))
	for i, m := range messages {
		ids[i] = m.ID
	}
	return ids
}

// decodeMessage reads a transcript row.
func decodeMessage(row store.Message) (m agui.Message, err error) {
	return m, json.Unmarshal(row.Data, &m)
}
