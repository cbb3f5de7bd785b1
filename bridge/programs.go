package bridge

import (
	"context"
	"strings"

	"aqueduct/agui"
	"aqueduct/internal/fault"
	"aqueduct/store"
)

// Program is a service account that is bound to an agent, and calls models and tools without a prompt. Its calls have a
// Session and a Turn like those of any agent. So policies, budgets, questions and recovery apply to them. The Session belongs
// to the account's own user (store.ProgramUser), who has no other credential, so it is in no list. The Agent of MCP clients
// keeps the Turn open during calls.
type Program struct {
	Principal store.Principal // its user, without roles: it cannot decide or answer anything
	KeyID     string          // of its credential
	AgentID   string          // the agent for policies and budgets
}

// TokenFor returns a session token for a program's request, which is then handled like an agent's request of its Session. The
// token is valid in this process only and is never sent.
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
	return "", fault.New(RefusedRunInProgress, "Earlier calls of this program are still ending. Try again.")
}

// isProgram reports whether a Session holds the calls of a service account. Its Turns have no upstream.
func isProgram(s store.Session) bool { return strings.HasPrefix(s.User, store.ProgramUser) }
