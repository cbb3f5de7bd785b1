package bridge

import (
	"cmp"
	"context"
	"time"

	"aqueduct/agui"
	"aqueduct/bridge/inbox"
	"aqueduct/policy"
	"aqueduct/store"
)

// judged is a permission and what the policy says of it.
type judged struct {
	q       *Question
	call    policy.Call
	verdict policy.Verdict
}

// judge answers a permission for which the policy needs nobody, and reports whether it
// did. The decision is on record before the Agent hears it. The Question's Mark is not
// kept with it: until the Agent has heard, its upstream must go on repeating the Question.
func (t *turn) judge(ctx context.Context, q *Question) (v policy.Verdict, done bool, err error) {
	if t.s.m.cfg.Policy == nil || q.Kind != AskPermission || t.pump == nil {
		return v, false, nil
	}
	j := judged{q: q, call: policy.Call{
		AgentID: t.row.AgentID, Session: t.s.id, Tool: q.tool(), Kind: q.ToolKind, Title: q.Title, Args: compact(q.Args), Folder: q.Folder,
		By: inbox.Prompter(t.s.row, t.row),
	}}
	if v, err = t.verdict(ctx, j.call); err != nil {
		return v, false, err
	}
	j.verdict = v
	a, ok := j.answer()
	if !ok {
		offerStanding(q, j.call, v)
		return v, false, nil
	}
	if err := t.keep(ctx, []store.Record{t.decisionRecord(j.record())}); err != nil {
		return v, false, err
	}
	switch err := t.pump.answer(ctx, a); {
	case cannotResume(err): // it ended to wait, or is gone: a person decides, and it is called again
		j.verdict.Action, j.verdict.Reason = policy.Ask, "The agent cannot be answered at once."
		offerStanding(q, j.call, j.verdict)
		return v, false, t.keep(ctx, []store.Record{t.decisionRecord(j.record())})
	case err != nil:
		return v, false, asFailure(err)
	case j.verdict.Action == policy.Block:
		return v, true, t.tellNow(ctx, j.event())
	}
	return v, true, nil
}

// verdict is the policy's. A Grant that makes it an allow is used, once, before it counts.
func (t *turn) verdict(ctx context.Context, call policy.Call) (policy.Verdict, error) {
	now, cfg := time.Now(), t.s.m.cfg
	grants, err := inbox.Grants(ctx, cfg.Store, answering(t.s.row, t.row), t.row.Prompter(t.s.row), now)
	if err != nil {
		return policy.Verdict{}, err
	}
	v := cfg.Policy.Decide(call, grants, now)
	if v.Grant == "" {
		return v, nil
	}
	var ok bool
	err = cfg.Store.InTx(ctx, func(tx store.Tx) (err error) {
		if ok, err = tx.UseGrant(ctx, v.Grant, now); err != nil || !ok {
			return err
		}
		return inbox.AuditGrantUse(ctx, tx, t.s.row, v.Grant, call.Tool, hashOf(call.Args), now)
	})
	if err == nil && !ok {
		v.Action, v.Grant, v.Reason = policy.Ask, "", "The grant for it is used up."
	}
	return v, err
}

// tellNow puts an event of ours where the upstream's go: into the open Run or the next.
func (t *turn) tellNow(ctx context.Context, ev agui.Event) error {
	if t.run == nil {
		if _, err := t.openFurtherRun(ctx); err != nil {
			return err
		}
	}
	return t.run.emit(ev)
}

// answer is what the Agent hears; false when a person has to decide.
func (j judged) answer() (Answer, bool) {
	if _, failure := offered(j.q); failure != nil {
		return Answer{}, false
	}
	options := inbox.DefaultOptions()
	if len(j.q.Options) > 0 {
		options = options[:0]
		for _, o := range j.q.Options {
			options = append(options, inbox.Option(o))
		}
	}
	a := Answer{UpstreamID: j.q.UpstreamID, Fingerprint: j.q.Fingerprint(), Kind: AskPermission, Status: "resolved"}
	switch j.verdict.Action {
	case policy.Allow:
		var ok bool
		a.Payload, ok = inbox.Choosing(options, inbox.AllowOnce, inbox.AllowAlways)
		return a, ok
	case policy.Block:
		if payload, ok := inbox.Choosing(options, inbox.RejectOnce, inbox.RejectAlways); ok {
			a.Payload = payload
		} else {
			a.Status = "cancelled"
		}
		return a, true
	}
	return Answer{}, false
}

func (j judged) record() []byte {
	d := policy.Decided(j.call, j.verdict)
	d.Title = plainTitle(d.Title) // people read it in the trace
	return mustJSON(d)
}

// event is how the chat hears that something was blocked.
func (j judged) event() agui.Event {
	return &agui.Custom{Name: "policy_decision", Value: mustJSON(struct {
		Tool    string `json:"tool"`
		Title   string `json:"title"`
		Verdict string `json:"verdict"`
		Rule    string `json:"rule"`
		Reason  string `json:"reason"`
	}{plainName(j.q.tool()), plainTitle(j.q.Title), string(j.verdict.Action), j.verdict.Rule, j.verdict.Reason})}
}

// tool is the name of the tool a permission is about.
func (q *Question) tool() string { return cmp.Or(q.Tool, q.ToolName) }
