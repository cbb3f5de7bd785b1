package bridge

import (
	"context"
	"errors"
	"slices"
	"time"

	"aqueduct/agui"
	"aqueduct/bridge/inbox"
	"aqueduct/internal/schema"
	"aqueduct/store"
)

// maxAnswers bounds what one request may answer: each is a look-up while the Session is
// held. Of more, the newest count.
const maxAnswers = 256

// matchAnswers finds the Question each answer is for. Answers to what is settled, and to
// what never was, become notes: the client is told, and joins.
func (in *intake) matchAnswers(ctx context.Context, answers []inbox.Answer) error {
	if over := len(answers) - maxAnswers; over > 0 {
		in.note("answers_ignored", map[string]any{"count": over})
		answers = answers[over:]
	}
	for _, a := range answers {
		q, err := in.questionFor(ctx, a)
		switch {
		case in.echoes(a, q, err):
		case errors.Is(err, store.ErrNotFound):
			in.note("question_unknown", map[string]any{"id": a.QuestionID})
		case err != nil:
			return err
		case slices.ContainsFunc(in.answers, func(g given) bool { return g.question.Call.ID == q.Call.ID }):
			// both a tool message and a resume entry: one answer, said twice
		case !q.Open():
			in.noteSettled(q)
		default:
			in.answers = append(in.answers, given{question: q, answer: a})
		}
	}
	return nil
}

// echoes reports whether a tool message only repeats what the Turn under way has shown: it is kept when that Turn's Run ends,
// and a client that stops and goes on sends it before. What is of no call of ours, or of one whose result the log has, is no answer.
func (in *intake) echoes(a inbox.Answer, q inbox.Question, err error) bool {
	switch {
	case a.MessageID == "" || in.active == nil || len(in.fresh) == 0:
		return false
	case errors.Is(err, store.ErrNotFound):
		return true
	}
	return err == nil && q.Call.Told && !q.ClientTool() && q.Call.TurnID == in.active.ID
}

// questionFor loads the Question an answer names. One that names none is meant for the
// only open one, and may only reject it: TDesign pages lose ids.
func (in *intake) questionFor(ctx context.Context, a inbox.Answer) (inbox.Question, error) {
	if a.QuestionID != "" {
		q, err := inbox.Load(ctx, in.tx, in.scope(), a.QuestionID)
		if err == nil && q.Call.SessionID != in.session.ID {
			err = store.ErrNotFound
		}
		return q, err
	}
	open, err := in.tx.OpenToolCalls(ctx, store.System(), in.session.ID)
	if err != nil {
		return inbox.Question{}, err
	}
	if len(open) != 1 {
		return inbox.Question{}, store.ErrNotFound
	}
	return inbox.Load(ctx, in.tx, store.System(), open[0].ID)
}

// takeAnswers settles what the request answers and reserves the Run that follows.
func (in *intake) takeAnswers(ctx context.Context) (Reply, bool, error) {
	if err := in.checked(ctx); err != nil {
		return Reply{}, false, err
	}
	for _, g := range in.answers {
		if err := in.settle(ctx, g); err != nil {
			return Reply{}, false, err
		}
	}
	if len(in.settled) == 0 {
		reply, err := in.join(ctx)
		return reply, false, err
	}
	turnID := in.settled[0].Question.Call.TurnID
	next, err := reserveNext(ctx, in.tx, turnID, in.req.RunID, posted{
		profile: in.profile, bodyHash: in.req.BodyHash, parent: in.req.ParentRunID, tails: in.s.tailsOf(in.req),
	})
	if err != nil {
		return Reply{}, false, err
	}
	for _, s := range in.settled {
		if err := in.keepToolMessage(ctx, s, next.run.ID); err != nil {
			return Reply{}, false, err
		}
	}
	if !next.ok { // the Run that asked has not ended yet: it goes on by itself
		in.noteStateMissed()
		reply, err := in.join(ctx)
		return reply, true, err
	}
	reply, err := in.tail(ctx, next.run)
	if err != nil {
		return reply, false, err
	}
	reply.Join = next.run.BodyHash == nil // somebody else had it reserved already
	if len(in.fresh) > 0 {
		in.profile = withoutClient(in.profile) // its state is in the Run before
		then, err := in.queueTurn(ctx, "")
		if err != nil {
			return reply, false, err
		}
		reply.Then = &then
	}
	return reply, true, nil
}

