package bridge

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strconv"

	"aqueduct/agui"
	"aqueduct/internal/fault"
	"aqueduct/store"
)

// Resume continues a POST that a client makes again with the id of the last event that it has. fetch-event-source does so when
// its tab is shown again or its line was cut. The Reply tails the events after that position. ok is false for a request that
// holds something new; Chat handles that one.
//
// Resume writes no row, so the request is not counted as a prompt or an answer.
func (s *Sessions) Resume(ctx context.Context, req ChatRequest) (reply Reply, ok bool, err error) {
	if err := req.Check(); err != nil {
		return Reply{}, false, err
	}
	err = s.cfg.Store.InTx(ctx, func(tx store.Tx) (err error) {
		in := newIntake(s, tx, req, true)
		reply, ok, err = in.resume(ctx)
		reply.Access = in.access
		return err
	})
	return reply, ok, err
}

// resume finds the Run with which the first response to this request began. From there it finds the Run that continues at the
// client's position, in that response or after it.
func (in *intake) resume(ctx context.Context) (Reply, bool, error) {
	if err := in.load(ctx); err != nil {
		return Reply{}, false, err
	}
	if !in.exists && (in.req.JoinOnly || in.req.After == 0) {
		return Reply{}, false, nil
	}
	if err := in.withinLog(ctx); err != nil {
		return Reply{Session: in.session}, false, err
	}
	first, repeats, err := in.firstPosted(ctx)
	if err != nil || !repeats {
		return Reply{}, false, err
	}
	then, err := in.lastPosted(ctx)
	if err != nil {
		return Reply{}, false, err
	}
	return in.continueAt(ctx, first, then)
}

// withinLog refuses a position that the thread does not have. The thread was deleted, the database is an older one, or
// the position is of another thread: to take the request for a new one could ask the Agent twice.
func (in *intake) withinLog(ctx context.Context) error {
	if !in.exists {
		return fault.New(RefusedBeyondLog, "Last-Event-ID is a position in a thread, and there is no such thread. Send a new message without it.")
	}
	last, err := in.tx.LastSeq(ctx, store.System(), in.session.ID)
	if err == nil && in.req.After > last {
		err = fault.New(RefusedBeyondLog, "The log ends at "+strconv.FormatInt(last, 10)+".")
	}
	return err
}

// firstPosted returns the Run with which the first response to this request began. It looks, in this order, for the runId, the
// answers, the text of a prompt without an id, and the ids of the messages. It returns the zero Run for a request that only
// joins, and false for a request with something that was not taken yet.
func (in *intake) firstPosted(ctx context.Context) (store.Run, bool, error) {
	if in.req.RunID != "" {
		run, err := in.tx.RunByExternalID(ctx, store.System(), in.session.ID, in.req.RunID)
		if err == nil {
			return run, in.req.JoinOnly || bytes.Equal(run.BodyHash, in.req.BodyHash), nil
		}
		if !errors.Is(err, store.ErrNotFound) {
			return store.Run{}, false, err
		}
	}
	switch {
	case in.req.JoinOnly:
		return store.Run{}, true, nil
	case len(in.answers.given) > 0:
		return store.Run{}, false, nil
	case len(in.answers.before) > 0:
		return in.runOfAnswer(ctx, in.answers.before[len(in.answers.before)-1].Call)
	case len(in.fresh) > 0 && in.req.Unnamed:
		return in.runOfPrompt(ctx, in.fresh[0].Content)
	case len(in.fresh) > 0:
		return store.Run{}, false, nil
	}
	if err := in.branches.find(ctx); err != nil {
		return store.Run{}, false, err
	}
	if b := in.branches.branch; b != nil && b.edited != nil {
		return store.Run{}, false, nil
	}
	run, err := in.runOfMessages(ctx)
	return run, err == nil, err
}

// runOfMessages is the newest Run that one of the request's messages of the user, or of a tool, belongs to.
func (in *intake) runOfMessages(ctx context.Context) (store.Run, error) {
	said := slices.DeleteFunc(slices.Clone(in.req.Messages), func(m agui.Message) bool {
		return m.Role != agui.RoleUser && m.Role != agui.RoleTool
	})
	id, err := in.tx.NewestRunOf(ctx, store.System(), in.session.ID, idsOf(said[max(0, len(said)-maxHistoryTail):]))
	if err != nil || id == "" {
		return store.Run{}, err
	}
	run, err := in.tx.Run(ctx, store.System(), id)
	if errors.Is(err, store.ErrNotFound) {
		return store.Run{}, nil
	}
	return run, err
}

// runOfAnswer returns the Run that followed an answer: the Run that the same body reserved, else the first one after the Run
// that asked. Without such a Run it returns the Run that asked, because the answer went into that one.
func (in *intake) runOfAnswer(ctx context.Context, call store.ToolCall) (store.Run, bool, error) {
	runs, err := in.tx.RunsOfTurn(ctx, store.System(), call.TurnID)
	if err != nil || len(runs) == 0 {
		return store.Run{}, err == nil, err
	}
	asked := max(0, slices.IndexFunc(runs, func(r store.Run) bool { return r.ID == call.RunID }))
	for _, run := range runs[asked:] {
		if bytes.Equal(run.BodyHash, in.req.BodyHash) {
			return run, true, nil
		}
	}
	return runs[min(asked+1, len(runs)-1)], true, nil
}

