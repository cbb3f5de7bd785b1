// Credentials over HTTP: tokens of people and channels, sessions, and the API keys of service accounts. The registry
// (server/auth) has the rules of who may see and end which; without a registry nothing is kept and every route here
// is not found.

package server

import (
	"errors"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"

	"aqueduct/internal/ids"
	"aqueduct/server/answer"
	"aqueduct/server/auth"
	"aqueduct/server/decode"
	"aqueduct/server/problem"
	"aqueduct/server/route"
	"aqueduct/store"
)

// tokens is /api/tokens: what was issued to a user or a tenant, and its end. It keeps nothing between requests.
type tokens struct {
	auth *auth.Auth
	// life is the longest that a token may be asked for.
	life time.Duration
	in   *decode.Decoder
}

// newTokens makes the resource; the longest life of a token is the server's setting, or else the one of auth.
func newTokens(cfg Config, in *decode.Decoder) *tokens {
	h := &tokens{auth: cfg.Auth, life: cfg.TokenLife, in: in}
	if h.life == 0 {
		h.life = auth.MaxTokenLife
	}
	return h
}

// Mount adds the routes. Making tokens is for administrators; everybody may list and end their own.
func (h *tokens) Mount(to *route.Routes) {
	to.Deciders(http.MethodGet, "/api/tokens", h.list)
	to.Callers(http.MethodPost, "/api/tokens", withBody(h.in, h.issue))
	to.Deciders(http.MethodDelete, "/api/tokens", h.revokeAll)
	to.Deciders(http.MethodDelete, "/api/tokens/:jti", withID("jti", h.revoke))
}

// tokenJSON is a credential as it is listed. No secret is kept, so none is in it. jti is the id that is in the token
// itself, and what DELETE takes.
type tokenJSON struct {
	ID         string     `json:"jti"`
	Kind       string     `json:"kind"`
	User       string     `json:"user,omitempty"`
	Name       string     `json:"name,omitempty"`
	Roles      []string   `json:"roles,omitempty"`
	OpenedBy   string     `json:"opened_by,omitempty"` // of a session: the jti of the token
	Current    bool       `json:"current,omitempty"`   // it is what this request showed
	CreatedBy  string     `json:"created_by,omitempty"`
	CreatedAt  *time.Time `json:"created_at,omitempty"`
	ExpiresAt  *time.Time `json:"expires_at,omitempty"`
	LastUsedAt *time.Time `json:"last_used_at,omitempty"`
	RevokedAt  *time.Time `json:"revoked_at,omitempty"`
	RevokedBy  string     `json:"revoked_by,omitempty"`
}

// tokenOut is the JSON of a Credential; shown is the id of the one that the request came with. current marks the
// credential of this very request, so that a page can warn before a person ends their own session.
func tokenOut(c store.Credential, shown string) tokenJSON {
	return tokenJSON{
		ID: c.ID, Kind: string(c.Kind), User: c.User, Name: c.Name, Roles: c.Roles, OpenedBy: c.Parent, Current: c.ID == shown, CreatedBy: c.CreatedBy,
		CreatedAt: answer.TimeOrNil(c.CreatedAt), ExpiresAt: answer.TimeOrNil(c.ExpiresAt), LastUsedAt: answer.TimeOrNil(c.LastUsedAt), RevokedAt: answer.TimeOrNil(c.RevokedAt), RevokedBy: c.RevokedBy,
	}
}

// credentialID is the position of a credential in a list.
func credentialID(c store.Credential) string { return c.ID }

// tokenQuery selects what is listed. Tenant and Installation are for operators.
type tokenQuery struct {
	User         string `query:"user" validate:"max=128"`
	Kind         string `query:"kind" validate:"omitempty,oneof=user approver mcp channel acp_proxy acp_bootstrap operator session api_key oidc"`
	All          bool   `query:"all"`                                                  // those that are revoked or have expired too
	Tenant       string `query:"tenant" validate:"max=128,excluded_with=Installation"` // another one, for operators
	Installation bool   `query:"installation"`                                         // those of no tenant, for operators
	Limit        int    `query:"limit" validate:"gte=0,lte=1000"`
	After        string `query:"after" validate:"max=128"`
}

