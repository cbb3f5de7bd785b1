// This file signs people in at an OpenID provider and accepts its bearer tokens. The parts that call
// the provider are in oidc_issuer.go and oidc_keys.go, what its claims mean here in oidc_mapping.go,
// the browser's side in oidc_session.go.

package auth

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"aqueduct/internal/fault"
	"aqueduct/store"
)

const (
	// MaxIssuedLife is how old a token of the issuer may become, whatever end it names, and the longest that a
	// browser session opened with one may last.
	MaxIssuedLife = 24 * time.Hour
	// stateBytes bounds the parameters of the callback: codes and states of issuers are shorter.
	stateBytes = 4 << 10
)

// What can go wrong with an issuer, beside what is wrong with a token.
var (
	// ErrIssuer: the issuer cannot be reached or answers with something that cannot be read. The credential may be good.
	ErrIssuer error = &fault.Error{Code: codeIssuer, Cause: errors.New("auth: the OpenID provider did not answer as it must")}
	// ErrNotMapped: the token is good, and the mapping gives its bearer no tenant or no user name.
	ErrNotMapped = fmt.Errorf("%w: the mapping lets nobody of these claims in", ErrBadCredential)
	// ErrSignInState: the callback does not belong to a sign-in that this browser began.
	ErrSignInState = errors.New("auth: the sign-in was not begun in this browser, or too long ago")
	// ErrSignInDenied: the issuer answered that it signed no user in.
	ErrSignInDenied = errors.New("auth: the OpenID provider refused to sign in")
)

// OIDCConfig is how people sign in at an OpenID provider.
type OIDCConfig struct {
	Issuer   string
	ClientID string
	// ClientSecret is "" for a public client, which PKCE alone protects.
	ClientSecret Secret
	// Audience is what the aud of bearer tokens must hold; the ClientID when empty.
	Audience string
	Scopes   []string // beside openid
	Mapping  Mapping
	// SessionLife is how long a browser session lasts; zero: as long as the ID token it was opened with.
	SessionLife time.Duration
	Now         func() time.Time // nil: time.Now
}

// OIDC signs people in at one issuer, and accepts its bearer tokens. The issuer is asked when
// something needs it, not at the start: it may start later than this server.
// cfg does not change after NewOIDC; issuer and keys have locks of their own.
type OIDC struct {
	cfg    OIDCConfig
	issuer *remoteIssuer
	keys   *keySet
}

// NewOIDC checks the configuration without a call to the issuer.
func NewOIDC(cfg OIDCConfig) (*OIDC, error) {
	if !secureURL(cfg.Issuer) {
		return nil, errors.New("auth: the issuer must be an https URL; http is for loopback alone")
	}
	if cfg.ClientID == "" {
		return nil, errors.New("auth: a client id is needed")
	}
	if cfg.SessionLife < 0 || cfg.SessionLife > MaxIssuedLife {
		return nil, fmt.Errorf("auth: a browser session lasts at most %s", MaxIssuedLife)
	}
	if err := cfg.Mapping.check(); err != nil {
		return nil, err
	}
	cfg.Audience = cmp.Or(cfg.Audience, cfg.ClientID)
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	o := &OIDC{cfg: cfg, issuer: &remoteIssuer{url: cfg.Issuer, client: issuerClient(), now: cfg.Now}}
	o.keys = &keySet{client: o.issuer.client, now: cfg.Now, url: o.issuer.keysURL}
	return o, nil
}

// Issuer is the provider's name, its URL.
func (o *OIDC) Issuer() string { return o.cfg.Issuer }

// verify checks signature, issuer, audience and times. go-oidc treats an unreachable key endpoint as
// a bad signature. observedKeys keeps the difference: a client that gets 401 throws its token away,
// while one that gets 503 tries again.
func (o *OIDC) verify(ctx context.Context, audience, token string) (*oidc.IDToken, error) {
	keys := &observedKeys{KeySet: o.keys}
	got, err := oidc.NewVerifier(o.cfg.Issuer, keys, &oidc.Config{
		ClientID: audience, SupportedSigningAlgs: signingAlgs(),
		Now: func() time.Time { return o.cfg.Now().Add(-leeway) }, // of the end; see inTime for the beginning
	}).Verify(o.issuer.calling(ctx), token)
	if err != nil {
		return nil, tokenError(errors.Join(err, keys.err))
	}
	return got, o.inTime(got)
}

// observedKeys keep the error of one token's signature: go-oidc gives its text alone, and an issuer that
// cannot be asked is no fault of the token.
type observedKeys struct {
	oidc.KeySet
	err error
}

// VerifySignature implements oidc.KeySet.
func (k *observedKeys) VerifySignature(ctx context.Context, token string) (payload []byte, err error) {
	payload, k.err = k.KeySet.VerifySignature(ctx, token)
	return payload, k.err
}

