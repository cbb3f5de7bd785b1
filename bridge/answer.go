package bridge

import (
	"context"
	"errors"
	"slices"
	"time"

	"aqueduct/agui"
	"aqueduct/bridge/approval"
	"aqueduct/internal/fault"
	"aqueduct/internal/schema"
	"aqueduct/store"
)

// maxAnswers bounds what one request may answer: each is a look-up while the Session is
// held. Of more, the newest count.
const maxAnswers = 256

// answerTaker takes the answers of a request: it finds the Question of each and settles it.
//
// Answers come in several forms: the resume entries of AG-UI 1.0, tool messages with the Question's id, and what
// TDesign pages send, which may name no id at all. All become approval.Answer before they get here.
type answerTaker struct {
	*thread
	approvals *approval.Service
	calls     openCalls

	given   []given             // answers to open Questions of this thread
	settled []approval.Settled  // Questions that this request settled
	before  []approval.Question // Questions that it answers and that were settled before
	any     bool                // the request answers something, of this thread or not
	words   bool                // its message is the answer
}

// given is an Answer and the Question it is for.
type given struct {
	question approval.Question
	answer   approval.Answer
}

// match finds the Question each answer is for. Answers to what is settled, and to
// what never was, become notes in the client's response, which joins.
// An answer that fits nothing is never an error of the request: the response has a note of what became of it, and the
// client sees the thread as it is.
func (t *answerTaker) match(ctx context.Context, answers []approval.Answer) error {
	if over := len(answers) - maxAnswers; over > 0 {
		t.note("answers_ignored", map[string]any{"count": over})
		answers = answers[over:]
	}
	for _, a := range answers {
		q, err := t.questionFor(ctx, a)
		if unknown, ok := errors.AsType[*noneNamed](err); ok {
			t.note("question_unknown", unknown)
			continue
		}
		switch {
		// It comes before the errors, because what only repeats the transcript deserves no note, whether its id is
		// known here or not.
		case t.repeatsShown(a, q, err):
		case errors.Is(err, store.ErrNotFound):
			taken, err := t.calls.take(ctx, a)
			if err != nil {
				return err
			}
			if !taken {
				t.note("question_unknown", map[string]any{"id": a.QuestionID})
			}
		case err != nil:
			return err
		case slices.ContainsFunc(t.given, func(g given) bool { return g.question.Call.ID == q.Call.ID }):
			// both a tool message and a resume entry: one answer, sent twice
		case !q.Open():
			t.before = append(t.before, q)
			t.noteSettled(q)
		default:
			t.given = append(t.given, given{question: q, answer: a})
		}
	}
	return nil
}

// repeatsShown reports whether a tool message only repeats what the Turn under way has shown: it is kept when that Turn's Run ends,
// and a client that stops and goes on sends it before. What is of no call of ours, or of one whose result the log has, is no answer.
func (t *answerTaker) repeatsShown(a approval.Answer, q approval.Question, err error) bool {
	switch {
	case a.MessageID == "" || t.active == nil || len(t.fresh) == 0:
		return false
	case errors.Is(err, store.ErrNotFound):
		return true
	}
	return err == nil && q.Call.InTranscript && !q.ClientTool() && q.Call.TurnID == t.active.ID
}

// questionFor loads the Question an answer names. One that names none is meant for the
// only open one, and may only reject it: TDesign pages lose ids.
func (t *answerTaker) questionFor(ctx context.Context, a approval.Answer) (approval.Question, error) {
	if a.Command != nil {
		return t.questionOfCommand(ctx, *a.Command)
	}
	if a.QuestionID != "" {
		q, err := approval.Load(ctx, t.tx, t.scope(), a.QuestionID)
		if err == nil && q.Call.SessionID != t.session.ID {
			err = store.ErrNotFound
		}
		if err == nil && a.CardID != "" && a.CardID != q.CardID() {
			return q, &noneNamed{ID: a.CardID, Open: []string{q.CardID()}}
		}
		if errors.Is(err, store.ErrNotFound) && a.CardID == "" {
			return t.questionOfAgent(ctx, a.QuestionID)
		}
		return q, err
	}
	open, err := t.tx.OpenToolCalls(ctx, store.System(), t.session.ID)
	if err != nil {
		return approval.Question{}, err
	}
	if len(open) != 1 {
		return approval.Question{}, store.ErrNotFound
	}
	return approval.Load(ctx, t.tx, store.System(), open[0].ID)
}

// checked ends the transaction if any answer has yet to be checked against its schema. It looks at all of them, so that
// many answers cost one further transaction and not one each.
// A schema may be slow to check, by its own making, so it is checked while no transaction holds the Session
// (schema.Outside).
func (t *answerTaker) checked(ctx context.Context) (deferred error) {
	for _, g := range t.given {
		if _, err := t.approvals.OptionIDs().Read(ctx, g.question, g.answer); schema.Deferred(err) {
			deferred = err
		}
	}
	return deferred
}