// list gives what the registry lets the caller see; by default only what is still good. The registry narrows the list
// to what the caller may see; tenant and installation are refused to all but operators there.
func (h *tokens) list(c echo.Context) error {
	if h.auth.Registry() == nil {
		return store.ErrNotFound
	}
	var q tokenQuery
	if err := h.in.Query(c, &q); err != nil {
		return err
	}
	filter := store.CredentialFilter{User: q.User, Kind: store.CredentialKind(q.Kind), Page: store.Page{Limit: q.Limit, After: q.After}}
	if !q.All {
		filter.Current = time.Now()
	}
	ctx, caller := callerOf(c)
	rows, err := h.auth.Registry().List(ctx, caller, filter, auth.Elsewhere{Tenant: q.Tenant, Installation: q.Installation})
	out := func(row store.Credential) tokenJSON { return tokenOut(row, caller.Credential.ID) }
	return reply(c, http.StatusOK, struct {
		Tokens []tokenJSON `json:"tokens"`
		Next   string      `json:"next,omitempty"`
	}{eachOut(rows, out), nextOf(rows, filter.Size(), credentialID)}, err)
}

// issueBody asks for a token of the Caller's tenant. A channel's token names its channel and no user: the channel
// names in each message the user for whom it speaks.
type issueBody struct {
	Type       string   `json:"type" validate:"required,oneof=user approver mcp channel"`
	User       string   `json:"user" validate:"max=128"`
	Channel    string   `json:"channel" validate:"max=128"`
	Roles      []string `json:"roles" validate:"max=32,dive,max=128"`
	TTLSeconds int64    `json:"ttl_seconds" validate:"gte=0,lte=31536000"`
}

// defaultTokenLife is the life of a token whose request names none. A longer one has to be asked for, within the
// server's own limit.
const defaultTokenLife = 30 * 24 * time.Hour

// issue makes a token and returns it once: what is kept is its id, never the token. It is kept before it is returned,
// so that there is no token which a revocation of everything would not find. The checks go from the request to the
// key: form, then rights, then whether this server can sign at all.
func (h *tokens) issue(c echo.Context, body issueBody) error {
	ctx, caller := callerOf(c)
	claims, err := body.claims(caller)
	if err != nil {
		return err
	}
	keys, err := h.auth.Keys()
	if err != nil || h.auth.Registry() == nil {
		return errors.Join(store.ErrNotFound, err)
	}
	ttl := time.Duration(body.TTLSeconds) * time.Second
	if ttl == 0 {
		ttl = min(defaultTokenLife, h.life)
	}
	issued, err := keys.IssueWithin(claims, ttl, h.life)
	if err != nil {
		return problem.Refuse(problem.InvalidBody, "The token cannot be issued: "+err.Error()+".")
	}
	kept := store.Credential{
		ID: issued.ID, Kind: store.CredentialKind(claims.Type), Tenant: claims.Tenant, User: claims.User, Name: claims.ChannelID, Roles: claims.Roles,
		CreatedAt: time.Now(), ExpiresAt: issued.Until,
	}
	if err := h.auth.Registry().Keep(ctx, caller, kept); err != nil {
		return notMade(err)
	}
	// Keep has set it in the row; this is for the answer.
	kept.CreatedBy = caller.Principal.User
	c.Response().Header().Set("Cache-Control", "no-store")
	return c.JSON(http.StatusCreated, struct {
		Token string `json:"token"`
		tokenJSON
	}{issued.Token, tokenOut(kept, "")})
}

// claims are those of the token that is asked for. It is no wider than the Caller: its tenant is the Caller's, and
// each of its roles, those that its type implies included, is one of the Caller's. Without that rule a user could
// make a token of an approver and decide what others have to. A name that is no id is refused, because ids get into
// log lines and into the separated keys of counters.
func (b issueBody) claims(caller auth.Caller) (auth.Claims, error) {
	claims := auth.Claims{Type: auth.Type(b.Type), Tenant: caller.Principal.Tenant}
	implied := b.Roles
	switch claims.Type {
	case auth.TypeChannel:
		// It speaks for every user of the tenant, which is more than any role.
		claims.ChannelID, implied = b.Channel, []string{auth.RoleAdmin, auth.RoleUser}
	case auth.TypeMCP:
		claims.UserClaims, implied = auth.UserClaims{User: b.User}, append(implied[:len(implied):len(implied)], auth.RoleUser)
		if len(b.Roles) > 0 {
			return claims, problem.Refuse(problem.InvalidBody, "At /roles: a token of an MCP client has none.")
		}
	case auth.TypeApprover:
		claims.UserClaims, implied = auth.UserClaims{User: b.User, Roles: b.Roles}, append(implied[:len(implied):len(implied)], auth.RoleApprover)
	// PersonRoles adds the role user where the others imply it, as the token itself will. Roles with operator or mcp among
	// them are judged by Narrower as they are.
	default:
		claims.UserClaims = auth.UserClaims{User: b.User, Roles: b.Roles}
		if !slices.Contains(b.Roles, auth.RoleOperator) && !slices.Contains(b.Roles, auth.RoleMCP) {
			implied = auth.PersonRoles(b.Roles)
		}
	}
	for name, given := range map[string][]string{"user": {b.User}, "channel": {b.Channel}, "roles": b.Roles} {
		for _, id := range given {
			if (id != "" || name == "roles") && !ids.ValidName(id) {
				return claims, problem.Refuse(problem.InvalidBody, "At /"+name+": must be letters, digits and . _ : - only.")
			}
		}
	}
	if claims.Type == auth.TypeChannel && (b.User != "" || len(b.Roles) > 0) || claims.Type != auth.TypeChannel && b.Channel != "" {
		return claims, problem.Refuse(problem.InvalidBody, "A token of a channel has a channel; any other has a user, and may have roles, but of type mcp.")
	}
	return claims, notMade(auth.Narrower(caller, implied))
}

