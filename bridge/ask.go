package bridge

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"time"

	"aqueduct/bridge/eventlog"
	"aqueduct/bridge/inbox"
	"aqueduct/bridge/trace"
	"aqueduct/policy"
	"aqueduct/store"
)

// What a person reads is bounded, in characters: a title is shown in lists, a name beside it,
// a label on a button.
const (
	askedTitle = 500
	askedName  = 128
	askedLabel = 100
)

// ask keeps a Question and pauses the Turn. It is an Approval at once, in every inbox;
// the chat shows it when the Run ends, which is as soon as the upstream is quiet.
func (t *turn) ask(ctx context.Context, o Output) error {
	for i, opt := range o.Question.Options {
		o.Question.Options[i].Kind = inbox.KindOf(opt.Kind, opt.ID, opt.Label)
	}
	verdict, settled, err := t.settledAlready(ctx, o.Question)
	t.reached(o)
	if settled || err != nil {
		return err
	}
	return t.askPerson(ctx, o.Question, verdict)
}

// settledAlready reports whether nobody needs to be asked: the upstream repeats itself, or
// the policy decides.
func (t *turn) settledAlready(ctx context.Context, q *Question) (policy.Verdict, bool, error) {
	if again, err := t.askedBefore(ctx, q); again || err != nil {
		return policy.Verdict{}, again, err
	}
	return t.judge(ctx, q)
}

// askPerson keeps the Question, on the terms of the policy.
func (t *turn) askPerson(ctx context.Context, q *Question, v policy.Verdict) error {
	row, approval, failure := t.questionRows(q, v)
	if failure != nil {
		return failure
	}
	if bad := badSchema(q); bad != nil {
		return t.refuseQuestion(ctx, row, approval, bad)
	}
	if err := t.mayAsk(ctx); err != nil {
		return err
	}
	moves := []store.Move{store.InsertToolCall{ToolCall: row}}
	pause := store.TurnPausedTool
	var records []store.Record
	if row.Kind == store.KindQuestion {
		pause = store.TurnPausedApproval
		moves = append(moves, store.InsertApproval{Approval: approval})
		moves = append(moves, t.s.m.cfg.Notices.Moves(inbox.Question{Call: row, Approval: approval}, t.s.row)...)
		records = append(records, trace.ApprovalRecord(approval))
	} else {
		records = append(records, trace.Created(row), trace.Dispatched(row, "", "", row.CreatedAt, row.ExpiresAt))
	}
	if t.row.Status == store.TurnPausedApproval { // whatever else is open, a person is waited for
		pause = store.TurnPausedApproval
	}
	moves = append(moves, t.statusMoves(pause)...)
	if err := t.keep(ctx, records, moves...); err != nil {
		return err
	}
	t.row.Status, t.called = pause, true
	t.asks.added(q.UpstreamID)
	t.s.m.cfg.Notices.Kept()
	t.s.m.deadlines.Arm(row.ID, time.Until(row.ExpiresAt))
	t.toShow()
	return nil
}

// toShow has the open Run end with a Question that came up, as soon as the upstream is quiet.
func (t *turn) toShow() {
	if t.run == nil {
		return
	}
	if !t.asked {
		t.asked, t.askedAt = true, time.Now()
	}
	t.quiet.Reset(t.s.m.cfg.Limits.Quiet)
}

// askedBefore reports whether an upstream repeats a Question, as it may after a restart.
// One that has been answered already is answered again, the same way: it has not heard.
// The same id with other content is another Question: an answer to the first must not let it through.
func (t *turn) askedBefore(ctx context.Context, q *Question) (bool, error) {
	if q.UpstreamID == "" || t.asks.isNew(q.UpstreamID) {
		return false, nil
	}
	all, err := t.questions(ctx)
	if err != nil {
		return false, err
	}
	for _, known := range slices.Backward(all) {
		switch {
		case known.Call.UpstreamID != q.UpstreamID:
		case known.Fingerprint() != q.Fingerprint():
			return false, t.replace(ctx, known, q)
		case known.Open(), known.Call.DeliveredAt.IsZero():
			return true, nil
		case t.marker == nil: // repeats nothing, so it asks again
			return false, nil
		default:
			return true, t.answerAgain(ctx, known)
		}
	}
	return false, nil
}

func (t *turn) answerAgain(ctx context.Context, q inbox.Question) error {
	if t.pump == nil || q.Approval.DecidedVia == inbox.ViaAgent {
		return nil
	}
	err := t.pump.answer(ctx, answerTo(q))
	if err == nil || cannotResume(err) {
		return nil
	}
	return asFailure(err)
}

