package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"aqueduct/agui"
	"aqueduct/bridge/eventlog"
	"aqueduct/bridge/redact"
	"aqueduct/internal/fault"
	"aqueduct/internal/ids"
	"aqueduct/store"
)

// Appends adds messages to threads that prompt no Agent: what a user wrote elsewhere, or an Agent's summary of its work.
//
// The request is a Command, which the Session's owner carries out (appending.go): the message, the events that show it
// and the end of the Command are one commit. So at any moment exactly one of two holds, that the Command is pending or
// that the message is in the transcript, and a request that is made twice is recognized by its message's id, on
// whatever replica, also after a crash.
type Appends struct {
	store  store.Store
	bell   *eventlog.Bell
	filter *redact.Filter
	quota  *quota
	limits Limits
}

// Appending is a message for a thread.
type Appending struct {
	Session store.Session
	Scope   store.Scope  // in which the thread is seen
	Message agui.Message // of the role user or assistant, with text; one without an ID gets one of ours
}

// Appended is what became of an Appending.
type Appended struct {
	Message agui.Message
	// Position is the ID of the message's row, which pages of the transcript go by. It is "" for a message that the owner
	// of the thread has not written yet: it will.
	Position string
	// Repeated reports that the message was there, or on its way, before this request.
	Repeated bool
}

// appendPayload is the content of a Command that appends a message.
type appendPayload struct {
	Message agui.Message `json:"message"`
}

// Append adds a message at the end of a thread, and returns when it is there; it waits for the thread's owner for no
// longer than Limits.OwnerWait. The error is a *fault.Error when nothing was taken.
func (a *Appends) Append(ctx context.Context, in Appending) (Appended, error) {
	m := in.Message
	if m.ID == "" {
		m.ID = newID()
	}
	if !ids.Valid(m.ID) {
		return Appended{}, fault.New(RefusedInvalidID, "The message has no good id. "+ids.Form)
	}
	// Masked before it is compared with what is kept, which is masked too.
	m.Content = agui.Text(a.filter.Text(m.Content.String()))
	in.Message = m
	if err := a.quota.mayKeep(ctx, in.Session.Tenant); err != nil {
		return Appended{}, err
	}
	// The bell is watched before the request is written, so that no ring of the owner's is missed.
	bell, stop := a.bell.Watch(in.Session.ID)
	defer stop()
	repeated, err := a.request(ctx, in)
	if err != nil {
		return Appended{}, err
	}
	a.bell.Ring(in.Session.ID)
	patience := time.NewTimer(a.limits.OwnerWait)
	defer patience.Stop()
	for {
		position, err := a.position(ctx, in)
		if err != nil || position != "" {
			return Appended{Message: m, Position: position, Repeated: repeated}, err
		}
		select {
		case <-bell: // it also rings by itself now and then
		case <-patience.C:
			return Appended{Message: m, Repeated: repeated}, nil
		case <-ctx.Done():
			return Appended{}, ctx.Err()
		}
	}
}

// request writes the Command, unless the thread has the message or a request for it.
// The Session's lock makes requests serial, but not its owner's commits: pending Commands are read first, because a
// Command that is not among them any more has left its message in the transcript, which is read after them.
func (a *Appends) request(ctx context.Context, in Appending) (repeated bool, err error) {
	m := in.Message
	err = a.store.InTx(ctx, func(tx store.Tx) error {
		repeated = false
		session, err := tx.LockSession(ctx, in.Scope, in.Session.ID)
		if err != nil {
			return err
		}
		if session.IsChild() && m.Role == agui.RoleUser {
			return ChildsThread()
		}
		kept, err := pendingAppend(ctx, tx, in.Session.ID, m.ID)
		if err == nil && kept == nil {
			kept, _, err = keptMessage(ctx, tx, in.Session.ID, m.ID)
		}
		if err != nil {
			return err
		}
		if kept != nil {
			repeated = true
			return sameMessage(*kept, m)
		}
		last, err := tx.LastRun(ctx, store.System(), in.Session.ID)
		if err != nil {
			return err
		}
		if m.Role == agui.RoleUser {
			if err := tx.InsertRecord(ctx, inputRecord(in.Session.ID, last.TurnID, m)); err != nil {
				return err
			}
		}
		return tx.InsertCommand(ctx, store.Command{
			ID: newID(), SessionID: in.Session.ID, Kind: store.CommandAppend, CreatedAt: time.Now(), Payload: mustJSON(appendPayload{Message: m}),
		})
	})
	return repeated, err
}

