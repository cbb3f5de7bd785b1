package server

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"aqueduct/bridge"
	"aqueduct/bridge/approval/audit"
	"aqueduct/internal/ids"
	"aqueduct/server/auth"
	"aqueduct/server/decode"
	"aqueduct/server/limit"
	"aqueduct/server/problem"
	"aqueduct/server/route"
	"aqueduct/store"
)

// The names and codes in this file are those of the proxies' contract, {"success":true,"data":{"token":…}} and
// {"success":false,"error":{"code":…}}.
const (
	headerBootstrap = "X-Acp-Proxy-Bootstrap"
	// proxyTokenTime is how long a token got here is good. A proxy renews it in time, with the token itself. Ours
	// does so at half of it, so one that is off for two weeks still has a good token.
	proxyTokenTime = 30 * 24 * time.Hour
)

// registerFailures is how often an address may fail to register. A bootstrap token cannot be guessed, so a client that fails
// this often tries used tokens, or is misconfigured and would fill the audit.
var registerFailures = limit.Rate{PerSecond: 0.1, Burst: 10}

// registerAgain bounds the uses of one reusable bootstrap token, because each use is a row and an entry of the audit. A proxy
// that a supervisor restarts repeatedly can wait a minute.
var registerAgain = limit.Rate{PerSecond: 1.0 / 60, Burst: 20}

// ProxyAccess is how acp-proxies get their tokens. Its functions are called by requests, several at once.
type ProxyAccess struct {
	// Keys sign and check them. They are asked for when a proxy comes: a server without proxies needs no key.
	Keys func() (*auth.Keys, error)
	// Admit refuses a proxy's own token, or a reusable bootstrap token, that was revoked. It keeps a new one. A nil Admit
	// refuses none.
	Admit func(context.Context, store.Credential) error
	// Made keeps a token that a proxy got here, by the one it was got with, whose revocation ends both; nil keeps none. Without it a
	// thief of a token could renew it to one that is in no list.
	Made func(ctx context.Context, c store.Credential, by string) error
	// Reserved reports ids that no proxy gets a token for here: those of agents that are behind no proxy elsewhere. nil is none.
	Reserved func(id string) bool
	// Now is the clock of the brake on failures; nil is the real one.
	Now func() time.Time
}

// proxyRegister handles POST /api/admin/acp-proxy/register. A proxy gets its token by a bootstrap token for it alone, which
// works once or at each of its starts, or by the token that it has. Shapes and codes are those of existing proxies, so
// refusals are not problems here. The brakes belong to this replica and have their locks; the other fields never change.
type proxyRegister struct {
	access ProxyAccess
	known  bridge.ProxyRegistry
	in     *decode.Decoder
	failed *limit.Brake // by address
	again  *limit.Brake // by reusable bootstrap token
	now    func() time.Time
	log    *slog.Logger
}

// newProxyRegister makes the handler. Without cfg.Proxies it answers that no proxy can register here.
func newProxyRegister(cfg Config, in *decode.Decoder) *proxyRegister {
	h := &proxyRegister{in: in, known: cfg.ProxyRegistry, log: cfg.Logger, now: time.Now}
	if cfg.Proxies != nil {
		h.access = *cfg.Proxies
	}
	if h.access.Now != nil {
		h.now = h.access.Now
	}
	h.failed, h.again = limit.NewBrakeAt(registerFailures, h.now), limit.NewBrakeAt(registerAgain, h.now)
	return h
}

// Mount adds the route as an open one; the guard's checks of Host, Origin and content type hold for it too.
func (h *proxyRegister) Mount(to *route.Routes) {
	// Its credential is its own.
	to.Open(http.MethodPost, "/api/admin/acp-proxy/register", h.register)
}

// registerBody names the proxy. Name is for people and may be empty.
type registerBody struct {
	ProxyID string `json:"proxyId" validate:"required,max=128"`
	Name    string `json:"name" validate:"max=200"`
}

// registered is every answer of this route.
type registered struct {
	Success bool           `json:"success"`
	Data    *registerData  `json:"data,omitempty"`
	Error   *registerError `json:"error,omitempty"`
}

