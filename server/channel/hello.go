// This file authenticates a connection. Until the hello is accepted the connection costs little: a
// small message is read within a short time, and no session is followed.

package channel

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"
	"unicode"

	"github.com/gorilla/websocket"

	"aqueduct/bridge"
	"aqueduct/bridge/approval/audit"
	"aqueduct/internal/fault"
	"aqueduct/internal/retry"
	"aqueduct/internal/strictjson"
	"aqueduct/server/auth"
	"aqueduct/server/problem"
	"aqueduct/server/route"
	"aqueduct/store"
)

// HelloFrame is the first message. For example
// {"type":"hello","user_id":"ann","api_key":"…","last_seq":{"t1":120},"session_id":"t2"}.
type HelloFrame struct {
	UserID string `json:"user_id" validate:"max=128"`
	APIKey string `json:"api_key" validate:"max=3500"`
	// Ticket is that of a page whose cookie needs one, for /ws/ingress.
	Ticket  string          `json:"ticket" validate:"max=256"`
	LastSeq json.RawMessage `json:"last_seq"`
	// SessionID is whose last_seq it is when that is one number, else a session to follow.
	SessionID string `json:"session_id" validate:"max=128"`
}

// admit authenticates a hello. Without an api_key the caller is that of the HTTP request that became this socket, by header
// or cookie: the guard has checked its Origin.
// A refused hello is part of the audit: failed attempts to enter are what an auditor looks for.
func (h *Handler) admit(r *http.Request, hello HelloFrame) (auth.Caller, error) {
	if hello.Ticket != "" {
		r = auth.WithTicket(r, hello.Ticket)
	}
	caller, err := h.caller(r, auth.Secret(hello.APIKey))
	if err == nil {
		caller, err = h.actingFor(caller, hello.UserID)
	}
	if problem.Of(err).Code == problem.Unauthorized {
		err = errors.Join(problem.Refuse(problem.Unauthorized, "The hello needs an api_key that is valid here: a channel's token (aqueduct token issue --type channel), "+
			"a user's, an API key or the server's own token. Without one, a valid Authorization header or cookie of the handshake counts, the cookie with a ticket (POST /api/tickets)."), err)
	}
	if err != nil {
		h.Audit.Refused(r.Context(), audit.Unknown(), audit.AccessRefused, audit.OfRoute("GET /ws/ingress"), nil)
	}
	return caller, err
}

// caller is whom the key names. A bad key is an error even if the HTTP request carries a good
// cookie: the client chose the key.
func (h *Handler) caller(r *http.Request, key auth.Secret) (auth.Caller, error) {
	if key == "" {
		return h.Auth.Caller(r, auth.KindChannel)
	}
	caller, err := h.Auth.Accept(r.Context(), key, auth.KindStatic, auth.KindUser, auth.KindService, auth.KindChannel)
	if err == nil || strings.Count(string(key), ".") == 2 || bridge.IsRunToken(string(key)) || auth.IsAPIKey(string(key)) {
		return caller, err
	}
	// Where no key is required, an unknown key is ignored: the contract's clients always send one.
	bare := r.Clone(r.Context())
	bare.Header = http.Header{}
	if operator, open := h.Auth.Caller(bare); open == nil {
		return operator, nil
	}
	return caller, err
}

// actingFor lets a channel speak for the user it names: one with a channel's token, and the static token where it may
// speak for users. Where no token is required there is one user, and the name has no meaning. Every other caller may only
// name themselves: ignoring the name would give one user the sessions of another.
// A control character in a user's name could forge lines in logs and audit records, which show the
// name.
func (h *Handler) actingFor(caller auth.Caller, user string) (auth.Caller, error) {
	switch caller.Kind {
	case auth.KindNone:
		return caller, nil
	case auth.KindStatic:
		if user == "" || user == caller.Principal.User {
			return caller, nil
		}
		who, ok := h.Auth.SpeaksFor(caller, user)
		if !ok || strings.ContainsFunc(user, unicode.IsControl) {
			return caller, fault.New(problem.ForeignUser, "This key speaks for no other user. Leave user_id out, use a channel's token, or start the server with --token-users TENANT.")
		}
		caller.Kind, caller.Principal = auth.KindChannel, who
	case auth.KindChannel:
		who, ok := caller.For(user)
		if !ok || strings.ContainsFunc(user, unicode.IsControl) {
			return caller, fault.New(problem.ForeignUser, "A channel says in user_id whom it speaks for.")
		}
		caller.Principal = who
	case auth.KindUser, auth.KindApprover, auth.KindService, auth.KindOperator, auth.KindMCP:
		if !caller.Has(auth.RoleUser) {
			return caller, route.RefuseRole(route.Users)
		}
		if user != "" && user != caller.Principal.User {
			return caller, fault.New(problem.ForeignUser, "Only a channel's token may name other users.")
		}
	}
	return caller, nil
}

// helloTime is how long the first message may take, and helloMost how long it may be.
const (
	helloTime = 5 * time.Second
	maxHello  = 4 << 10
)