// issued reports whether a token names the issuer. Its claims are not verified yet: this only chooses who verifies them.
func (o *OIDC) issued(token string) bool { return unverifiedIssuer(token) == o.cfg.Issuer }

// Accept is the Caller of a bearer token of the issuer, an access token or an ID token.
func (o *OIDC) Accept(ctx context.Context, token Secret) (Caller, error) {
	if len(token) > maxIssuedToken {
		return Caller{}, ErrTokenInvalid
	}
	if !bearerKind(string(token)) {
		return Caller{}, ErrTokenType
	}
	ctx, cancel := context.WithTimeout(ctx, issuerTime)
	defer cancel()
	got, err := o.verify(ctx, o.cfg.Audience, string(token))
	if err != nil {
		return Caller{}, err
	}
	claims, err := claimsOf(got)
	if err != nil {
		return Caller{}, err
	}
	if _, is := claims["events"]; is { // a logout or security event token: signed by the same keys for the same audience
		return Caller{}, ErrTokenType
	}
	if _, is := claims["cnf"]; is { // bound to a key (RFC 7800), of which no proof is asked for here
		return Caller{}, ErrTokenType
	}
	who, err := o.cfg.Mapping.principal(claims)
	if err != nil {
		return Caller{}, err
	}
	until := got.Expiry
	if latest := got.IssuedAt.Add(MaxIssuedLife); latest.Before(until) {
		until = latest
	}
	return Caller{Kind: KindUser, Principal: who, Until: until, Credential: store.Credential{
		ID: issuedID(got, claims, string(token)), Kind: store.CredentialOIDC, Tenant: who.Tenant, User: who.User, Roles: who.Roles,
		CreatedAt: got.IssuedAt, ExpiresAt: until,
	}}, nil
}

// issuedID is what a token of the issuer is kept and revoked by: its jti, or where it has none the token itself,
// hashed. Tokens of two issuers never share one. The NUL keeps a token without a jti from having the id of one whose
// jti is its text.
func issuedID(t *oidc.IDToken, claims map[string]any, token string) string {
	name, _ := claims["jti"].(string)
	if name == "" {
		name = "\x00" + token
	}
	sum := sha256.Sum256([]byte(t.Issuer + "\x00" + name))
	return "oidc-" + hex.EncodeToString(sum[:16])
}

// inTime checks the beginning of a token's life, which go-oidc leaves to its caller, and its age.
func (o *OIDC) inTime(t *oidc.IDToken) error {
	now := o.cfg.Now()
	switch {
	case t.IssuedAt.IsZero() || t.IssuedAt.After(now.Add(leeway)):
		return ErrTokenInvalid
	case now.Sub(t.IssuedAt) > MaxIssuedLife:
		return ErrTokenExpired
	}
	return nil
}

// claimsOf are the claims of a verified token.
func claimsOf(t *oidc.IDToken) (map[string]any, error) {
	var claims map[string]any
	if err := t.Claims(&claims); err != nil {
		return nil, ErrTokenInvalid
	}
	return claims, nil
}

// tokenError makes one of ours of go-oidc's. Its text may quote the token's claims and stays here.
func tokenError(err error) error {
	var expired *oidc.TokenExpiredError
	switch {
	case errors.Is(err, ErrIssuer):
		return ErrIssuer
	case errors.As(err, &expired):
		return ErrTokenExpired
	}
	return ErrTokenInvalid
}

// Begin is a sign-in that a browser begins: where to send it, and what its cookie keeps meanwhile. Nothing is kept on
// the server, so any replica can finish what another began.
func (o *OIDC) Begin(ctx context.Context, redirect string) (to string, s SignIn, err error) {
	ctx, cancel := context.WithTimeout(ctx, issuerTime)
	defer cancel()
	p, _, err := o.issuer.discover(ctx)
	if err != nil {
		return "", SignIn{}, err
	}
	s = newSignIn()
	return o.oauth(p, redirect).AuthCodeURL(s.State, oidc.Nonce(s.Nonce), oauth2.S256ChallengeOption(s.Verifier)), s, nil
}

// oauth is the client's configuration for one redirect address, which depends on the host that the
// browser used.
func (o *OIDC) oauth(p *oidc.Provider, redirect string) *oauth2.Config {
	return &oauth2.Config{
		ClientID: o.cfg.ClientID, ClientSecret: string(o.cfg.ClientSecret), Endpoint: p.Endpoint(),
		RedirectURL: redirect, Scopes: append([]string{oidc.ScopeOpenID}, o.cfg.Scopes...),
	}
}