// settleGiven applies all answers.
func (t *answerTaker) settleGiven(ctx context.Context) error {
	if err := t.checked(ctx); err != nil {
		return err
	}
	for _, g := range t.given {
		if err := t.settle(ctx, g); err != nil {
			return err
		}
	}
	return nil
}

// settle applies one answer. One that is unclear leaves its Question open, with a note.
// A refusal for want of a right is audited in the same transaction, since it is an attempt that must be on record.
func (t *answerTaker) settle(ctx context.Context, g given) error {
	d, err := t.approvals.OptionIDs().Read(ctx, g.question, g.answer)
	if err == nil && unnamed(g) && d.Status == store.ApprovalApproved {
		err = fault.New(approval.InvalidAnswer, "an answer that names no question may only reject")
	}
	if err == nil {
		err = t.mayAnswer(g.question)
	}
	var unclear *fault.Error
	if errors.As(err, &unclear) {
		t.note("question_open", map[string]any{"id": g.question.Call.ID, "code": unclear.Code, "message": unclear.Message})
		return nil
	}
	if err != nil {
		return err
	}
	d.By, d.Via = t.req.Principal.User, approval.ViaChat
	settled, err := t.approvals.Apply(ctx, t.tx, t.session, g.question, d, t.req.Principal)
	if errors.As(err, &unclear) {
		t.note("question_open", map[string]any{"id": g.question.Call.ID, "code": unclear.Code, "message": unclear.Message})
		if unclear.Code == approval.NotApprover || unclear.Code == approval.FourEyes {
			return approval.AuditRefusal(ctx, t.tx, t.req.Principal, g.question.Call.ID, unclear.Code, time.Now())
		}
		return nil
	}
	switch {
	case err != nil:
		return err
	case settled.Proposed:
		t.note("question_open", map[string]any{"id": g.question.Call.ID, "code": approval.FourEyes, "message": approval.ErrProposed().Message})
	case settled.Won:
		settled.MessageID = g.answer.MessageID
		t.settled = append(t.settled, settled)
	default:
		t.noteSettled(settled.Question)
	}
	return nil
}

// keepToolMessages keeps the request's tool messages: for the calls that it settled, and for open calls that it also answers.
func (t *answerTaker) keepToolMessages(ctx context.Context, runID string) error {
	for _, s := range t.settled {
		if err := t.keepToolMessage(ctx, s, runID); err != nil {
			return err
		}
	}
	return t.calls.keep(ctx, runID)
}

// keepToolMessage keeps the tool message a client answered with as the transcript's
// result of the call.
// It is kept under the client's id of it: the client repeats its history with each request, and a message that is
// known is no answer any more (toolAnswers). The log gets no TOOL_CALL_RESULT of ours for the call, since the
// Decision has marked it as being in the transcript. Where no Run takes the answer up, the message stands with the
// Run that showed the call.
func (t *answerTaker) keepToolMessage(ctx context.Context, s approval.Settled, runID string) error {
	if s.MessageID == "" {
		return nil
	}
	i := slices.IndexFunc(t.req.Messages, func(m agui.Message) bool { return m.ID == s.MessageID })
	if i < 0 {
		return nil
	}
	if runID == "" {
		runID = s.Question.Call.RunID
	}
	_, err := t.insertMessage(ctx, t.req.Messages[i], runID)
	return err
}

// unnamed reports whether an answer to a permission does not say which Question it is for.
func unnamed(g given) bool {
	return g.answer.QuestionID == "" && g.answer.Command == nil && g.question.Approval.Kind == store.ApprovalPermission
}

// settledNote is the value of the CUSTOM event question_settled.
func settledNote(q approval.Question) any {
	type note struct {
		ID        string `json:"id"`
		Status    string `json:"status"`
		OptionID  string `json:"optionId,omitempty"`
		DecidedBy string `json:"decidedBy,omitempty"`
		Via       string `json:"via,omitempty"`
		At        string `json:"at,omitempty"`
	}
	if q.ClientTool() {
		return note{ID: q.Call.ID, Status: string(q.Call.Status)}
	}
	n := note{
		ID: q.Call.ID, Status: string(q.Approval.Status), OptionID: approval.ChosenOption(q),
		DecidedBy: q.Approval.DecidedBy, Via: q.Approval.DecidedVia,
	}
	if !q.Approval.DecidedAt.IsZero() {
		n.At = q.Approval.DecidedAt.UTC().Format(time.RFC3339Nano)
	}
	return n
}