// registerData is a proxy's token, and the time at which it expires.
type registerData struct {
	Token     string    `json:"token"`
	ExpiresAt time.Time `json:"expires_at"`
}

// registerError is a refusal in the proxies' form. It is an error, so that the functions below return it; status is
// the HTTP status that goes with it. Reason is for the operator, in the log and the audit: a caller without a valid token
// does not receive it.
type registerError struct {
	Code    string `json:"code"`
	Message string `json:"message"`

	status int
	reason string
}

// Error implements error.
func (e *registerError) Error() string { return e.Code }

// refusedRegister makes a refusal. The message is for the person who reads the proxy's log.
func refusedRegister(status int, code, message string) error {
	return &registerError{Code: code, Message: message, status: status, reason: message}
}

// applicant identifies the caller who asks for a token, as far as it is known: by a credential that this server has signed
// or, if that names no proxy, by the body.
type applicant struct {
	proxyID string
	tokenID string // of a bootstrap token
}

// grant is a token that a proxy gets.
type grant struct {
	token string
	until time.Time
}

// Errors that are no refusals (the database is away) are problems like everywhere else.
func (h *proxyRegister) register(c echo.Context) error {
	c.Response().Header().Set("Cache-Control", "no-store")
	if h.access.Keys == nil {
		return c.JSON(http.StatusNotFound, registered{Error: &registerError{Code: "NOT_FOUND", Message: "No proxy can register here."}})
	}
	got, who, err := h.issue(c)
	var refusal *registerError
	if errors.As(err, &refusal) {
		return h.refuse(c, who, refusal)
	}
	if err != nil {
		return err
	}
	h.log.Info("a proxy got a token", slog.String("proxy", who.proxyID), slog.String("remote", c.RealIP()), slog.Time("until", got.until))
	return c.JSON(http.StatusOK, registered{Success: true, Data: &registerData{got.token, got.until}})
}

// refuse answers, logs and audits a failure. After too many failures from one address the answer is 429, without a line or an
// entry. Valid tokens from there still pass, because an office or a reverse proxy is one address. The brake counts only
// failures, so a fleet that renews its tokens from one address never triggers it.
func (h *proxyRegister) refuse(c echo.Context, who applicant, refusal *registerError) error {
	// The peer's own address: a header that names another is the caller's choice.
	if wait, ok := h.failed.Take(limit.Address(c.Request().RemoteAddr)); !ok {
		return tooManyRegistrations(c, wait, "Too many registrations from this address failed. Retry-After says when to try again.")
	}
	h.log.Warn("a proxy's registration was refused", slog.String("proxy", who.proxyID), slog.String("code", refusal.Code),
		slog.String("reason", refusal.reason), slog.String("token_id", who.tokenID), slog.String("remote", c.RealIP()))
	h.audit(c, who, refusal)
	if refusal.status == http.StatusTooManyRequests {
		return tooManyRegistrations(c, time.Minute, refusal.Message)
	}
	return c.JSON(refusal.status, registered{Error: refusal})
}

func tooManyRegistrations(c echo.Context, wait time.Duration, message string) error {
	c.Response().Header().Set("Retry-After", strconv.Itoa(limit.RetryAfter(wait)))
	return c.JSON(http.StatusTooManyRequests, registered{Error: &registerError{Code: "TOO_MANY_REQUESTS", Message: message}})
}

// issue makes the token, for the proxy of an id. The credential is checked before the body is read. The bootstrap
// token wins when both are sent: a proxy that was removed and is enrolled anew still has its old token.
func (h *proxyRegister) issue(c echo.Context) (grant, applicant, error) {
	keys, err := h.access.Keys()
	if err != nil {
		return grant{}, applicant{}, err
	}
	header := c.Request().Header
	bootstrap, own := header.Values(headerBootstrap), header.Values("Authorization")
	if len(own) > 0 && len(bootstrap) == 0 {
		claims, credential, _, err := keys.ProxyCredential(c.Request())
		who := applicant{proxyID: claims.ProxyID}
		if err == nil {
			err = h.admit(c, credential)
		}
		if err != nil {
			return grant{}, who, unauthorizedProxy(err)
		}
		got, err := h.renew(c, keys, claims, credential.ID)
		return got, who, err
	}
	if len(bootstrap) != 1 {
		return grant{}, applicant{}, unauthorizedProxy(auth.ErrNoCredential)
	}
	boot, err := keys.Bootstrap(strings.TrimSpace(bootstrap[0]))
	who := applicant{boot.ProxyID, boot.TokenID}
	if err == nil && boot.Reusable {
		err = h.admit(c, boot.Credential)
	}
	if err != nil {
		return grant{}, who, unauthorizedProxy(err)
	}
	got, err := h.enrol(c, keys, boot, &who)
	return got, who, err
}