// Finish takes the parameters of the issuer's redirect and returns who has signed in and until when.
// State ties the callback to this browser, the nonce ties the ID token to this sign-in, and the PKCE
// verifier ties the code to both. Each of them is checked even though one would stop most attacks:
// they stop different ones (CSRF, token injection, code injection).
func (o *OIDC) Finish(ctx context.Context, redirect string, s SignIn, query url.Values) (store.Principal, time.Time, error) {
	none := store.Principal{}
	switch iss := query.Get("iss"); {
	case s.State == "" || !equal(s.State, query.Get("state")):
		return none, time.Time{}, ErrSignInState
	case iss != "" && iss != o.cfg.Issuer: // RFC 9207: the code of another issuer must not go to this one
		return none, time.Time{}, ErrSignInState
	case query.Get("error") != "":
		return none, time.Time{}, ErrSignInDenied
	case query.Get("code") == "" || len(query.Get("code")) > stateBytes:
		return none, time.Time{}, ErrSignInState
	}
	ctx, cancel := context.WithTimeout(ctx, issuerTime)
	defer cancel()
	p, _, err := o.issuer.discover(ctx)
	if err != nil {
		return none, time.Time{}, err
	}
	tokens, err := o.oauth(p, redirect).Exchange(o.issuer.calling(ctx), query.Get("code"), oauth2.VerifierOption(s.Verifier))
	var refused *oauth2.RetrieveError
	switch {
	case errors.As(err, &refused) && refused.ErrorCode == "invalid_grant":
		return none, time.Time{}, ErrSignInDenied // a code that is used up, too old, or of another sign-in
	case err != nil:
		return none, time.Time{}, fmt.Errorf("%w: %s", ErrIssuer, exchangeFault(refused))
	}
	raw, _ := tokens.Extra("id_token").(string)
	got, err := o.verify(ctx, o.cfg.ClientID, raw)
	if err != nil {
		return none, time.Time{}, err
	}
	if !equal(got.Nonce, s.Nonce) {
		return none, time.Time{}, ErrSignInState
	}
	claims, err := o.person(ctx, p, got, tokens)
	if err != nil {
		return none, time.Time{}, err
	}
	who, err := o.cfg.Mapping.principal(claims)
	return who, o.sessionEnd(got), err
}

// exchangeFault is the issuer's own error code, which holds no secret; its description may.
func exchangeFault(refused *oauth2.RetrieveError) string {
	if refused == nil {
		return "the code could not be exchanged"
	}
	return "the code could not be exchanged: " + strings.ToValidUTF8(refused.ErrorCode, "?")
}

// sessionEnd is when a browser session opened now ends at the latest. It is never later than MaxIssuedLife from now:
// a person who was removed at the issuer is out after that time.
func (o *OIDC) sessionEnd(t *oidc.IDToken) time.Time {
	now := o.cfg.Now()
	if o.cfg.SessionLife > 0 {
		return now.Add(o.cfg.SessionLife)
	}
	if latest := now.Add(MaxIssuedLife); latest.Before(t.Expiry) {
		return latest
	}
	return t.Expiry
}

// person is the ID token's claims, and those that the mapping needs of the userinfo endpoint: many
// issuers give groups there alone.
func (o *OIDC) person(ctx context.Context, p *oidc.Provider, t *oidc.IDToken, tokens *oauth2.Token) (map[string]any, error) {
	claims, err := claimsOf(t)
	if err != nil || p.UserInfoEndpoint() == "" || o.cfg.Mapping.satisfied(claims) {
		return claims, err
	}
	info, err := p.UserInfo(o.issuer.calling(ctx), oauth2.StaticTokenSource(tokens))
	if err != nil {
		return nil, fmt.Errorf("%w: userinfo", ErrIssuer)
	}
	if info.Subject != t.Subject { // OpenID Connect Core 5.3.2: it may be another user's otherwise
		return nil, ErrTokenInvalid
	}
	var more map[string]any
	if err := info.Claims(&more); err != nil {
		return nil, ErrTokenInvalid
	}
	if email, is := claims["email"]; is && email != more["email"] {
		delete(more, "email_verified") // of another address than the ID token's
	}
	for name, value := range more {
		if _, is := claims[name]; !is {
			claims[name] = value
		}
	}
	return claims, nil
}

// EndSession is where a browser goes to be signed out at the issuer as well, and comes back from; "" when the issuer
// has no such address or cannot be asked. A failure only means that the person stays signed in at the issuer; the
// session here has ended already.
func (o *OIDC) EndSession(ctx context.Context, back string) string {
	ctx, cancel := context.WithTimeout(ctx, issuerTime)
	defer cancel()
	_, found, err := o.issuer.discover(ctx)
	if err != nil || found.EndSession == "" {
		return ""
	}
	u, err := url.Parse(found.EndSession)
	if err != nil {
		return ""
	}
	q := u.Query()
	q.Set("client_id", o.cfg.ClientID)
	q.Set("post_logout_redirect_uri", back)
	u.RawQuery = q.Encode()
	return u.String()
}