// keep commits moves behind all that was emitted, whether a Run is open or not.
func (t *turn) keep(ctx context.Context, records []store.Record, moves ...store.Move) error {
	_, err := t.keepAll(ctx, records, moves...)
	return err
}

// keepAll is keep, and tells which moves were lost.
func (t *turn) keepAll(ctx context.Context, records []store.Record, moves ...store.Move) (lost []int, err error) {
	if t.run != nil {
		return t.run.keep(ctx, records, moves...)
	}
	return t.s.log.Keep(ctx, t.marked(eventlog.Entry{Moves: moves, Records: records}))
}

// putMark lets the upstream forget what it said that meant nothing for the log.
func (t *turn) putMark(ctx context.Context) error {
	if t.mark == "" {
		return nil
	}
	return t.s.log.Put(ctx, t.marked(eventlog.Entry{}))
}

// questionRows is a Question as rows, or why it cannot be one.
func (t *turn) questionRows(q *Question, v policy.Verdict) (store.ToolCall, store.Approval, *Failure) {
	ttl := t.s.m.cfg.Limits.ApprovalTTL
	switch {
	case q.ExpiresIn > 0:
		ttl = q.ExpiresIn
	case v.TTL > 0:
		ttl = v.TTL
	}
	now := time.Now()
	args := compact(q.Args)
	row := store.ToolCall{
		ID: newID(), SessionID: t.s.id, TurnID: t.row.ID, Name: t.shownName(q), Kind: store.KindQuestion,
		Status: store.ToolWaitingApproval, Args: args, UpstreamID: q.UpstreamID, CreatedAt: now, ExpiresAt: now.Add(ttl),
	}
	if q.Kind == AskClientTool {
		row.Kind, row.Status = store.KindClient, store.ToolWaitingClient
		return row, store.Approval{}, nil
	}
	options, failure := offered(q)
	if failure != nil {
		return row, store.Approval{}, failure
	}
	kind := store.ApprovalPermission
	if q.Kind == AskInput {
		kind = store.ApprovalInput
	}
	approval := store.Approval{
		ID: row.ID, SessionID: t.s.id, TurnID: t.row.ID, Kind: kind, Status: store.ApprovalPending,
		Tool: plainName(q.tool()), ToolKind: q.ToolKind, Title: plainTitle(q.Title), Args: args, ArgsSHA256: hashOf(args), Options: options,
		ResponseSchema: q.ResponseSchema, Risk: cmp.Or(q.Risk, string(v.Risk)), CreatedAt: now, ExpiresAt: row.ExpiresAt,
	}
	inbox.SetTerms(&approval, v.Terms, t.row.Prompter(t.s.row))
	return row, approval, nil
}

// shownName is the tool name a Question is shown under. request_permission is ours; an
// upstream's tool of that name is shown as what it is.
func (t *turn) shownName(q *Question) string {
	switch {
	case q.Kind == AskPermission:
		return inbox.PermissionTool
	case q.ToolName == inbox.PermissionTool:
		return "agent." + inbox.PermissionTool
	case q.ToolName != "":
		return q.ToolName
	}
	return "request_input"
}

// offered are the options of a permission as they are kept. Their kinds decide what they do.
func offered(q *Question) (json.RawMessage, *Failure) {
	if q.Kind != AskPermission {
		return nil, nil
	}
	if len(q.Options) == 0 {
		return mustJSON(inbox.DefaultOptions()), nil
	}
	options := slices.Clone(q.Options)
	for i, o := range options {
		if o.ID == "" {
			return nil, &Failure{Code: CodeUpstreamProtocol, Message: "The agent offered an option without an id."}
		}
		options[i].Label = policy.Visible(o.Label, askedLabel)
	}
	return mustJSON(options), nil
}

// plainTitle keeps a title on one line, short, and free of what would deceive whoever reads
// it; the arguments show everything.
func plainTitle(title string) string { return policy.Visible(title, askedTitle) }

// plainName does so to a tool's name. An agent makes it up as it does the title; a grant for
// one that had to be changed covers nothing the agent can ask for.
func plainName(tool string) string { return policy.Visible(tool, askedName) }

// hashOf binds arguments to what is decided about them.
func hashOf(args []byte) string {
	sum := sha256.Sum256(args)
	return hex.EncodeToString(sum[:])
}

func compact(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 {
		return json.RawMessage("{}")
	}
	var out bytes.Buffer
	if json.Compact(&out, raw) != nil {
		return mustJSON(string(raw))
	}
	return out.Bytes()
}