// admit refuses a credential that was revoked.
func (h *proxyRegister) admit(c echo.Context, credential store.Credential) error {
	if h.access.Admit == nil {
		return nil
	}
	return h.access.Admit(c.Request().Context(), credential)
}

// unauthorizedProxy refuses a credential. The answer is the same for an invalid, a used, a revoked and an expired token; the
// log has the reason. It returns an error that is not about a credential unchanged.
func unauthorizedProxy(why error) error {
	if !errors.Is(why, auth.ErrBadCredential) && !errors.Is(why, auth.ErrNoCredential) && !errors.Is(why, bridge.ErrTokenUsed) && !errors.Is(why, bridge.ErrTokenBound) {
		return why
	}
	return &registerError{
		Code: "UNAUTHORIZED", status: http.StatusUnauthorized, reason: why.Error(),
		Message: "The bootstrap token, or the proxy's own, is not valid here: another server made it, it has expired or was revoked, it is another proxy's, " +
			"or it was used before. The server's log says which. For a proxy that registers at each start: aqueduct token bootstrap --reusable",
	}
}

// body reads which proxy it is, and refuses another than the credential names. A body that cannot be read is answered
// in the form of this route, with the status that any other route would give it. A body that names another proxy than
// the token is refused and audited, because a stolen token would be tried like that. A token without a proxy's id is for the
// proxy that the body names.
func (h *proxyRegister) body(c echo.Context, proxyID string) (registerBody, error) {
	var body registerBody
	if err := h.in.JSON(c, &body); err != nil {
		p := problem.Report(h.log, c, err)
		return body, refusedRegister(p.Status, "BAD_REQUEST", p.Detail)
	}
	switch {
	case !ids.ValidName(body.ProxyID):
		return body, refusedRegister(http.StatusBadRequest, "BAD_REQUEST", "proxyId must be 1 to 128 of A-Z a-z 0-9 . _ : -")
	case proxyID != "" && body.ProxyID != proxyID:
		return body, refusedRegister(http.StatusForbidden, "FORBIDDEN", "The token is for another proxy.")
	case auth.ReservedProxy(body.ProxyID) || h.access.Reserved != nil && h.access.Reserved(body.ProxyID):
		return body, refusedRegister(http.StatusForbidden, "RESERVED", "The id is that of an agent of this server.")
	}
	return body, nil
}

// renew gives a proxy that has a token another, for the same. The token is kept before it is sent and the audit has
// its entry before it, so a failure of either leaves the proxy with its old token, which stays good.
func (h *proxyRegister) renew(c echo.Context, keys *auth.Keys, claims auth.ProxyClaims, by string) (grant, error) {
	if _, err := h.body(c, claims.ProxyID); err != nil {
		return grant{}, err
	}
	got, err := sign(keys, claims, time.Now().Add(proxyTokenTime))
	if err == nil {
		err = h.made(c, keys, got.token, by)
	}
	if err == nil {
		err = h.known.Audit(c.Request().Context(), systemPrincipal(), audit.ProxyRegistered, claims.ProxyID, map[string]string{"by": "own token", "remote_addr": c.RealIP()})
	}
	return got, err
}

// sign makes a proxy's token that expires at a time.
func sign(keys *auth.Keys, claims auth.ProxyClaims, until time.Time) (grant, error) {
	until = until.Truncate(time.Second).UTC()
	token, err := keys.IssueProxy(auth.TypeACPProxy, claims, max(time.Second, time.Until(until)))
	return grant{token, until}, err
}

