package bridge

import (
	"context"
	"encoding/json"
	"log/slog"
	"time"

	"aqueduct/agui"
	"aqueduct/store"
)

// A Command that appends a message is carried out by the Session's goroutine: into the Run that is open, into a further
// Run of a Turn that is under way, or into a Run of its own when the thread is at rest. Events, row and the Command's end
// are one commit, so that a crash leaves the Command pending or the message whole, and no reader gets the one without the
// other.
//
// The message's row is output of its Run: a join that replays an open Run leaves it out of its snapshot, and gets it from
// the Run's events, once. A user's message is no input of a Turn, which keeps it out of what a client's body is compared
// with: a client that has not seen it must not be taken for one that edited it away.

// appendMessage carries out a Command that appends a message, while no Run is open.
func (s *session) appendMessage(ctx context.Context, c store.Command, todo store.Agenda) error {
	switch {
	case todo.Run != nil:
		// That Run is due first. The Command goes into it, as one that comes while it is open.
		select {
		case s.bell <- struct{}{}:
		default:
		}
		return s.begin(ctx, *todo.Run, todo.Turn)
	case todo.Turn == nil:
		return s.appendAtRest(ctx, c)
	}
	if s.turn == nil || s.turn.row.ID != todo.Turn.ID || !s.turn.held() {
		// An Agent that is gone is found out before anything is added to its Turn, which then ends.
		if err := s.takeUp(ctx, *todo.Turn); err != nil || s.turn.row.Status.Terminal() {
			return s.finish(ctx, err)
		}
	}
	return s.finish(ctx, s.turn.failFor(ctx, appender{s.turn}.toRun(ctx, c)))
}

// appendAtRest writes a message into a Run of its own, which is the last Turn's as far as rows go: no Agent is called.
func (s *session) appendAtRest(ctx context.Context, c store.Command) error {
	last, err := s.m.cfg.Store.LastRun(ctx, store.System(), s.id)
	if err != nil {
		return err
	}
	row, err := s.m.cfg.Store.Turn(ctx, store.System(), last.TurnID)
	if err != nil {
		return err
	}
	s.release()
	s.turn = newTurn(s, row)
	return s.finish(ctx, appender{s.turn}.atRest(ctx, c, nextRun(last, "", nil)))
}

// appender puts appended messages into the log of a Turn.
type appender struct{ turn *turn }

// atRest writes the Run row, which shows a user's message as any Run shows the one that began it, and another as
// text.
func (a appender) atRest(ctx context.Context, c store.Command, row store.Run) error {
	t := a.turn
	w, done := &t.writer, store.CommandDone{ID: c.ID, At: time.Now()}
	m, err := a.message(ctx, c)
	if err != nil {
		return err
	}
	full, err := t.log.full(ctx, t.cfg.Store, t.cfg.Limits)
	if err != nil {
		return err
	}
	if m == nil || full {
		return t.log.keep(ctx, done)
	}
	w.due = append(w.due, store.InsertRun{Run: row})
	if m.Role != agui.RoleUser {
		if err := w.begin(row, nil); err != nil {
			return err
		}
		if err := w.run.emitAll(appendedText(*m)); err != nil {
			return err
		}
		_, err = w.end(ctx, ending{moves: []store.Move{done}})
		return err
	}
	if err := w.begin(row, &agui.RunAgentInput{ThreadID: t.log.row.ExternalID, RunID: row.ExternalID, Messages: []agui.Message{*m}}); err != nil {
		return err
	}
	kept, _ := w.run.fold.Message(m.ID)
	_, err = w.end(ctx, ending{moves: append(messageMoves(row, kept, done.At), done)})
	return err
}

