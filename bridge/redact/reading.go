// This file gives originals back to reads that ask for them. Every method of the Reader that an Agent or a tool is
// served from is here; a test finds one that is not, and names those for people's eyes alone.

package redact

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"

	"aqueduct/store"
)

// The kinds of originals; their refs begin with them.
// Only what is executed or sent to an agent again has an original. Events, records and titles are shown and not run:
// their secrets are gone for good.
const (
	ofArgs     = "args"
	ofResult   = "result"
	ofDecision = "decision"
	ofEvent    = "event"
	ofMessage  = "message"
	ofInput    = "input"
	ofPart     = "part"
)

// refOf names a row and what is masked in it: when the row's text changes, the original of the text before is not taken
// for its own.
func refOf(kind, id string, masked []byte) string {
	sum := sha256.Sum256(masked)
	return kind + ":" + id + ":" + hex.EncodeToString(sum[:8])
}

// messageID names a message by what stays the same when it is placed anew.
func messageID(m store.Message) string { return m.SessionID + "/" + m.ExternalID }

func partID(p store.MessagePart) string { return p.SessionID + "/" + p.SHA256 }

// reading gives originals to reads that want them.
// It is embedded in both the Store and its transactions. A read is marked by its caller, not by its kind: the page that
// lists messages and the Turn that sends them to an agent use the same method.
type reading struct{ originals }

// originals finds the originals of a Reader's rows.
type originals struct {
	from  store.Reader
	vault *Vault
}

var maskBytes = []byte(Mask)

// original puts the original in the place of a masked text, if there is one. A text that only looks masked has none.
// The mask in the text is what triggers the lookup, so that rows without secrets cost no query. A user who writes
// "[redacted]" in a message causes a lookup that finds nothing, and the text stays.
func (r *originals) original(ctx context.Context, kind, id string, text *[]byte) error {
	if !bytes.Contains(*text, maskBytes) {
		return nil
	}
	ref := refOf(kind, id, *text)
	sealed, err := r.from.Sealed(ctx, store.System(), ref)
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	original, err := r.vault.Open(ref, sealed.KID, sealed.Data)
	if err == nil {
		*text = original
	}
	return err
}

// one is original for a read that gives one row.
func one[T any](ctx context.Context, row T, err error, reveal func(*T) error) (T, error) {
	if err == nil && store.WantsOriginals(ctx) {
		err = reveal(&row)
	}
	return row, err
}

// each is original for a read that gives many.
func each[T any](ctx context.Context, rows []T, err error, reveal func(*T) error) ([]T, error) {
	if err != nil || !store.WantsOriginals(ctx) {
		return rows, err
	}
	for i := range rows {
		if err := reveal(&rows[i]); err != nil {
			return nil, err
		}
	}
	return rows, nil
}

// call, approval, message and turn are what one and each do to a row: they put its originals in.
func (r *originals) call(ctx context.Context) func(*store.ToolCall) error {
	return func(c *store.ToolCall) error {
		return errors.Join(r.original(ctx, ofArgs, c.ID, &c.Args), r.original(ctx, ofResult, c.ID, &c.Result), r.original(ctx, ofEvent, c.ID, &c.Event))
	}
}

func (r *originals) approval(ctx context.Context) func(*store.Approval) error {
	return func(a *store.Approval) error {
		return errors.Join(r.original(ctx, ofDecision, a.ID, &a.Decision), r.original(ctx, ofArgs, a.ID, &a.Args))
	}
}

func (r *originals) message(ctx context.Context) func(*store.Message) error {
	return func(m *store.Message) error {
		if m.Output {
			return nil
		}
		return r.original(ctx, ofMessage, messageID(*m), &m.Data)
	}
}

func (r *originals) turn(ctx context.Context) func(*store.Turn) error {
	return func(t *store.Turn) error { return r.original(ctx, ofInput, t.ID, &t.Input) }
}

func (r *reading) Agenda(ctx context.Context, in store.Scope, sessionID string) (store.Agenda, error) {
	a, err := r.from.Agenda(ctx, in, sessionID)
	return one(ctx, a, err, func(a *store.Agenda) error {
		if a.Turn == nil {
			return nil
		}
		return r.turn(ctx)(a.Turn)
	})
}

func (r *reading) Turn(ctx context.Context, in store.Scope, id string) (store.Turn, error) {
	t, err := r.from.Turn(ctx, in, id)
	return one(ctx, t, err, r.turn(ctx))
}

func (r *reading) ActiveTurn(ctx context.Context, in store.Scope, sessionID string) (store.Turn, error) {
	t, err := r.from.ActiveTurn(ctx, in, sessionID)
	return one(ctx, t, err, r.turn(ctx))
}

func (r *reading) StrandedTurns(ctx context.Context, in store.Scope, replica string, limit int) ([]store.Turn, error) {
	list, err := r.from.StrandedTurns(ctx, in, replica, limit)
	return each(ctx, list, err, r.turn(ctx))
}