// enrol registers a new proxy or, with a reusable token, the proxy that it is bound to. Any other known id is refused: the
// holder of a bootstrap token could impersonate that proxy and get its conversations. Enrol marks the token as used and adds
// the proxy in one transaction. After a crash between that and the answer, a token that works once is used up and its proxy
// has no token. An operator then removes the proxy and issues another token.
//
// A token that a reusable token gives lives as long as that token, and ends with its revocation, because a proxy that
// registers at each start renews nothing.
func (h *proxyRegister) enrol(c echo.Context, keys *auth.Keys, boot auth.Bootstrap, who *applicant) (got grant, err error) {
	body, err := h.body(c, boot.ProxyID)
	named := boot.ProxyID != ""
	if !named && ids.ValidName(body.ProxyID) {
		who.proxyID = body.ProxyID
	}
	if err != nil {
		return got, err
	}
	claims, until, parent := boot.ProxyClaims, time.Now().Add(proxyTokenTime), ""
	claims.ProxyID, claims.Name = body.ProxyID, cmp.Or(claims.Name, body.Name)
	if boot.Reusable {
		if _, ok := h.again.Take(boot.TokenID); !ok {
			return got, refusedRegister(http.StatusTooManyRequests, "TOO_MANY_REQUESTS", "The proxy registers too often with this token. Retry-After says when to try again.")
		}
		until, parent = boot.Until, boot.Credential.ID
	}
	// The token is made first: a failure to sign must not use up the bootstrap token.
	if got, err = sign(keys, claims, until); err != nil {
		return got, err
	}
	err = h.known.Enrol(c.Request().Context(), bridge.Enrolment{
		TokenID: boot.TokenID, Reusable: boot.Reusable, Named: named, ExpiresAt: boot.Until, ProxyID: claims.ProxyID, Name: claims.Name,
		AgentID: cmp.Or(claims.AgentID, claims.ProxyID), Remote: c.RealIP(),
	}, time.Now())
	switch {
	case errors.Is(err, bridge.ErrTokenUsed), errors.Is(err, bridge.ErrTokenBound):
		err = unauthorizedProxy(err)
	case errors.Is(err, bridge.ErrProxyKnown):
		err = refusedRegister(http.StatusConflict, "PROXY_KNOWN", "A proxy of this id is known. It renews its token with the token it has; an operator can remove it.")
	case errors.Is(err, bridge.ErrAgentTaken):
		err = refusedRegister(http.StatusConflict, "AGENT_TAKEN", "An agent of the id that this proxy serves is registered by HTTP, where its owner or an administrator can remove it, or is one of this server's own.")
	case err == nil:
		err = h.made(c, keys, got.token, parent)
	}
	return got, err
}

// made stores a token before it is sent. Revoking the token by which it was obtained also revokes the new token, because by
// is its parent.
func (h *proxyRegister) made(c echo.Context, keys *auth.Keys, token, by string) error {
	if h.access.Made == nil {
		return nil
	}
	credential, err := keys.ProxyTokenCredential(token)
	if err != nil {
		return err
	}
	return h.access.Made(c.Request().Context(), credential, by)
}

// An entry that cannot be written is logged; the refusal stands either way.
func (h *proxyRegister) audit(c echo.Context, who applicant, refusal *registerError) {
	ctx := context.WithoutCancel(c.Request().Context()) // a caller that leaves is audited too
	details := map[string]string{"code": refusal.Code, "reason": refusal.reason, "remote_addr": c.RealIP()}
	if who.tokenID != "" {
		details["token_id"] = who.tokenID
	}
	if err := h.known.Audit(ctx, systemPrincipal(), audit.ProxyRegisterRefused, who.proxyID, details); err != nil {
		h.log.Error("a refused registration is not in the audit", slog.String("proxy", who.proxyID), slog.Any("error", err))
	}
}

// systemPrincipal is the actor of what a proxy does without a user. Operators read the audit of this tenant.
func systemPrincipal() store.Principal { return audit.Nobody(store.LocalPrincipal().Tenant) }
