// This file decides whose an entry is and who may use it. A user gets what is the user's. An agent acts for a user,
// and gets the part of it that belongs to where it works: a token that leaks from one thread opens nothing that
// belongs to another.

package contextstore

import (
	"context"
	"errors"
	"slices"

	"aqueduct/internal/fault"
	"aqueduct/internal/ids"
	"aqueduct/store"
)

// Caller is who stores or reads.
type Caller struct {
	// Principal is the user, or the user for whom the agent works.
	Principal store.Principal
	// Agent is nil for the user.
	Agent *Agent
}

// Agent is an agent at work, as its token proves it.
type Agent struct {
	SessionID string
	// Names are what else the agent calls its Session: the client's id, and that of its own instance.
	Names   []string
	TurnID  string
	AgentID string
	// SessionUser is the owner of the Session. The Caller's Principal is the user who prompted the Turn.
	SessionUser string
	// Wide is set for an agent whose process serves all Turns of the Session.
	Wide bool
}

func (c Caller) scope() store.Scope { return store.As(c.Principal) }

// holder is the user whose entries of a kind are: those of a Session and of its runs belong to the Session's owner, also where
// another user prompted the run.
func (c Caller) holder(kind store.ContextOwner) store.Principal {
	who := c.Principal
	if c.Agent != nil && (kind == store.ContextOfSession || kind == store.ContextOfRun) {
		who.User = c.Agent.SessionUser
	}
	return who
}

// Owner names what a new entry belongs to; an empty ID is the caller's own.
type Owner struct {
	Type store.ContextOwner // "": the Session of an agent, and the user
	ID   string
}

// owned is an Owner that was found, with the Session that it lives in.
type owned struct {
	kind          store.ContextOwner
	id, sessionID string
}

// sees reports whether an entry of one of the caller's holders is one that the caller may use: an agent gets what belongs to where it
// works and to whom it works for, and nothing of the user's other threads.
func (c Caller) sees(e store.ContextEntry) bool {
	a := c.Agent
	if a == nil {
		return true
	}
	switch e.OwnerType {
	case store.ContextOfSession:
		return e.SessionID == a.SessionID
	case store.ContextOfRun:
		return e.SessionID == a.SessionID && (a.Wide || e.OwnerID == a.TurnID)
	case store.ContextOfAgent:
		return e.OwnerID == a.AgentID && e.User == c.Principal.User
	case store.ContextOfUser:
		return e.User == c.Principal.User
	case store.ContextOfUpload: // an agent gets the copy of a message that names it (attach.go)
	}
	return false
}

// ownerFor finds the owner of a new entry. Anything that is not the caller's own is refused.
func ownerFor(ctx context.Context, st store.Reader, who Caller, of Owner) (owned, error) {
	if who.Agent != nil {
		return who.Agent.owner(who.Principal, of)
	}
	switch of.Type {
	case store.ContextOfSession:
		session, err := sessionOf(ctx, st, who, of.ID)
		return owned{of.Type, session.ID, session.ID}, err
	case store.ContextOfRun:
		turn, err := st.Turn(ctx, who.scope(), of.ID)
		return owned{of.Type, turn.ID, turn.SessionID}, err
	case store.ContextOfAgent:
		if !ids.Valid(of.ID) {
			return owned{}, foreign("An entry of an agent names the agent. " + ids.Form)
		}
		return owned{kind: of.Type, id: of.ID}, nil
	case store.ContextOfUpload:
		return owned{kind: of.Type, id: who.Principal.User}, nil
	case store.ContextOfUser, "":
	}
	return userOwner(who.Principal, of)
}

// sessionOf is a thread of the user's by either of its ids. The client's own goes first, since it may have the form
// of ours.
func sessionOf(ctx context.Context, st store.Reader, who Caller, id string) (store.Session, error) {
	session, err := st.SessionByExternalID(ctx, who.scope(), id)
	if errors.Is(err, store.ErrNotFound) {
		session, err = st.Session(ctx, who.scope(), id)
	}
	return session, err
}

// owner is ownerFor for an agent, which reads nothing: its token names everything that it may own.
func (a *Agent) owner(user store.Principal, of Owner) (owned, error) {
	switch of.Type {
	case "", store.ContextOfSession:
		if of.ID == "" || of.ID == a.SessionID || slices.Contains(a.Names, of.ID) {
			return owned{store.ContextOfSession, a.SessionID, a.SessionID}, nil
		}
		return owned{}, foreign("An agent keeps entries of the session that it works in.")
	case store.ContextOfRun:
		if of.ID == "" || of.ID == a.TurnID {
			return owned{of.Type, a.TurnID, a.SessionID}, nil
		}
		return owned{}, foreign("An agent keeps entries of its own run.")
	case store.ContextOfAgent:
		if of.ID == "" || of.ID == a.AgentID {
			return owned{kind: of.Type, id: a.AgentID}, nil
		}
		return owned{}, foreign("An agent keeps entries of its own.")
	case store.ContextOfUpload:
		return owned{}, foreign("An agent uploads no files.")
	case store.ContextOfUser:
	}
	return userOwner(user, of)
}

// userOwner is the user. Another user's id is refused and not looked up, so nothing shows whether there is such a
// user.
func userOwner(user store.Principal, of Owner) (owned, error) {
	if of.ID != "" && of.ID != user.User {
		return owned{}, foreign("An entry of a user is the caller's own, or of the user for whom the agent works.")
	}
	return owned{kind: store.ContextOfUser, id: user.User}, nil
}

// foreign is the refusal of an owner that is not the caller's. It names the rule, and nothing of the other's.
func foreign(why string) error { return fault.New(RefusedOwner, why) }