// notMade is the refusal of a credential that its creator may not make, or not by a session. Other errors pass unchanged.
func notMade(err error) error {
	switch {
	case errors.Is(err, auth.ErrWiderThanOwn):
		return problem.Refuse(problem.Wider, "")
	case errors.Is(err, auth.ErrTokenAgain):
		return problem.Refuse(problem.TokenAgain, "")
	}
	return err
}

// revoke ends one token, session or API key by its id. Streams and sockets that it opened end with it, on every
// replica. One that the caller may not see is not found, which does not show whether it exists.
func (h *tokens) revoke(c echo.Context, id string) error {
	if h.auth.Registry() == nil {
		return store.ErrNotFound
	}
	ctx := c.Request().Context()
	return done(c, h.auth.Registry().Revoke(ctx, auth.From(ctx), id))
}

// revokeAll is DELETE /api/tokens?user=…: every token, session and API key of one user. Tokens that were never used
// are not in the registry by themselves; the time of the revocation ends those as well.
func (h *tokens) revokeAll(c echo.Context) error {
	var q struct {
		User   string `query:"user" validate:"required,max=128"`
		Tenant string `query:"tenant" validate:"max=128"` // another one, for operators
	}
	if err := h.in.Query(c, &q); err != nil {
		return err
	}
	if h.auth.Registry() == nil {
		return store.ErrNotFound
	}
	ctx := c.Request().Context()
	n, err := h.auth.Registry().RevokeAll(ctx, auth.From(ctx), q.Tenant, q.User)
	return reply(c, http.StatusOK, map[string]int64{"revoked": n}, err)
}

// serviceAccounts is /api/service_accounts: programs of a tenant, each with an API key. A service account is a
// Credential of its own kind; its key is the only secret that is shown, once.
type serviceAccounts struct {
	registry *auth.Registry
	in       *decode.Decoder
}

// Mount adds the routes, for administrators, and for auditors to read.
func (h *serviceAccounts) Mount(to *route.Routes) {
	to.Callers(http.MethodGet, "/api/service_accounts", h.list)
	to.Callers(http.MethodPost, "/api/service_accounts", h.create)
	to.Callers(http.MethodDelete, "/api/service_accounts/:id", withID("id", h.revoke))
}

// serviceAccountJSON is a service account as it is listed. Of its key nothing but the times is kept in the open.
type serviceAccountJSON struct {
	ID         string     `json:"id"`
	Name       string     `json:"name"`
	User       string     `json:"user"` // whose threads are its own
	Roles      []string   `json:"roles"`
	Scope      string     `json:"scope,omitempty"` // mcp: it calls tools at /mcp and does nothing else
	Agent      string     `json:"agent,omitempty"` // that the key calls models and tools as, and does nothing else
	Owner      string     `json:"owner,omitempty"` // the user who decides its questions
	CreatedBy  string     `json:"created_by,omitempty"`
	CreatedAt  *time.Time `json:"created_at,omitempty"`
	ExpiresAt  *time.Time `json:"expires_at,omitempty"`
	LastUsedAt *time.Time `json:"last_used_at,omitempty"`
	RevokedAt  *time.Time `json:"revoked_at,omitempty"`
}

// serviceAccountOut is the JSON of the Credential that a service account is.
func serviceAccountOut(c store.Credential) serviceAccountJSON {
	scope := ""
	if slices.Equal(c.Roles, []string{auth.RoleMCP}) {
		scope = scopeMCP
	}
	return serviceAccountJSON{
		Scope: scope,
		ID:    c.ID, Name: c.Name, User: c.User, Roles: append([]string{}, c.Roles...), Agent: c.AgentID, Owner: c.Owner, CreatedBy: c.CreatedBy, CreatedAt: answer.TimeOrNil(c.CreatedAt), ExpiresAt: answer.TimeOrNil(c.ExpiresAt),
		LastUsedAt: answer.TimeOrNil(c.LastUsedAt), RevokedAt: answer.TimeOrNil(c.RevokedAt),
	}
}

