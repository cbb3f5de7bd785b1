package bridge

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"aqueduct/bridge/approval"
	"aqueduct/bridge/trace"
	"aqueduct/internal/fault"
	"aqueduct/internal/schema"
	"aqueduct/policy"
	"aqueduct/store"
)

// maxRefused bounds the Questions of a Turn that could not be asked. An agent that is called again with the refusal and
// asks the same again would otherwise never end.
const maxRefused = 8

// asker takes the Questions of a Turn's Agent: it answers those that repeat, or that the policy decides, and keeps the
// others, which pause the Turn. A *fault.Error ends the Turn.
//
// It is called with each Question that the upstream asks, in the order of its Outputs. Three things can become of one:
// it repeats a Question that is known, the policy decides it alone, or a person is asked.
type asker struct {
	cfg       *Config
	deadlines *approval.Deadlines
	log       *sessionLog
	row       *store.Turn
	writer    *runWriter
	upstream  *upstream
	questions *questions
	deliverer *deliverer
	quiet     *quietTimer

	newest time.Time // when the Turn's newest Question was asked
}

// ask keeps a Question and pauses the Turn. It is an Approval at once, in every inbox; the chat shows it when the Run
// ends, which is as soon as the upstream is quiet.
//
// The upstream's cursor moves past the Question only after the policy or the repetition has dealt with it, or with the
// commit that keeps it. A crash before that makes the Agent ask again.
func (a *asker) ask(ctx context.Context, o Output) error {
	q := o.Question
	if id := q.UpstreamID; strings.IndexByte(id, 0) >= 0 || !utf8.ValidString(id) {
		// No database keeps such a text as it is, and the answer would go out under another id, which no Agent waits for.
		return fault.New(CodeUpstreamProtocol, "The agent asked under an id that holds a NUL or is no UTF-8.")
	}
	for _, name := range []*string{&q.Tool, &q.ToolName} {
		if *name != approval.InputTool || q.Kind != approval.AskInput { // its own card
			*name = approval.AgentsTool(*name)
		}
	}
	for i, opt := range q.Options {
		q.Options[i].Kind = approval.KindOf(opt.Kind, opt.ID, opt.Label)
	}
	var verdict policy.Verdict
	settled, err := a.repeated(ctx, q)
	if err == nil && !settled {
		verdict, settled, err = a.judge(ctx, q)
	}
	a.upstream.advance(o)
	if settled || err != nil {
		return err
	}
	return a.askPerson(ctx, q, verdict)
}

// repeated reports whether an upstream repeats a Question, as it may after a restart. One that was answered is answered
// again, the same way: the upstream did not get the answer. The same id with other content is another Question: an answer
// to the first must not let it through.
//
// The newest of that id counts, since an Agent may use an id for a second Question when the first is answered. What
// tells a repetition from another Question is the fingerprint, over the tool, the arguments and the options.
func (a *asker) repeated(ctx context.Context, q *approval.Request) (bool, error) {
	if q.UpstreamID == "" || a.questions.isNew(q.UpstreamID) {
		return false, nil
	}
	all, err := a.questions.all(ctx)
	if err != nil {
		return false, err
	}
	for _, known := range slices.Backward(all) {
		// In this order: one that is open or undelivered is answered by the deliverer, now or later. An upstream
		// without acknowledgements repeats nothing, so it uses an old id for a new Question. Any other did not get
		// the answer that was sent, and gets it once more.
		switch {
		case known.Call.UpstreamID != q.UpstreamID:
		case known.Fingerprint() != q.Fingerprint(a.cfg.Hash):
			return false, a.replace(ctx, known, q)
		case known.Open(), known.Call.DeliveredAt.IsZero():
			return true, nil
		case a.upstream.acks == nil: // repeats nothing, so it asks again
			return false, nil
		default:
			return true, a.answerAgain(ctx, known)
		}
	}
	return false, nil
}

// An Agent that took the Question back does not wait for an answer.
func (a *asker) answerAgain(ctx context.Context, q approval.Question) error {
	if a.upstream.reader == nil || q.Approval.DecidedVia == approval.ViaAgent {
		return nil
	}
	err := a.upstream.reader.answer(ctx, answerTo(q))
	if err == nil || cannotResume(err) {
		return nil
	}
	return asFailure(err)
}

// replace takes a Question back whose id the upstream uses for another one. It counts as delivered, also when it was
// answered meanwhile: an answer under this id would now be taken for the new Question's.
func (a *asker) replace(ctx context.Context, known approval.Question, q *approval.Request) error {
	if err := a.questions.replace(ctx, known, q); err != nil || !known.Call.DeliveredAt.IsZero() {
		return err
	}
	return a.delivered(ctx, known)
}

