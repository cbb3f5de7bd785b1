package bridge

import (
	"context"

	"aqueduct/bridge/contextstore"
	"aqueduct/store"
)

// ContextCaller is the Agent that sends a token, as the context store knows it. The error is ErrRunToken for a token that is
// not good.
func (a *AgentRequests) ContextCaller(ctx context.Context, token string) (contextstore.Caller, error) {
	turn, err := a.Turn(ctx, token)
	if err != nil {
		return contextstore.Caller{}, err
	}
	session, err := a.store.Session(ctx, store.System(), turn.SessionID)
	if err != nil {
		return contextstore.Caller{}, err
	}
	agent := contextstore.Agent{SessionID: session.ID, SessionUser: session.User, Names: []string{session.ExternalID}, TurnID: turn.ID, AgentID: turn.AgentID}
	if instance, wide := SessionOfToken(token); wide {
		agent.Names, agent.Wide = append(agent.Names, instance), true
	}
	return contextstore.Caller{Principal: store.Principal{Tenant: session.Tenant, User: turn.Prompter(session)}, Agent: &agent}, nil
}
