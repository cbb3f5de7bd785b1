package bridge

import (
	"context"
	"strings"

	"aqueduct/agui"
	"aqueduct/internal/fault"
	"aqueduct/store"
)

// Program is a service account that is bound to an agent, and calls models and tools without a prompt. What it calls has a
// Session and a Turn like the calls of any agent, so that it is judged, counted, asked for and recovered like them. The
// Session belongs to the account's own user (store.ProgramUser), for whom there is no other credential, so it is on no
// list. The Agent of MCP clients holds the Turn open while calls are made.
type Program struct {
	Principal store.Principal // its user, without roles: it decides and answers nothing
	KeyID     string          // of its credential
	AgentID   string          // as which policies and budgets see it
}

// TokenFor returns a session token with which a program's request is handled as that of an agent of its Session. It is
// good for this process alone and is never sent.
func (c *ClientCalls) TokenFor(ctx context.Context, by Program) (string, error) {
	if c.sessions.Draining().Begun() {
		return "", ShuttingDown()
	}
	thread := "key:" + by.KeyID
	for range clientTries {
		session, turn, err := c.under(ctx, by.Principal, thread)
		if err != nil {
			return "", err
		}
		if turn.ID != "" {
			return c.sessions.agents.lend(session.ID), nil
		}
		_, err = c.sessions.Chat(ctx, ChatRequest{
			Principal: by.Principal, Dialect: DialectV1, ThreadID: thread, RunID: newID(), AgentID: by.AgentID, Channel: true, OnBusy: OnBusyRefuse, Unnamed: true,
			Repeat: RepeatNever, ofProgram: true, Messages: []agui.Message{{ID: newID(), Role: agui.RoleUser, Content: agui.Text(by.Principal.User + " calls models and tools.")}},
		})
		if err != nil && fault.CodeOf(err) != RefusedRunInProgress { // then another call has begun one
			return "", err
		}
	}
	return "", fault.New(RefusedRunInProgress, "The calls of before are ending. Try again.")
}

// isProgram reports whether a Session holds the calls of a service account. Its Turns have no upstream.
func isProgram(s store.Session) bool { return strings.HasPrefix(s.User, store.ProgramUser) }