// cancelQuestion takes back the one Question that the Agent no longer asks. It counts as delivered: the Agent waits for no
// answer, even when one is given meanwhile.
func (a *asker) cancelQuestion(ctx context.Context, upstreamID string) error {
	open, err := a.questions.waiting(ctx)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(open, func(q approval.Question) bool { return q.Call.UpstreamID == upstreamID })
	if i < 0 {
		return nil // settled already, or never asked
	}
	if err := a.questions.settle(ctx, []string{open[i].Call.ID}, approval.WithdrawnByAgent()); err != nil {
		return err
	}
	return a.delivered(ctx, open[i])
}

func (a *asker) delivered(ctx context.Context, q approval.Question) error {
	if err := a.writer.keep(ctx, nil, store.ToolCallDelivered{ID: q.Call.ID, At: time.Now()}); err != nil {
		return err
	}
	return a.deliverer.deliver(ctx)
}

// askPerson keeps the Question, on the terms of the policy.
func (a *asker) askPerson(ctx context.Context, q *approval.Request, v policy.Verdict) error {
	row, asked, failure := a.rows(q, v)
	if failure != nil {
		return failure
	}
	if bad := badSchema(q); bad != nil {
		return a.refuse(ctx, row, asked, bad)
	}
	if err := a.questions.mayAsk(ctx); err != nil {
		return err
	}
	return a.keep(ctx, approval.Question{Call: row, Approval: asked})
}

// keep keeps a Question that a person, or a person's client, is asked. It may be one of a child's Agent.
//
// One commit has the ToolCall, the Approval, the notices to others and the Turn's pause. So a Question that can be
// seen belongs to a Turn that waits for it.
//
// Open Questions are listed by their times, which are kept in milliseconds. So each Question of a Turn gets a later time than
// the one before.
func (a *asker) keep(ctx context.Context, q approval.Question) error {
	at := q.Call.CreatedAt.Truncate(time.Millisecond)
	if !at.After(a.newest) {
		at = a.newest.Add(time.Millisecond)
	}
	a.newest, q.Call.CreatedAt, q.Approval.CreatedAt = at, at, at
	row, asked := q.Call, q.Approval
	moves := []store.Move{store.InsertToolCall{ToolCall: row}}
	pause := store.TurnPausedTool
	var records []store.Record
	if row.Kind == store.KindQuestion {
		pause = store.TurnPausedApproval
		moves = append(moves, store.InsertApproval{Approval: asked})
		moves = append(moves, a.cfg.Notices.Moves(q, a.log.row)...)
		records = append(records, trace.ApprovalRecord(asked))
	} else {
		records = append(records, trace.Created(row), trace.Dispatched(row, "", "", row.CreatedAt, row.ExpiresAt))
	}
	if a.row.Status == store.TurnPausedApproval { // whatever else is open, a person is waited for
		pause = store.TurnPausedApproval
	}
	moves = append(moves, statusMoves(a.row, pause)...)
	if err := a.writer.keep(ctx, records, moves...); err != nil {
		return err
	}
	a.row.Status = pause
	a.quiet.calls = false // not all Questions are settled any more
	a.questions.asked(row.UpstreamID)
	a.cfg.Notices.Kept(q, a.log.row)
	if !row.ExpiresAt.IsZero() {
		a.deadlines.Arm(row.ID, time.Until(row.ExpiresAt))
	}
	// Without a Run the Question is shown by the next look, which begins one for what is unshown (deliverer.deliver).
	if a.writer.run != nil {
		a.quiet.ask()
	}
	return nil
}

// badSchema is what is wrong with the schema that a Question wants its answer to fit.
func badSchema(q *approval.Request) *schema.Error {
	var bad *schema.Error
	if q.Kind == approval.AskInput && errors.As(schema.Of(q.ResponseSchema).Compile(), &bad) {
		return bad
	}
	return nil
}

