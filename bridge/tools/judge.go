package tools

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"time"

	"aqueduct/bridge/approval"
	"aqueduct/bridge/redact"
	"aqueduct/internal/fault"
	"aqueduct/internal/schema"
	"aqueduct/policy"
	"aqueduct/store"
)

// judge asks the policy about calls: when they are made, when a person decides, and when that person edits them. The policy
// may have changed between the first and the second, and an edited call is another call; what counts is the verdict at the
// moment in which the call would begin.
type judge struct {
	policy func() *policy.Policy // the one in force now
	own    func(v policy.Verdict, args json.RawMessage) policy.Verdict
	hash   redact.Hasher
}

// judged is a call as the policy saw it, and the verdict.
type judged struct {
	call policy.Call
	policy.Verdict
}

// decide asks the policy; where that has no rule, the tool's own policy decides. For a tool of this server's own no Grant counts.
func (j *judge) decide(from Request, tool compiledTool, call store.ToolCall, grants []policy.Grant, confirmed bool) judged {
	c := policy.Call{
		AgentID: from.Session.AgentID, Session: from.Session.ID, Tool: tool.Name, Args: call.Args, Risk: tool.own.Risk, Own: tool.own.Own,
		By: from.By,
	}
	if tool.Source != store.ToolFromServer {
		return judged{c, withPins(j.policy().Decide(c, grants, time.Now()), confirmed)}
	}
	v := j.policy().Decide(c, nil, time.Now())
	if j.own != nil {
		v = j.own(v, call.Args)
	}
	return judged{c, v}
}

// pending decides about the call of an open Question. The tool is read from the row, not from the cache: the approval must
// be of the tool as it is now.
func (j *judge) pending(ctx context.Context, r store.Reader, session store.Session, q approval.Question) (policy.Verdict, error) {
	tool, err := readTool(ctx, r, session.Tenant, q.Call.Name)
	if errors.Is(err, store.ErrNotFound) {
		return policy.Verdict{}, nil
	}
	if err != nil {
		return policy.Verdict{}, err
	}
	return j.again(ctx, r, session, tool, q)
}

// again decides without Grants, and blocks a call whose tool is another one than was asked about. A Grant lifts no block, and it has no other effect where a person decides.
func (j *judge) again(ctx context.Context, r store.Reader, session store.Session, tool compiledTool, q approval.Question) (policy.Verdict, error) {
	if changedSince(q.Approval, tool.Tool) {
		return policy.Verdict{Action: policy.Block, Reason: changedReason}, nil
	}
	turn, err := r.Turn(ctx, store.System(), q.Call.TurnID)
	if err != nil {
		return policy.Verdict{}, err
	}
	return j.decide(Request{Caller: CallerOf(session, turn)}, tool, q.Call, nil, true).Verdict, nil
}

// edited brings changed arguments into the form in which they are kept and run: unmasked, in one line, checked against
// the schema, and judged like a new call.
func (j *judge) edited(ctx context.Context, r store.Reader, session store.Session, q approval.Question, edited json.RawMessage) (args json.RawMessage, sha string, terms policy.Terms, err error) {
	tool, err := readTool(ctx, r, session.Tenant, q.Call.Name)
	if err != nil {
		return nil, "", terms, err
	}
	if edited, err = approval.Unmasked(ctx, r, q, edited); err != nil {
		return nil, "", terms, err
	}
	// A check that is deferred is no verdict yet: the error goes to schema.Outside as it is.
	if args, err = checkArgs(ctx, tool, edited); schema.Deferred(err) {
		return nil, "", terms, err
	} else if err != nil {
		return nil, "", terms, fault.New(approval.InvalidAnswer, err.Error())
	}
	q.Call.Args = args
	v, err := j.again(ctx, r, session, tool, q)
	if err != nil {
		return nil, "", terms, err
	}
	if v.Action == policy.Block {
		return nil, "", terms, fault.New(approval.EditRefused, blockReason(v))
	}
	return args, j.hash.Sum(args), v.Terms, nil
}

// useGrant counts one use of the Grant that allowed the call. If the Grant was used up or revoked meanwhile, a person is
// asked instead.
func useGrant(ctx context.Context, tx store.Tx, v judged) (judged, error) {
	if v.Grant == "" {
		return v, nil
	}
	ok, err := tx.UseGrant(ctx, v.Grant, time.Now())
	if err == nil && !ok {
		v.Action, v.Grant, v.Reason = policy.Ask, "", "The grant for it is used up."
	}
	return v, err
}

func blockReason(v policy.Verdict) string {
	return cmp.Or(v.Reason, "The policy does not allow this call.")
}