// position is where the message stands; "" while its Command is pending.
// A Command that was carried out without this message met a full thread, or an open Run that has another message of
// that id.
func (a *Appends) position(ctx context.Context, in Appending) (string, error) {
	pending, err := pendingAppend(ctx, a.store, in.Session.ID, in.Message.ID)
	if err != nil || pending != nil {
		return "", err
	}
	kept, position, err := keptMessage(ctx, a.store, in.Session.ID, in.Message.ID)
	if err != nil {
		return "", err
	}
	if kept != nil {
		return position, sameMessage(*kept, in.Message)
	}
	if _, err := a.store.Session(ctx, in.Scope, in.Session.ID); err != nil { // deleted meanwhile
		return "", err
	}
	size, err := a.store.EventBytes(ctx, store.System(), in.Session.ID)
	switch {
	case err != nil:
		return "", err
	case size > a.limits.ThreadBytes:
		return "", threadFull()
	}
	return "", messageConflict()
}

// pendingAppend is the message of that id which a pending Command appends; nil when none does.
func pendingAppend(ctx context.Context, r store.Reader, sessionID, messageID string) (*agui.Message, error) {
	commands, err := r.PendingCommands(ctx, store.System(), sessionID)
	if err != nil {
		return nil, err
	}
	for _, c := range commands {
		var of appendPayload
		if c.Kind == store.CommandAppend && json.Unmarshal(c.Payload, &of) == nil && of.Message.ID == messageID {
			return &of.Message, nil
		}
	}
	return nil, nil
}

// keptMessage is the message of that id in the transcript, and its row's ID; nil when there is none.
func keptMessage(ctx context.Context, r store.Reader, sessionID, messageID string) (*agui.Message, string, error) {
	place, err := r.MessagePlace(ctx, store.System(), sessionID, messageID)
	if errors.Is(err, store.ErrNotFound) {
		return nil, "", nil
	}
	if err != nil {
		return nil, "", err
	}
	m, err := decodeMessage(place.Message)
	return &m, place.ID, err
}

// sameMessage refuses a message under an id that is another one's.
func sameMessage(kept, given agui.Message) error {
	if kept.Role != given.Role || kept.Name != given.Name || !sameContent(kept.Content, given.Content) {
		return messageConflict()
	}
	return nil
}

func messageConflict() error {
	return fault.New(RefusedMessageID, "This thread has another message of that id.")
}

func threadFull() *fault.Error {
	return fault.New(CodeThreadTooLarge, "This thread holds as much as one may. Please go on in a new one.")
}

// Named is the Session in which an Agent works that sends a token, under a name that the Agent has for it: our id, the
// client's, or what the Agent keeps the thread under. Any other is store.ErrNotFound. author is the name for messages of an Agent
// that is not the thread's own.
func (a *AgentRequests) Named(ctx context.Context, token, name string) (session store.Session, author string, err error) {
	turn, err := a.Turn(ctx, token)
	if err != nil {
		return session, "", err
	}
	if session, err = a.store.Session(ctx, store.System(), turn.SessionID); err != nil {
		return session, "", err
	}
	names := []string{session.ID, session.ExternalID, InstanceID(session, turn.AgentID)}
	if instance, wide := SessionOfToken(token); wide {
		names = append(names, instance)
	}
	if !slices.Contains(names, name) {
		return store.Session{}, "", store.ErrNotFound
	}
	if turn.AgentID != session.AgentID {
		author = turn.AgentID
	}
	return session, author, nil
}