// refuse keeps a Question that cannot be asked as settled: no inbox has it open, the chat and the Agent get the code, and
// the Turn goes on. Its schema is not kept.
//
// The Agent has to get an answer, or it waits for ever; and a person must not be shown a form that no answer can fit.
func (a *asker) refuse(ctx context.Context, row store.ToolCall, asked store.Approval, bad *schema.Error) error {
	all, err := a.questions.all(ctx)
	if err != nil {
		return err
	}
	// They are counted in the rows and not in memory, so that a restart does not give the Agent another eight tries.
	before := 0
	for _, q := range all {
		if q.Approval.DecidedVia == approval.ViaRefused {
			before++
		}
	}
	if before >= maxRefused {
		return fault.New(bad.Code, bad.Message)
	}
	asked.ResponseSchema = nil
	q := approval.Refused(approval.Question{Call: row, Approval: asked}, bad.Code, bad.Message)
	records := []store.Record{approval.RefusedRecord(q, time.Now())}
	err = a.writer.keep(ctx, records, store.InsertToolCall{ToolCall: q.Call}, store.InsertApproval{Approval: q.Approval})
	if err != nil {
		return err
	}
	return a.deliverer.deliver(ctx)
}

// rows is a Question as rows, or why it cannot be one.
// The TTL is the Agent's wish, otherwise the rule's, otherwise the server's. A form, or an app of a page, may take hours, so
// neither an input nor a tool of a page gets the server's TTL.
func (a *asker) rows(q *approval.Request, v policy.Verdict) (store.ToolCall, store.Approval, *fault.Error) {
	ttl := cmp.Or(max(q.ExpiresIn, 0), v.TTL)
	lasts := q.Lasting || q.Kind == approval.AskInput || q.Kind == approval.AskClientTool && a.writer.profile.declares(q.ToolName)
	if ttl == 0 && !lasts {
		ttl = a.cfg.Limits.ApprovalTTL
	}
	now, expires := time.Now(), time.Time{}
	if ttl > 0 {
		expires = now.Add(ttl)
	}
	args := approval.Compact(q.Args)
	// The call has no ArgsSHA256 of its own: that is what marks calls which this server executes
	// (Question.IsToolCall). What binds a decision to the arguments is the Approval's.
	row := store.ToolCall{
		ID: cmp.Or(q.CallID, newID()), SessionID: a.log.id, TurnID: a.row.ID, Name: shownName(q), Kind: store.KindQuestion,
		Status: store.ToolWaitingApproval, Args: args, UpstreamID: q.UpstreamID, Event: q.Event, CreatedAt: now, ExpiresAt: expires,
	}
	if q.Kind == approval.AskClientTool {
		row.Kind, row.Status = store.KindClient, store.ToolWaitingClient
		return row, store.Approval{}, nil
	}
	options, failure := offered(q)
	if failure != nil {
		return row, store.Approval{}, failure
	}
	kind := store.ApprovalPermission
	if q.Kind == approval.AskInput {
		kind = store.ApprovalInput
	}
	asked := store.Approval{
		ID: row.ID, SessionID: a.log.id, TurnID: a.row.ID, Kind: kind, Status: store.ApprovalPending,
		Tool: approval.PlainTool(q.About()), ToolKind: q.ToolKind, Title: approval.PlainTitle(a.cfg.Filter.Text(q.Title)), Args: args, ArgsSHA256: a.cfg.Hash.Sum(args), Options: options,
		ResponseSchema: q.ResponseSchema, Risk: cmp.Or(q.Risk, string(v.Risk)), CreatedAt: now, ExpiresAt: row.ExpiresAt,
	}
	asked.Unconfined = a.cfg.Agents.Unconfined(a.row.AgentID)
	approval.SetTerms(&asked, v.Terms, a.row.Prompter(a.log.row))
	if offer, ok := approval.OfferOf(q.ResponseSchema); ok && kind == store.ApprovalPermission && offer.Edited != "" {
		asked.MayEdit = !v.ForbidsEdit()
	}
	return row, asked, nil
}

// shownName is the tool name a Question is shown under.
func shownName(q *approval.Request) string {
	switch {
	case q.Kind == approval.AskPermission:
		return approval.PermissionTool
	case q.ToolName != "":
		return q.ToolName
	}
	return approval.InputTool
}

// offered are the options of a permission as they are kept. Their kinds decide what they do.
// The labels are text of an Agent's that a person reads before deciding: what cannot be seen is made visible.
func offered(q *approval.Request) (json.RawMessage, *fault.Error) {
	if q.Kind != approval.AskPermission {
		return nil, nil
	}
	if len(q.Options) == 0 {
		return mustJSON(approval.DefaultOptions()), nil
	}
	options := slices.Clone(q.Options)
	for i, o := range options {
		if o.ID == "" {
			return nil, fault.New(CodeUpstreamProtocol, "The agent offered an option without an id.")
		}
		options[i].Label = policy.Visible(o.Label, approval.MaxLabel)
	}
	return mustJSON(options), nil
}