func (r *reading) Message(ctx context.Context, in store.Scope, id string) (store.Message, error) {
	m, err := r.from.Message(ctx, in, id)
	return one(ctx, m, err, r.message(ctx))
}

func (r *reading) MessagePlace(ctx context.Context, in store.Scope, sessionID, externalID string) (store.MessagePlace, error) {
	p, err := r.from.MessagePlace(ctx, in, sessionID, externalID)
	return one(ctx, p, err, func(p *store.MessagePlace) error { return r.message(ctx)(&p.Message) })
}

func (r *reading) LastAnswer(ctx context.Context, in store.Scope, sessionID, runID string) (store.Message, error) {
	m, err := r.from.LastAnswer(ctx, in, sessionID, runID)
	return one(ctx, m, err, r.message(ctx))
}

func (r *reading) Messages(ctx context.Context, in store.Scope, sessionID string, page store.Page) ([]store.Message, error) {
	list, err := r.from.Messages(ctx, in, sessionID, page)
	return each(ctx, list, err, r.message(ctx))
}

func (r *reading) BranchMessages(ctx context.Context, in store.Scope, sessionID, turnID string, page store.Page) ([]store.Message, error) {
	list, err := r.from.BranchMessages(ctx, in, sessionID, turnID, page)
	return each(ctx, list, err, r.message(ctx))
}

func (r *reading) InputsOfTurn(ctx context.Context, in store.Scope, sessionID, turnID string) ([]store.Message, error) {
	list, err := r.from.InputsOfTurn(ctx, in, sessionID, turnID)
	return each(ctx, list, err, r.message(ctx))
}

func (r *reading) MessagePart(ctx context.Context, in store.Scope, sessionID, sum string) (store.MessagePart, error) {
	p, err := r.from.MessagePart(ctx, in, sessionID, sum)
	return one(ctx, p, err, func(p *store.MessagePart) error { return r.original(ctx, ofPart, partID(*p), &p.Data) })
}

func (r *reading) ToolCall(ctx context.Context, in store.Scope, id string) (store.ToolCall, error) {
	c, err := r.from.ToolCall(ctx, in, id)
	return one(ctx, c, err, r.call(ctx))
}

func (r *reading) ToolCallByKey(ctx context.Context, in store.Scope, turnID, key string) (store.ToolCall, error) {
	c, err := r.from.ToolCallByKey(ctx, in, turnID, key)
	return one(ctx, c, err, r.call(ctx))
}

func (r *reading) OpenToolCalls(ctx context.Context, in store.Scope, sessionID string) ([]store.ToolCall, error) {
	list, err := r.from.OpenToolCalls(ctx, in, sessionID)
	return each(ctx, list, err, r.call(ctx))
}

func (r *reading) OpenToolCallsUnder(ctx context.Context, in store.Scope, rootTurnID string) ([]store.ToolCall, error) {
	list, err := r.from.OpenToolCallsUnder(ctx, in, rootTurnID)
	return each(ctx, list, err, r.call(ctx))
}

func (r *reading) ToolCallsOfTurn(ctx context.Context, in store.Scope, turnID string) ([]store.ToolCall, error) {
	list, err := r.from.ToolCallsOfTurn(ctx, in, turnID)
	return each(ctx, list, err, r.call(ctx))
}

func (r *reading) ToolCallsByStatus(ctx context.Context, in store.Scope, statuses []store.ToolCallStatus, kind store.ToolCallKind, limit int) ([]store.ToolCall, error) {
	list, err := r.from.ToolCallsByStatus(ctx, in, statuses, kind, limit)
	return each(ctx, list, err, r.call(ctx))
}

func (r *reading) OrphanedToolCalls(ctx context.Context, in store.Scope, replica string, limit int) ([]store.ToolCall, error) {
	list, err := r.from.OrphanedToolCalls(ctx, in, replica, limit)
	return each(ctx, list, err, r.call(ctx))
}

func (r *reading) AbandonedToolCalls(ctx context.Context, in store.Scope, limit int) ([]store.ToolCall, error) {
	list, err := r.from.AbandonedToolCalls(ctx, in, limit)
	return each(ctx, list, err, r.call(ctx))
}

func (r *reading) ExpiringToolCalls(ctx context.Context, in store.Scope, limit int) ([]store.ToolCall, error) {
	list, err := r.from.ExpiringToolCalls(ctx, in, limit)
	return each(ctx, list, err, r.call(ctx))
}

func (r *reading) Approval(ctx context.Context, in store.Scope, id string) (store.Approval, error) {
	a, err := r.from.Approval(ctx, in, id)
	return one(ctx, a, err, r.approval(ctx))
}

func (r *reading) Approvals(ctx context.Context, in store.Scope, f store.ApprovalFilter, page store.Page) ([]store.Approval, error) {
	list, err := r.from.Approvals(ctx, in, f, page)
	return each(ctx, list, err, r.approval(ctx))
}
