package bridge

import (
	"context"
	"errors"
	"time"

	"aqueduct/agui"
	"aqueduct/bridge/approval"
	"aqueduct/bridge/redact"
	"aqueduct/policy"
	"aqueduct/store"
)

// judged is a permission and the policy's verdict. It is for what an agent asks before it does something by itself; a tool
// call that this server executes is judged by bridge/tools, by the same policy with the same Call. A new input of rules is
// therefore set in both places, and in steergate.go for changes of an agent's mode.
// The title is masked before anything is made of it; the call has the original, because a rule may look at it.
type judged struct {
	q       *approval.Request
	title   string // without secrets
	hash    redact.Hasher
	call    policy.Call
	verdict policy.Verdict
}

// judge answers a permission that the policy decides alone, and reports whether it did. The decision is on record before
// the Agent gets it. The Question's cursor is not kept with it: until the Agent has the answer, its upstream must go on
// repeating the Question.
// There are two outcomes. The policy allows or blocks: the Agent is answered, the verdict is in the trace, and for a block
// the chat shows why. The policy asks: a person gets the Question, with the standing answers that the policy permits.
// An Agent that takes no answer while it is read is called again with it, as after a person's decision (keepRuled).
func (a *asker) judge(ctx context.Context, q *approval.Request) (v policy.Verdict, done bool, err error) {
	if a.cfg.Policy == nil || q.Kind != approval.AskPermission || a.upstream.reader == nil {
		return v, false, nil
	}
	j := judged{q: q, title: a.cfg.Filter.Text(q.Title), hash: a.cfg.Hash, call: policy.Call{
		AgentID: a.row.AgentID, Session: a.log.id, Tool: q.About(), Kind: q.ToolKind, Title: q.Title, Args: approval.Compact(q.Args), Folder: q.Folder,
		By: approval.Prompter(a.log.row, *a.row),
	}}
	called, most := !a.upstream.takesAnswers(), false
	if called {
		if most, err = a.ruledMost(ctx); err != nil {
			return v, false, err
		}
	}
	if most { // no Grant is used for an answer that a person gives
		v = a.cfg.Policy.Decide(j.call, nil, time.Now())
		v.Action, v.Reason = policy.Ask, "Rules have answered as many questions as they may in one run."
	} else if v, err = a.verdict(ctx, j.call); err != nil {
		return v, false, err
	}
	j.verdict = v
	answer, ok := j.answer()
	if !ok {
		offerStanding(q, j.call, v)
		return v, false, nil
	}
	if err := a.record(ctx, j); err != nil {
		return v, false, err
	}
	if !called {
		err = a.upstream.reader.answer(ctx, answer)
		called = cannotResume(err) // it ended to wait, or is gone
	}
	switch {
	case called:
		err = a.keepRuled(ctx, j, answer)
	case err != nil:
		err = asFailure(err)
	}
	if err == nil && j.verdict.Action == policy.Block {
		err = a.announce(ctx, j.event())
	}
	return v, true, err
}

// maxRuled bounds the Questions of a Turn that rules answer by calling the Agent again. After that a person is asked. Otherwise
// an Agent that asks, ends and asks again would never finish. The bound is far above the number of Questions for one prompt.
const maxRuled = 100

// ruledMost reports whether rules have answered as many Questions of the Turn as they may. They are counted in the rows, so
// that a restart does not begin anew.
func (a *asker) ruledMost(ctx context.Context) (bool, error) {
	all, err := a.questions.all(ctx)
	n := 0
	for _, q := range all {
		if q.Approval.DecidedVia == approval.ViaPolicy {
			n++
		}
	}
	return n >= maxRuled, err
}

// keepRuled keeps a Question that the policy has decided. The deliverer calls the Agent with the answer when it has ended to
// wait.
func (a *asker) keepRuled(ctx context.Context, j judged, answer approval.Delivery) error {
	row, asked, failure := a.rows(j.q, j.verdict)
	if failure != nil {
		return failure
	}
	q, record, err := approval.Ruled(ctx, approval.Question{Call: row, Approval: asked}, answer.Payload, j.verdict.Grant, j.verdict.Reason)
	if err != nil {
		return err
	}
	if err := a.writer.keep(ctx, []store.Record{record}, store.InsertToolCall{ToolCall: q.Call}, store.InsertApproval{Approval: q.Approval}); err != nil {
		return err
	}
	return a.deliverer.deliver(ctx)
}

