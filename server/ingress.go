package server

import (
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"time"
	"unicode"

	"github.com/gorilla/websocket"
	"github.com/labstack/echo/v4"

	"aqueduct/bridge"
	"aqueduct/bridge/audit"
	"aqueduct/server/auth"
	"aqueduct/server/brake"
	"aqueduct/store"
)

// ingress is /ws/ingress: the channel of the platform contract's §5, for clients that send
// one message at a time and show what comes back. It holds no logic of Runs: what a client
// says becomes what a POST would be, and what it hears is read from the log.
type ingress struct {
	sessions *bridge.Sessions
	store    store.Store
	auth     *auth.Auth
	in       *intake
	open     *sockets
	log      *slog.Logger
	audit    *audit.Log
}

func (h *ingress) mount(to *routes) {
	// The first message says who calls.
	to.open(http.MethodGet, "/ws/ingress", h.get)
}

func (h *ingress) get(c echo.Context) error {
	if err := upgrades(c.Request()); err != nil {
		return err
	}
	if h.open.draining.Err() != nil {
		return refuse(codeShuttingDown, "")
	}
	l, err := openLine(c, h.in.limits)
	if err != nil {
		return err
	}
	slot, err := h.open.await(brake.Address(c.Request().RemoteAddr), func() {
		l.end(websocket.CloseTryAgainLater, bridge.RefusedTooManyStreams)
	})
	if err != nil { // it has begun to drain
		l.end(websocket.CloseGoingAway, codeShuttingDown)
		l.goodbye()
		return nil
	}
	defer slot.leave()
	s := &ingressSocket{line: l, slot: slot, ingressDesk: ingressDesk{h: h, remote: c.Request().RemoteAddr}, c: c, follows: make(map[string]*ingressFollow)}
	s.before = s.listen
	l.serve(h.open.draining, s.talk)
	return nil
}

// helloFrame is the first message.
type helloFrame struct {
	UserID  string  `json:"user_id" validate:"max=128"`
	APIKey  string  `json:"api_key" validate:"max=3500"`
	LastSeq rawJSON `json:"last_seq"`
	// SessionID is whose last_seq it is when that is one number, else a session to follow.
	SessionID string `json:"session_id" validate:"max=128"`
}

// admit says who calls. Without an api_key it is who made the request that became this
// socket, by header or cookie: the guard has judged its Origin.
func (h *ingress) admit(r *http.Request, hello helloFrame) (auth.Caller, error) {
	caller, err := h.caller(r, auth.Secret(hello.APIKey))
	if err == nil {
		caller, err = h.actingFor(caller, hello.UserID)
	}
	if err != nil {
		h.audit.Refused(r.Context(), audit.Unknown(), audit.AccessRefused, audit.OfRoute("GET /ws/ingress"), nil)
	}
	return caller, err
}

func (h *ingress) caller(r *http.Request, key auth.Secret) (auth.Caller, error) {
	if key == "" {
		return h.auth.Caller(r, auth.KindChannel)
	}
	caller, err := h.auth.Accept(r.Context(), key, auth.KindStatic, auth.KindUser, auth.KindService, auth.KindChannel)
	if err == nil || strings.Count(string(key), ".") == 2 || bridge.IsRunToken(string(key)) || auth.IsAPIKey(string(key)) {
		return caller, err
	}
	// Where nobody needs a key, one that is none of ours is as good as none: the contract's
	// clients always send one.
	bare := r.Clone(r.Context())
	bare.Header = http.Header{}
	if operator, open := h.auth.Caller(bare); open == nil {
		return operator, nil
	}
	return caller, err
}

// actingFor lets a channel speak for the user it names: one with a channel's token, and the static token where it may
// speak for users. Where nobody needs a token there is one user, and the name means nothing. Anybody else may only name
// themselves: to ignore the name would give one user the sessions of another.
func (h *ingress) actingFor(caller auth.Caller, user string) (auth.Caller, error) {
	switch caller.Kind {
	case auth.KindNone:
		return caller, nil
	case auth.KindStatic:
		if user == "" || user == caller.Principal.User {
			return caller, nil
		}
		who, ok := h.auth.SpeaksFor(caller, user)
		if !ok || strings.ContainsFunc(user, unicode.IsControl) {
			return caller, &channelError{codeForeignUser, "This key speaks for no other user. Leave user_id out, use a channel's token, or start the server with --token-users TENANT."}
		}
		caller.Kind, caller.Principal = auth.KindChannel, who
	case auth.KindChannel:
		who, ok := caller.For(user)
		if !ok || strings.ContainsFunc(user, unicode.IsControl) {
			return caller, &channelError{codeForeignUser, "A channel says in user_id whom it speaks for."}
		}
		caller.Principal = who
	case auth.KindUser, auth.KindApprover, auth.KindService, auth.KindOperator:
		if !caller.Has(auth.RoleUser) {
			return caller, refuseRole(users)
		}
		if user != "" && user != caller.Principal.User {
			return caller, &channelError{codeForeignUser, "Only a channel's token may name other users."}
		}
	}
	return caller, nil
}

// channelError is a refusal that only channels have.
type channelError struct{ code, message string }

// Error implements error.
func (e *channelError) Error() string { return e.code + ": " + e.message }

// channelProblem is an error as a channel tells it. What is our own fault is kept in the
// server's log under the id that is told.
func channelProblem(log *slog.Logger, c echo.Context, err error) (code, message string) {
	var own *channelError
	if errors.As(err, &own) {
		return own.code, own.message
	}
	p := report(log, c, err)
	if p.ErrorID != "" {
		return p.Code, p.Detail + " (" + p.ErrorID + ")"
	}
	return p.Code, p.Detail
}

// helloTime is how long the first message may take, and helloMost how long it may be.
const (
	helloTime = 5 * time.Second
	helloMost = 4 << 10
)