// list gives the service accounts of the caller's tenant. The key's name is shown, and the hash of its secret is not.
func (h *serviceAccounts) list(c echo.Context) error {
	if h.registry == nil {
		return store.ErrNotFound
	}
	var q struct {
		All   bool   `query:"all"`
		Limit int    `query:"limit" validate:"gte=0,lte=1000"`
		After string `query:"after" validate:"max=128"`
	}
	if err := h.in.Query(c, &q); err != nil {
		return err
	}
	filter := store.CredentialFilter{Kind: store.CredentialAPIKey, Page: store.Page{Limit: q.Limit, After: q.After}}
	if !q.All {
		filter.Current = time.Now()
	}
	ctx := c.Request().Context()
	rows, err := h.registry.List(ctx, auth.From(ctx), filter, auth.Elsewhere{})
	return reply(c, http.StatusOK, struct {
		Accounts []serviceAccountJSON `json:"service_accounts"`
		Next     string               `json:"next,omitempty"`
	}{eachOut(rows, serviceAccountOut), nextOf(rows, filter.Size(), credentialID)}, err)
}

// scopeMCP is the scope of an account that calls tools at /mcp, and decides, answers and mints nothing.
const scopeMCP = "mcp"

// serviceAccountBody names the program, and its roles, the agent it is bound to, or its scope. Without ttl_seconds the key lives until it
// is revoked. The account's roles are at most the creator's.
type serviceAccountBody struct {
	Name       string   `json:"name" validate:"required,max=100"`
	Roles      []string `json:"roles" validate:"required_without_all=Agent Scope,excluded_with=Agent,excluded_with=Scope,max=32,dive,max=128"`
	Agent      string   `json:"agent" validate:"max=128"`
	Scope      string   `json:"scope" validate:"omitempty,oneof=mcp,excluded_with=Agent"`
	Owner      string   `json:"owner" validate:"max=128"`
	TTLSeconds int64    `json:"ttl_seconds" validate:"gte=0,lte=315360000"` // 0: until it is revoked
}

// create makes a service account and returns its key once. The end is cut to milliseconds, which both databases keep.
func (h *serviceAccounts) create(c echo.Context) error {
	if h.registry == nil {
		return store.ErrNotFound
	}
	var body serviceAccountBody
	if err := h.in.JSON(c, &body); err != nil {
		return err
	}
	for i, role := range body.Roles {
		if !ids.ValidName(role) {
			return problem.Refuse(problem.InvalidBody, "At /roles/"+strconv.Itoa(i)+": must be letters, digits and . _ : - only.")
		}
	}
	if !ids.ValidName(body.Name) {
		return problem.Refuse(problem.InvalidBody, "At /name: must be letters, digits and . _ : - only.")
	}
	if body.Agent == "" && body.Scope == "" && (len(body.Roles) == 0 || body.Owner != "") {
		return problem.Refuse(problem.InvalidBody, "An account has either roles, or an agent or the scope mcp and optionally an owner.")
	}
	for at, name := range map[string]string{"agent": body.Agent, "owner": body.Owner} {
		if name != "" && !ids.Valid(name) {
			return problem.Refuse(problem.InvalidBody, "At /"+at+": "+ids.Form)
		}
	}
	account := auth.ServiceAccount{Name: body.Name, Roles: body.Roles, Agent: body.Agent, Owner: body.Owner, MCP: body.Scope == scopeMCP}
	if body.TTLSeconds > 0 {
		account.Until = time.Now().Add(time.Duration(body.TTLSeconds) * time.Second).Truncate(time.Millisecond)
	}
	ctx := c.Request().Context()
	kept, key, err := h.registry.CreateKey(ctx, auth.From(ctx), account)
	if err != nil {
		return notMade(err)
	}
	c.Response().Header().Set("Cache-Control", "no-store")
	return c.JSON(http.StatusCreated, struct {
		Key string `json:"key"`
		serviceAccountJSON
	}{string(key), serviceAccountOut(kept)})
}

// revoke ends a service account and its key.
func (h *serviceAccounts) revoke(c echo.Context, id string) error {
	if h.registry == nil {
		return store.ErrNotFound
	}
	ctx := c.Request().Context()
	return done(c, h.registry.Revoke(ctx, auth.From(ctx), id))
}
