// Agents that call with a run or session token: who they are, and what the engine's refusals of a token are called here.

package server

import (
	"errors"
	"strings"

	"github.com/labstack/echo/v4"

	"aqueduct/bridge"
	"aqueduct/bridge/tools"
	"aqueduct/server/decode"
	"aqueduct/server/problem"
	"aqueduct/store"
)

// agentCallers checks the tokens of agents. The engine knows what a token opens; the limits on refused credentials
// are the edge's. Both methods do the two steps in one order: a refused token counts against the address, and a good
// one moves the connection to those of known callers. A handler that skipped the second would leave its connection
// among the anonymous ones, where a newer one may evict it in the middle of a tool call.
type agentCallers struct {
	sessions *bridge.Sessions
	in       *decode.Decoder
}

// known returns whose agent sends the token. It is called before a body is read, so that a caller without a good
// token makes the server hold nothing. The connection counts as a known caller's only after that: a flood of requests
// with made-up tokens stays among the anonymous connections.
func (a agentCallers) known(c echo.Context, token string) (store.Principal, error) {
	who, err := a.sessions.AgentRequests().Principal(c.Request().Context(), token)
	if err != nil {
		return who, a.in.Refused(c, agentProblem(err))
	}
	// Known may refuse too: a connection that was evicted meanwhile is answered and closed.
	return who, a.in.Known(c)
}

// counted is known for what is counted as calls of the user's agent, and returns the token as well. Tool calls and model
// calls share one limit: it is there for an agent in a loop, which may loop over either.
func (a agentCallers) counted(c echo.Context) (token string, who store.Principal, err error) {
	if token, err = runToken(c); err != nil {
		return "", who, err
	}
	if who, err = a.known(c, token); err == nil {
		err = a.in.MayInvoke(c, who)
	}
	return token, who, err
}

// turn returns the Turn that the token belongs to. It is for what needs more than the name of the user, such as the
// Session whose tenant counts.
func (a agentCallers) turn(c echo.Context, token string) (store.Turn, error) {
	turn, err := a.sessions.AgentRequests().Turn(c.Request().Context(), token)
	if err != nil {
		return turn, a.in.Refused(c, agentProblem(err))
	}
	return turn, a.in.Known(c)
}

// agentProblem gives the engine's refusals of an agent's request their codes; other errors stay. ErrRunToken stands for unknown, expired and foreign tokens alike, so an agent cannot tell an
// old token from a forged one.
func agentProblem(err error) error {
	switch {
	case errors.Is(err, bridge.ErrRunToken):
		return problem.RefuseAgent()
	case errors.Is(err, bridge.ErrForeignRun):
		return problem.Refuse(problem.ForeignRun, "")
	case errors.Is(err, tools.ErrTooManyQuestions):
		return problem.Refuse(problem.TooManyQuestions, "")
	}
	return err
}

// hasRunToken reports whether the request shows a run or session token.
func hasRunToken(c echo.Context) bool {
	_, err := runToken(c)
	return err == nil
}

// runToken returns the credential of the request when it has the form of a run or session token. Several
// Authorization headers are refused, because a proxy in between and this server could disagree on which of them
// counts. IsRunToken looks at the form alone, so a user's token never reaches the engine from here.
func runToken(c echo.Context) (string, error) {
	given := c.Request().Header.Values("Authorization")
	if len(given) != 1 {
		return "", problem.RefuseAgent()
	}
	scheme, token, _ := strings.Cut(given[0], " ")
	token = strings.TrimSpace(token)
	if !strings.EqualFold(scheme, "Bearer") || !bridge.IsRunToken(token) {
		return "", problem.RefuseAgent()
	}
	return token, nil
}