// runOfPrompt is the first Run of the Turn that began with a prompt without an id, of those that the client may be at: the
// Turn at its position, and the newest ones.
func (in *intake) runOfPrompt(ctx context.Context, prompt agui.Content) (store.Run, bool, error) {
	at, err := in.tx.RunsWithin(ctx, store.System(), in.session.ID, in.req.After, in.req.After+1)
	if err != nil {
		return store.Run{}, false, err
	}
	newest, err := in.newestRuns(ctx)
	if err != nil {
		return store.Run{}, false, err
	}
	for _, run := range append(at, newest...) {
		inputs, err := in.tx.InputsOfTurn(ctx, store.System(), in.session.ID, run.TurnID)
		if err != nil {
			return store.Run{}, false, err
		}
		if len(inputs) == 0 {
			continue
		}
		said, err := decodeMessage(inputs[len(inputs)-1])
		if err != nil {
			return store.Run{}, false, err
		}
		if said.Role == agui.RoleUser && sameContent(said.Content, prompt) {
			run, err = in.tx.Run(ctx, store.System(), run.TurnID)
			return run, err == nil, err
		}
	}
	return store.Run{}, false, nil
}

// newestRuns are the Run that began last and those that are reserved. A Run of another request is among them; its body is
// another one, so it does not count as this request's.
func (in *intake) newestRuns(ctx context.Context) ([]store.Run, error) {
	waiting, err := in.tx.ReservedRuns(ctx, store.System(), in.session.ID)
	if err != nil {
		return nil, err
	}
	last, err := in.tx.LastRun(ctx, store.System(), in.session.ID)
	if errors.Is(err, store.ErrNotFound) {
		return waiting, nil
	}
	return append([]store.Run{last}, waiting...), err
}

// lastPosted returns the Run that the same body made last, or the zero Run. A body that answers and prompts makes two, of two
// Turns, and its response gives both. The bytes are compared: a client that comes back sends the body that it sent first, even
// if it names no runId.
func (in *intake) lastPosted(ctx context.Context) (last store.Run, err error) {
	runs, err := in.newestRuns(ctx)
	for _, run := range runs {
		if bytes.Equal(run.BodyHash, in.req.BodyHash) {
			last = run
		}
	}
	return last, err
}

// continueAt returns the Reply that continues after the client's position. If the position is before first, the Reply begins
// with first. A client that has the whole of its response gets a response that is at its end.
func (in *intake) continueAt(ctx context.Context, first, then store.Run) (Reply, bool, error) {
	if first.ID != "" && first.FirstSeq == 0 { // it has yet to begin
		return in.continueIn(ctx, first, store.Run{}, 0)
	}
	at := max(in.req.After, first.FirstSeq-1)
	runs, err := in.tx.RunsWithin(ctx, store.System(), in.session.ID, at, at+1)
	if err != nil {
		return Reply{}, false, err
	}
	// At most two Runs touch the position and the one after it. A Run that begins there is the client's only if its body
	// made it, or if its body names no message and so follows the thread.
	over := first
	for _, run := range runs {
		switch ends := run.LastSeq > 0 && run.LastSeq <= at; {
		case ends:
			over = run
		case run.FirstSeq <= at, first.ID == "", run.ID == first.ID, run.ID == then.ID:
			return in.continueIn(ctx, run, then, at)
		}
	}
	if then.FirstSeq == 0 && then.ID != "" && then.ID != over.ID {
		return in.continueIn(ctx, then, store.Run{}, at)
	}
	if over.ID == "" { // the position is outside of all Runs, and no Run follows
		return Reply{}, false, nil
	}
	return in.continueIn(ctx, over, store.Run{}, max(at, over.LastSeq))
}

// continueIn returns the Reply that gives a Run after a position, and then another one of another Turn.
func (in *intake) continueIn(ctx context.Context, run, then store.Run, at int64) (Reply, bool, error) {
	reply, err := in.replier().tail(ctx, run)
	if then.ID != "" && then.ID != run.ID && then.TurnID != run.TurnID && (then.FirstSeq == 0 || then.FirstSeq > at) {
		reply.Then = &then
	}
	reply.Notes = nil // the first response gave them
	reply.continueAfter(at)
	return reply, err == nil, err
}

// continueAfter makes the response continue after a position. TDesign's dialect depends on all events of a Run. So they are
// read from its first, and those up to Sent are not written.
func (r *Reply) continueAfter(at int64) {
	r.Join, r.Sent = false, at
	if r.Dialect != DialectTDesign || r.Run.LastSeq > 0 && at >= r.Run.LastSeq {
		r.After = max(r.After, at)
	}
}
