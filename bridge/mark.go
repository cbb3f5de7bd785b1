package bridge

import (
	"context"

	"aqueduct/bridge/eventlog"
	"aqueduct/bridge/internal/failpoint"
	"aqueduct/store"
)

// reached notes how far into the upstream's words what is being written goes. It comes
// before the Output itself is written, so that both are in one commit.
func (t *turn) reached(o Output) {
	if o.Mark != "" {
		t.mark = o.Mark
	}
}

// marked completes an Entry with the Mark it reaches to. With nothing else in it the
// Entry still tells the upstream, which may then forget what it said.
func (t *turn) marked(e eventlog.Entry) eventlog.Entry {
	if t.mark == "" {
		return e
	}
	e.Mark = t.mark
	if marker, mark := t.marker, t.mark; marker != nil {
		e.Kept = func() { marker.Kept(mark) }
	}
	t.mark = ""
	return e
}

// resume calls the Agent for a Turn that this process does not hold; nil when there is no
// such Agent. It is told how far its words are kept, and may take its time: the Session
// hears requests meanwhile.
func (t *turn) resume(ctx context.Context, call Call, answers []Answer) *pump {
	agent := t.s.m.cfg.Agents.agent(t.row.AgentID)
	if agent == nil {
		return nil
	}
	return startPump(ctx, true, func(ctx context.Context) (_ Turn, err error) {
		if call.Mark == "" {
			err = patiently(ctx, func() (err error) {
				call.Mark, err = t.s.m.cfg.Store.LastMark(ctx, store.System(), call.SessionID)
				return err
			})
		}
		if err != nil {
			return nil, err
		}
		if len(answers) > 0 {
			defer failpoint.Here("after_delivery")
		}
		return agent.Resume(ctx, call, answers)
	})
}