// record puts the verdict on the trace in a commit of its own, before the answer leaves: what an Agent was allowed
// must be readable even if the server dies right behind the answer.
func (a *asker) record(ctx context.Context, j judged) error {
	return a.writer.keep(ctx, []store.Record{a.writer.trace.decided(j.record())})
}

// verdict is the policy's. A Grant that makes it an allow is used, once, before it counts.
// A Grant with a number of uses may be wanted by two Turns at once. The row decides: the one that does not get the use
// asks a person.
func (a *asker) verdict(ctx context.Context, call policy.Call) (policy.Verdict, error) {
	now, cfg := time.Now(), a.cfg
	grants, err := approval.LiveGrants(ctx, cfg.Store, approval.Answering(a.log.row, *a.row), a.row.Prompter(a.log.row), now)
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
		return approval.AuditGrantUse(ctx, tx, a.log.row, v.Grant, call.Tool, a.cfg.Hash.Sum(call.Args), now)
	})
	// The use may have been counted. Counting it again would cost the grant two uses, so a person is asked.
	if errors.Is(err, store.ErrUnknownOutcome) {
		ok, err = false, nil
	}
	if err == nil && !ok {
		v.Action, v.Grant, v.Reason = policy.Ask, "", "The grant for it is used up."
	}
	return v, err
}

// announce puts an event of ours where the upstream's go: into the open Run or the next.
// A blocked permission leaves no tool call in the chat, so that a person would wonder why the agent stopped.
func (a *asker) announce(ctx context.Context, ev agui.Event) error {
	if a.writer.run == nil {
		if ok, err := a.writer.beginFurther(ctx); err != nil || !ok {
			return err
		}
	}
	return a.writer.run.emit(ev)
}

// answer is the one for the Agent; false when a person has to decide.
// An allow prefers the option that holds once, because the policy decides again next time. Where the Agent offers none
// that fits, a person chooses; a block without a fitting option cancels, which every Agent takes for a no.
func (j judged) answer() (approval.Delivery, bool) {
	if _, failure := offered(j.q); failure != nil {
		return approval.Delivery{}, false
	}
	options := j.q.Options
	if len(options) == 0 {
		options = approval.DefaultOptions()
	}
	a := approval.Delivery{UpstreamID: j.q.UpstreamID, Fingerprint: j.q.Fingerprint(j.hash), Kind: approval.AskPermission, Status: agui.ResumeResolved}
	switch j.verdict.Action {
	case policy.Allow:
		var ok bool
		a.Payload, ok = approval.Choosing(options, approval.AllowOnce, approval.AllowAlways)
		return a, ok
	case policy.Block:
		if payload, ok := approval.Choosing(options, approval.RejectOnce, approval.RejectAlways); ok {
			a.Payload = payload
		} else {
			a.Status = agui.ResumeCancelled
		}
		return a, true
	default:
	}
	return approval.Delivery{}, false
}

// record is the verdict as the trace keeps it: with the hash of the arguments and not the arguments, which may hold
// secrets.
func (j judged) record() []byte {
	d := policy.Decided(j.call, j.verdict)
	d.Title, d.SHA256 = approval.PlainTitle(j.title), j.hash.Sum(j.call.Args) // people read it in the trace
	return mustJSON(d)
}

// event shows in the chat that something was blocked.
func (j judged) event() agui.Event {
	return &agui.Custom{Name: "policy_decision", Value: mustJSON(struct {
		Tool    string `json:"tool"`
		Title   string `json:"title"`
		Verdict string `json:"verdict"`
		Rule    string `json:"rule"`
		Reason  string `json:"reason"`
	}{approval.PlainTool(j.q.About()), approval.PlainTitle(j.title), string(j.verdict.Action), j.verdict.Rule, j.verdict.Reason})}
}
