package bridge

import (
	"context"
	"time"

	"aqueduct/agui"
	"aqueduct/store"
)

// start gives a queued Turn to its Agent. That it is dispatched is kept before the Agent is called, so a crash in between
// can never call it twice.
//
// The order is: the inputs in their place in the transcript, what the Agent is called with, the Run's first events,
// one commit with the Turn's move to RUNNING and the hash of its token, and only then the call. A crash before the
// commit leaves a queued Turn, which is started by the next owner; one after it leaves a dispatched Turn, which is
// resumed and never started again.
func (t *turn) start(ctx context.Context) error {
	if err := t.calling.placeInputs(ctx); err != nil {
		return err
	}
	run := t.writer.run
	call, fresh, err := t.calling.call(ctx, t.writer.state(), run.row.ID, run.profile)
	if err != nil {
		return err
	}
	hash := t.calling.token(&call)
	now := time.Now()
	t.upstream.resumable = isResumable(t.upstream.agent)
	if err := t.startRun(ctx, fresh, true); err != nil {
		return err
	}
	// The client's own changes were merged as the Run began, so the Agent gets the state that the first events show.
	call.State = run.state.json()
	err = t.writer.keep(ctx, t.writer.trace.begun(run.row.FirstSeq, now, &call), store.TurnMove{
		ID: t.row.ID, From: []store.TurnStatus{store.TurnQueued}, To: store.TurnRunning,
		StartedAt: now, DispatchedAt: now, TokenHash: hash, Upstream: t.cfg.Replica,
		Resumable: t.upstream.resumable,
	})
	if err != nil {
		return err
	}
	t.row.Status, t.row.Upstream = store.TurnRunning, t.cfg.Replica
	if t.input.Unprompted {
		return t.upstream.resume(ctx, call, t.calling.caller(call), nil)
	}
	return t.upstream.start(ctx, call, t.calling.caller(call))
}

// continueTurn writes the Run that a client's answer reserved: the results, and the Agent's words when nothing is open any
// more. Else it is a short one that ends with the rest, so that the client shows it; what the Agent answers to that is
// in the Run after it.
func (t *turn) continueTurn(ctx context.Context) error {
	run := t.writer.run
	_, fresh, err := t.calling.call(ctx, t.writer.state(), run.row.ID, run.profile)
	if err != nil {
		return err
	}
	if err := t.startRun(ctx, fresh, false); err != nil {
		return err
	}
	return t.deliverer.endPaused(ctx)
}

// startRun writes the first events of the open Run: RUN_STARTED with the user's messages, for readers who did not send it,
// and the state where the client's is another.
func (t *turn) startRun(ctx context.Context, fresh []agui.Message, prompted bool) error {
	run := t.writer.run
	var input *agui.RunAgentInput
	if said := t.transcript.shownAll(fresh); len(said) > 0 {
		input = &agui.RunAgentInput{ThreadID: t.log.row.ExternalID, RunID: run.row.ExternalID, Messages: said}
	}
	if err := t.writer.start(input); err != nil {
		return err
	}
	base := stateBase{store: t.cfg.Store, sessionID: t.log.id, state: &run.state, client: run.profile.Client}
	events, err := base.take(ctx, prompted)
	if err != nil {
		return err
	}
	return run.admitAll(events)
}

// resumeAfter takes the profile of the Run that the Turn goes on after, and gives that Run's id.
func (t *turn) resumeAfter(ctx context.Context) (runID string, err error) {
	last, err := t.writer.runs.last(ctx)
	if err == nil {
		t.writer.profile, err = profileOf(last)
	}
	return last.ID, err
}

// reattach asks the Agent to go on with a Turn that this process does not hold, and reads it. An Agent that is gone is
// found out then: its Questions are cancelled before a person decides for it.
//
// continuations.resumed is set because nothing here knows which messages its Agent had begun: their starts are in Runs that
// this process has not read.
func (t *turn) reattach(ctx context.Context, runID string) error {
	t.restarted, t.writer.speech.continuations.resumed = t.row.Upstream != t.cfg.Replica, true
	call, _, err := t.calling.call(ctx, t.writer.state(), runID, t.writer.profile)
	if err == nil {
		err = t.upstream.readUnsent(ctx)
	}
	waits := false
	if err == nil {
		waits, err = t.deliverer.lostCall(ctx)
	}
	switch {
	case err != nil || waits:
	case t.upstream.unsent: // it was not called yet
		if err = t.writer.keep(ctx, nil, t.calling.callAgain(&call)); err == nil {
			err = t.upstream.start(ctx, call, t.calling.caller(call))
		}
	default:
		err = t.upstream.resume(ctx, call, caller{}, nil)
	}
	return t.failFor(ctx, err)
}

// opened notes that this process holds an upstream that has opened again. Before that it is not known whether the Agent is
// there: a call approved for it would be executed for an Agent that never gets the result.
func (t *turn) opened(ctx context.Context) error {
	if t.row.Upstream != t.cfg.Replica {
		t.row.Upstream = t.cfg.Replica
		if err := t.writer.keep(ctx, nil, store.TurnMove{ID: t.row.ID, Upstream: t.row.Upstream}); err != nil {
			return err
		}
		// Calls of this Turn that were approved while it was not known whether the Agent lives may begin now.
		if t.cfg.Tools != nil {
			t.cfg.Tools.Look()
		}
	}
	return t.deliverer.deliver(ctx)
}

// leftCalled reports whether an earlier process, or replica, called the Agent of a Turn, and the Agent did not end to wait.
func leftCalled(row store.Turn) bool {
	return !row.Status.Terminal() && row.Status != store.TurnQueued && !row.Waiting()
}