// toRun writes a message into the open Run, or into a further one. The Command stays pending where another Run is
// due first.
func (a appender) toRun(ctx context.Context, c store.Command) error {
	t := a.turn
	// The words of an Agent before it asks for this stand before the message, though they come by another connection.
	if err := t.readAhead(ctx); err != nil || t.row.Status.Terminal() || t.upstream.buffered != nil {
		return err
	}
	w := &t.writer
	if w.run == nil {
		if ok, err := w.beginFurther(ctx); err != nil || !ok {
			return err
		}
	}
	moves, err := a.show(ctx, c)
	if err != nil {
		return err
	}
	if t.upstream.idle() && t.row.Status.Paused() {
		// Nothing can be added to this Run, so its end is in the same commit: who appends a message and then answers a
		// question would else join a Run that is about to end.
		open, err := t.questions.waiting(ctx)
		if err != nil {
			return err
		}
		if len(open) > 0 {
			w.due = append(w.due, moves...)
			return w.endAsking(ctx, open)
		}
	}
	if err := w.keep(ctx, nil, moves...); err != nil {
		return err
	}
	if err := w.tooMuch(ctx); err != nil {
		return err
	}
	t.quiet.putOff(t.upstream.idle(), t.row.Status.Paused())
	return nil
}

// show shows a message in the open Run, and gives what is to be kept with it. A text that the Agent is still
// writing ends before it, as before a tool call of ours, so that what it goes on with stands behind the message.
func (a appender) show(ctx context.Context, c store.Command) ([]store.Move, error) {
	w := &a.turn.writer
	r, done := w.run, store.CommandDone{ID: c.ID, At: time.Now()}
	m, err := a.message(ctx, c)
	if err != nil || m == nil {
		return []store.Move{done}, err
	}
	if err := w.closeText(); err != nil {
		return nil, err
	}
	spoke := r.spoke
	r.spoke = true // the metric of the first token is about the Agent's own
	if err := r.emitAll(appendedText(*m)); err != nil {
		return nil, err
	}
	r.spoke, r.assistant = spoke, "" // a call that follows is no part of this message
	moves := r.place(done.At)
	if m.Role == agui.RoleUser {
		kept, _ := r.fold.Message(m.ID)
		moves = append(moves, messageMoves(r.row, kept, done.At)...)
	}
	return append(moves, done), nil
}

// message is the message of a Command; nil when the thread, or the open Run, has got one of that id since it was asked for.
// It is read again here because a prompt of that id may have come since, and an Agent's stream names its messages itself.
func (a appender) message(ctx context.Context, c store.Command) (*agui.Message, error) {
	w := &a.turn.writer
	var of appendPayload
	if err := json.Unmarshal(c.Payload, &of); err != nil || of.Message.ID == "" {
		w.cfg.Logger.Error("an appended message is unreadable", slog.String("session_id", w.log.id), slog.Any("error", err))
		return nil, nil
	}
	if w.run != nil {
		if _, taken := w.run.fold.Message(of.Message.ID); taken {
			return nil, nil
		}
	}
	known, err := w.cfg.Store.KnownMessageIDs(ctx, store.System(), w.log.id, []string{of.Message.ID})
	if err != nil || known[of.Message.ID] {
		return nil, err
	}
	return &of.Message, nil
}

// appendedMark is the metadata of an appended message, which tells it from what an Agent answers.
const appendedMark = `{"aqueduct":{"appended":true}}`

// IsAppended reports whether metadata is that of a message which was appended.
func IsAppended(metadata json.RawMessage) bool {
	var of struct {
		Aqueduct struct {
			Appended bool `json:"appended"`
		} `json:"aqueduct"`
	}
	return json.Unmarshal(metadata, &of) == nil && of.Aqueduct.Appended
}

// appendedText are the events of a message that comes whole.
func appendedText(m agui.Message) []agui.Event {
	marked := agui.Sub{Base: agui.Base{Metadata: json.RawMessage(appendedMark)}}
	return []agui.Event{
		&agui.TextMessageStart{Sub: marked, MessageID: m.ID, Role: m.Role, Name: m.Name},
		&agui.TextMessageContent{MessageID: m.ID, Delta: m.Content.String()},
		&agui.TextMessageEnd{MessageID: m.ID},
	}
}