// authenticate reads the hello. A client that does not send a good one in time is disconnected. The error is sent as
// a message before the close frame: the contract's clients read the code from the message. After it the connection
// ends with its credential in three ways: at the time it names, when it is revoked, and when the key that signed it
// is retired.
func (s *connection) authenticate() bool {
	raw, err := s.ReadFirst(maxHello, helloTime)
	if err != nil {
		var late net.Error
		if errors.As(err, &late) && late.Timeout() {
			s.fail(Envelope{}, problem.Refuse(problem.Unauthorized, "A hello was expected."))
		}
		s.End(websocket.ClosePolicyViolation, problem.Unauthorized)
		return false
	}
	var hello HelloFrame
	frame, err := s.decodeEnvelope(raw)
	if err == nil && frame.Type != "hello" {
		err = problem.Refuse(problem.Unauthorized, "The first message is a hello.")
	}
	if err == nil {
		err = s.h.In.Message(raw, &hello)
	}
	if err == nil {
		s.caller, err = s.h.admit(s.c.Request(), hello)
		err = s.h.In.Refused(s.c, err)
	}
	if err == nil {
		err = s.h.In.Known(s.c)
	}
	if err == nil {
		err = s.slot.Identify(s.caller.Principal)
	}
	if err != nil {
		code := s.fail(frame, err)
		s.End(websocket.ClosePolicyViolation, code)
		return false
	}
	s.in = s.caller.Scope()
	s.EndAt(s.caller.Until)
	watched, release := s.h.Auth.Watch(s.Ctx, s.caller)
	context.AfterFunc(s.Ctx, release)
	s.EndWith(watched)
	// This message comes before those of the sessions. It names no session, because a client may keep the seq of every message
	// of a session.
	s.sendAbout(Envelope{RequestID: frame.RequestID}, Message{Type: typeHelloOK, UserID: s.caller.Principal.User})
	s.resumeAll(frame, hello)
	return true
}

// resumeAll follows the sessions that a hello names, from where the client was.
// A session that cannot be resumed is reported and skipped; the others are resumed. The client may have
// kept the last_seq of a thread that was deleted.
func (s *connection) resumeAll(frame Envelope, hello HelloFrame) {
	seqs, err := s.positions(s.Ctx, hello)
	if err != nil {
		s.fail(frame, err)
	}
	for id, seq := range seqs {
		f := Envelope{RequestID: frame.RequestID, SessionID: id}
		if err := s.resumeAt(id, seq); err != nil {
			s.fail(f, err)
		}
	}
	if _, named := seqs[hello.SessionID]; !named && hello.SessionID != "" {
		err := s.subscribeNamed(hello.SessionID)
		switch {
		case errors.Is(err, store.ErrNotFound):
			s.awaited = hello.SessionID // it may yet be made
		case err != nil:
			s.fail(frame, err)
		}
	}
}

// resumeAt follows a session from where the client was. A position beyond the log can only come of a restored
// database or a mistake of the client. It is reported, and the session is followed from its end: to wait for that
// position would hide everything that happens before it. The two reads are repeated while the store is away, since a
// client that reconnects after an outage would otherwise lose its place.
func (s *connection) resumeAt(id string, seq int64) error {
	var session store.Session
	var last int64
	err := retry.While(s.Ctx, isAway, func() (err error) {
		if session, err = s.h.Store.SessionByExternalID(s.Ctx, s.in, id); err == nil {
			last, err = s.h.Store.LastSeq(s.Ctx, s.in, session.ID)
		}
		return err
	})
	if err != nil {
		return err
	}
	from := int64(0) // the client claims to have everything before
	if now := seqOf(last+1, -1); seq < 0 || seq > now {
		err = problem.Refuse(problem.BeyondLog, "last_seq lies beyond the end of the session's log; it is followed from there.")
		seq, from = now, now
	}
	return errors.Join(s.subscribe(session, seq, from, false), err)
}

// positions reads last_seq: one number, or one for each session.
// A single number is accepted for clients with one session. With two sessions it would be a guess,
// and a wrong guess loses messages without a sign.
func (d *dispatcher) positions(ctx context.Context, hello HelloFrame) (map[string]int64, error) {
	if !strictjson.IsSet(hello.LastSeq) {
		return nil, nil
	}
	var many map[string]int64
	if json.Unmarshal(hello.LastSeq, &many) == nil {
		if len(many) > maxSubscriptions {
			return nil, problem.Refuse(problem.InvalidCursor, fmt.Sprintf("last_seq may name %d sessions.", maxSubscriptions))
		}
		return many, nil
	}
	var one int64
	if json.Unmarshal(hello.LastSeq, &one) != nil {
		return nil, problem.Refuse(problem.InvalidCursor, "last_seq is a number, or an object of session_id and number.")
	}
	if hello.SessionID != "" {
		return map[string]int64{hello.SessionID: one}, nil
	}
	rows, err := d.h.Store.Sessions(ctx, d.in, store.Page{Limit: 2})
	if err == nil && len(rows) != 1 {
		err = problem.Refuse(problem.InvalidCursor, "last_seq is one number, and there is not one session: say which by session_id.")
	}
	if err != nil {
		return nil, err
	}
	return map[string]int64{rows[0].ExternalID: one}, nil
}