// checked ends the transaction if any answer has yet to be checked against its schema. It looks at all of them, so that
// many answers cost one further transaction and not one each.
func (in *intake) checked(ctx context.Context) (deferred error) {
	for _, g := range in.answers {
		if _, err := inbox.Read(ctx, g.question, g.answer); schema.Deferred(err) {
			deferred = err
		}
	}
	return deferred
}

// settle applies one answer. One that is unclear leaves its Question open and says so.
func (in *intake) settle(ctx context.Context, g given) error {
	d, err := inbox.Read(ctx, g.question, g.answer)
	if g.answer.QuestionID == "" && err == nil && d.Status == store.ApprovalApproved && d.Option.ID != "" && !namesQuestion(g) {
		err = &inbox.Unclear{Code: inbox.InvalidAnswer, Message: "an answer that names no question may only reject"}
	}
	if err == nil {
		err = in.mayAnswer(g.question)
	}
	var unclear *inbox.Unclear
	if errors.As(err, &unclear) {
		in.note("question_open", map[string]any{"id": g.question.Call.ID, "code": unclear.Code, "message": unclear.Message})
		return nil
	}
	if err != nil {
		return err
	}
	d.By, d.Via = in.req.Principal.User, inbox.ViaChat
	settled, err := in.s.settler.Apply(ctx, in.tx, in.session, g.question, d, in.req.Principal)
	if errors.As(err, &unclear) {
		in.note("question_open", map[string]any{"id": g.question.Call.ID, "code": unclear.Code, "message": unclear.Message})
		if unclear.Code == inbox.NotApprover || unclear.Code == inbox.FourEyes {
			return inbox.AuditRefusal(ctx, in.tx, in.req.Principal, g.question.Call.ID, unclear.Code, time.Now())
		}
		return nil
	}
	switch {
	case err != nil:
		return err
	case settled.Won:
		settled.MessageID = g.answer.MessageID
		in.settled = append(in.settled, settled)
	default:
		in.noteSettled(settled.Question)
	}
	return nil
}

// keepToolMessage keeps the tool message a client answered with as the transcript's
// result of the call.
func (in *intake) keepToolMessage(ctx context.Context, s inbox.Settled, runID string) error {
	if s.MessageID == "" {
		return nil
	}
	i := slices.IndexFunc(in.req.Messages, func(m agui.Message) bool { return m.ID == s.MessageID })
	if i < 0 {
		return nil
	}
	if runID == "" {
		runID = s.Question.Call.RunID
	}
	_, err := in.insertMessage(ctx, in.req.Messages[i], runID)
	return err
}

// namesQuestion reports whether the option itself says which Question it is of.
func namesQuestion(g given) bool { return inbox.OptionNames(g.answer, g.question.Call.ID) }

func (in *intake) note(name string, value any) {
	in.notes = append(in.notes, &agui.Custom{Name: name, Value: mustJSON(value)})
}

// noteSettled tells who decided what, to somebody who came too late or came again.
func (in *intake) noteSettled(q inbox.Question) {
	in.note("question_settled", settledNote(q))
}

// settledNote is the value of the CUSTOM event question_settled.
func settledNote(q inbox.Question) any {
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
		ID: q.Call.ID, Status: string(q.Approval.Status), OptionID: inbox.ChosenOption(q),
		DecidedBy: q.Approval.DecidedBy, Via: q.Approval.DecidedVia,
	}
	if !q.Approval.DecidedAt.IsZero() {
		n.At = q.Approval.DecidedAt.UTC().Format(time.RFC3339Nano)
	}
	return n
}
