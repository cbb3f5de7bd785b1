package bridge

import (
	"context"
	"errors"
	"time"

	"aqueduct/bridge/inbox"
	"aqueduct/internal/schema"
	"aqueduct/store"
)

// maxRefused bounds the Questions of a Turn that could not be asked. An agent that is called again with the refusal and
// asks the same again would otherwise never end.
const maxRefused = 8

// badSchema is what is wrong with the schema that a Question wants its answer to fit.
func badSchema(q *Question) *schema.Error {
	var bad *schema.Error
	if q.Kind == AskInput && errors.As(schema.Of(q.ResponseSchema).Compile(), &bad) {
		return bad
	}
	return nil
}

// refuseQuestion keeps a Question that cannot be asked as settled: nobody sees it open, the chat and the Agent get the
// code, and the Turn goes on. Its schema is not kept.
func (t *turn) refuseQuestion(ctx context.Context, row store.ToolCall, approval store.Approval, bad *schema.Error) error {
	all, err := t.questions(ctx)
	if err != nil {
		return err
	}
	before := 0
	for _, q := range all {
		if q.Approval.DecidedVia == inbox.ViaRefused {
			before++
		}
	}
	if before >= maxRefused {
		return &Failure{Code: bad.Code, Message: bad.Message}
	}
	approval.ResponseSchema = nil
	q := inbox.Refused(inbox.Question{Call: row, Approval: approval}, bad.Code, bad.Message)
	records := []store.Record{inbox.RefusedRecord(q, time.Now())}
	err = t.keep(ctx, records, store.InsertToolCall{ToolCall: q.Call}, store.InsertApproval{Approval: q.Approval})
	if err != nil {
		return err
	}
	return t.catchUp(ctx)
}
