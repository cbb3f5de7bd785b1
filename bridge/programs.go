package bridge

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"strings"

	"aqueduct/agui"
	"aqueduct/internal/fault"
	"aqueduct/store"
)

// Programs lets service accounts that are bound to an agent call models and tools without a prompt. What they call has a
// Session and a Turn like the calls of any agent, so that it is judged, counted, asked for and recovered like them. The
// Session belongs to the account's own user (store.ProgramUser), as which nobody else can sign in, so it is on no list.
// The Turn is held open by the Agent of MCP clients while calls are made.
type Programs struct{ sessions *Sessions }

// Program is a service account that calls.
type Program struct {
	Principal store.Principal // its user, without roles: it decides and answers nothing
	KeyID     string          // of its credential
	AgentID   string          // as which policies and budgets see it
}

// Token returns a session token with which the program's request is handled as that of an agent of its Session. It is
// good for this process alone and is never sent.
func (p *Programs) Token(ctx context.Context, by Program) (string, error) {
	if p.sessions.Draining().Begun() {
		return "", ShuttingDown()
	}
	thread := "key:" + by.KeyID
	calls := p.sessions.ClientCalls()
	for range clientTries {
		session, turn, err := calls.under(ctx, by.Principal, thread)
		if err != nil {
			return "", err
		}
		if turn.ID != "" {
			return p.sessions.agents.lend(session.ID), nil
		}
		_, err = p.sessions.Chat(ctx, ChatRequest{
			Principal: by.Principal, Dialect: DialectV1, ThreadID: thread, RunID: newID(), AgentID: by.AgentID, Channel: true, OnBusy: OnBusyRefuse, Unnamed: true,
			Repeat: RepeatNever, ofProgram: true, Messages: []agui.Message{{ID: newID(), Role: agui.RoleUser, Content: agui.Text(by.Principal.User + " calls models and tools.")}},
		})
		if err != nil && fault.CodeOf(err) != RefusedRunInProgress { // then another call has begun one
			return "", err
		}
	}
	return "", fault.New(RefusedRunInProgress, "The calls of before are ending. Try again.")
}

// lender makes tokens for requests that another credential than a token of the engine's own lets in.
type lender struct{ key [sha256.Size]byte }

func newLender() *lender {
	l := new(lender)
	rand.Read(l.key[:]) // never fails; crypto/rand ends the process instead
	return l
}

// lend returns the token of a Session; lent reports whether a token is one.
func (a *AgentRequests) lend(sessionID string) string {
	mac := hmac.New(sha256.New, a.lender.key[:])
	mac.Write([]byte(sessionID))
	return sessionTokenPrefix + sessionID + "_" + base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

func (a *AgentRequests) lent(sessionID, token string) bool {
	return hmac.Equal([]byte(token), []byte(a.lend(sessionID)))
}

// isProgram reports whether a Session holds the calls of a service account. Its Turns have no upstream.
func isProgram(s store.Session) bool { return strings.HasPrefix(s.User, store.ProgramUser) }
