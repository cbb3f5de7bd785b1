package server

import (
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"

	"aqueduct/bridge"
	"aqueduct/server/auth"
	"aqueduct/store"
)

// tokens is /api/tokens: what was issued to a user or a tenant, and its end.
type tokens struct {
	auth *auth.Auth
	life time.Duration
	in   *intake
}

func newTokens(cfg Config, in *intake) *tokens {
	h := &tokens{auth: cfg.Auth, life: cfg.TokenLife, in: in}
	if h.life == 0 {
		h.life = auth.MaxTokenLife
	}
	return h
}

func (h *tokens) mount(to *routes) {
	to.deciders(http.MethodGet, "/api/tokens", h.list)
	to.callers(http.MethodPost, "/api/tokens", h.issue)
	to.deciders(http.MethodDelete, "/api/tokens", h.revokeAll)
	to.deciders(http.MethodDelete, "/api/tokens/:jti", h.revoke)
}

// tokenJSON is a credential as it is listed. No secret is kept, so none is in it.
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

func tokenOut(c store.Credential, shown string) tokenJSON {
	return tokenJSON{
		ID: c.ID, Kind: string(c.Kind), User: c.User, Name: c.Name, Roles: c.Roles, OpenedBy: c.Parent, Current: c.ID == shown, CreatedBy: c.CreatedBy,
		CreatedAt: moment(c.CreatedAt), ExpiresAt: moment(c.ExpiresAt), LastUsedAt: moment(c.LastUsedAt), RevokedAt: moment(c.RevokedAt), RevokedBy: c.RevokedBy,
	}
}

type tokenQuery struct {
	User         string `query:"user" validate:"max=128"`
	Kind         string `query:"kind" validate:"omitempty,oneof=user approver channel acp_proxy operator session api_key oidc"`
	All          bool   `query:"all"`          // those that are revoked or have expired too
	Installation bool   `query:"installation"` // those of no tenant, for operators
	Limit        int    `query:"limit" validate:"gte=0,lte=1000"`
	After        string `query:"after" validate:"max=128"`
}

func (h *tokens) list(c echo.Context) error {
	if h.auth.Registry() == nil {
		return store.ErrNotFound
	}
	var q tokenQuery
	if err := h.in.query(c, &q); err != nil {
		return err
	}
	filter := store.CredentialFilter{User: q.User, Kind: store.CredentialKind(q.Kind), Page: store.Page{Limit: q.Limit, After: q.After}}
	if !q.All {
		filter.Current = time.Now()
	}
	ctx := c.Request().Context()
	caller := auth.From(ctx)
	rows, err := h.auth.Registry().List(ctx, caller, filter, q.Installation)
	if err != nil {
		return err
	}
	out := struct {
		Tokens []tokenJSON `json:"tokens"`
		Next   string      `json:"next,omitempty"`
	}{Tokens: make([]tokenJSON, 0, len(rows))}
	for _, row := range rows {
		out.Tokens = append(out.Tokens, tokenOut(row, caller.Credential.ID))
	}
	if len(rows) == filter.Size() {
		out.Next = rows[len(rows)-1].ID
	}
	return c.JSON(http.StatusOK, out)
}

// issueBody asks for a token of the Caller's tenant.
type issueBody struct {
	Type       string   `json:"type" validate:"required,oneof=user approver channel"`
	User       string   `json:"user" validate:"max=128"`
	Channel    string   `json:"channel" validate:"max=128"`
	Roles      []string `json:"roles" validate:"max=32,dive,max=128"`
	TTLSeconds int64    `json:"ttl_seconds" validate:"gte=0,lte=31536000"`
}

// defaultTokenLife is how long a token lives for which nobody says how long.
const defaultTokenLife = 30 * 24 * time.Hour

func (h *tokens) issue(c echo.Context) error {
	var body issueBody
	if err := h.in.json(c, &body); err != nil {
		return err
	}
	ctx := c.Request().Context()
	caller := auth.From(ctx)
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
		return refuse(codeInvalidBody, "The token cannot be issued: "+err.Error()+".")
	}
	kept := store.Credential{
		ID: issued.ID, Kind: store.CredentialKind(claims.Type), Tenant: claims.Tenant, User: claims.User, Name: claims.ChannelID, Roles: claims.Roles,
		CreatedAt: time.Now(), ExpiresAt: issued.Until,
	}
	if err := h.auth.Registry().Keep(ctx, caller, kept); err != nil {
		return err
	}
	kept.CreatedBy = caller.Principal.User
	c.Response().Header().Set("Cache-Control", "no-store")
	return c.JSON(http.StatusCreated, struct {
		Token string `json:"token"`
		tokenJSON
	}{issued.Token, tokenOut(kept, "")})
}

// claims are those of the token that is asked for. It is no wider than the Caller: its tenant is the
// Caller's, and each of its roles, those that its type implies included, is one of the Caller's.
func (b issueBody) claims(caller auth.Caller) (auth.Claims, error) {
	claims := auth.Claims{Type: auth.Type(b.Type), Tenant: caller.Principal.Tenant}
	implied := b.Roles
	switch claims.Type {
	case auth.TypeChannel:
		// It speaks for every user of the tenant, which is more than any role.
		claims.ChannelID, implied = b.Channel, []string{auth.RoleAdmin, auth.RoleUser}
	case auth.TypeApprover:
		claims.UserClaims, implied = auth.UserClaims{User: b.User, Roles: b.Roles}, append(implied[:len(implied):len(implied)], auth.RoleApprover)
	default:
		claims.UserClaims = auth.UserClaims{User: b.User, Roles: b.Roles}
		if !containsOperator(b.Roles) {
			implied = auth.PersonRoles(b.Roles)
		}
	}
	for name, ids := range map[string][]string{"user": {b.User}, "channel": {b.Channel}, "roles": b.Roles} {
		for _, id := range ids {
			if (id != "" || name == "roles") && !bridge.ValidName(id) {
				return claims, refuse(codeInvalidBody, "At /"+name+": must be letters, digits and . _ : - only.")
			}
		}
	}
	if claims.Type == auth.TypeChannel && (b.User != "" || len(b.Roles) > 0) || claims.Type != auth.TypeChannel && b.Channel != "" {
		return claims, refuse(codeInvalidBody, "A token of a channel has a channel; any other has a user, and may have roles.")
	}
	return claims, asWider(auth.Narrower(caller, implied))
}

func containsOperator(roles []string) bool {
	for _, r := range roles {
		if r == auth.RoleOperator {
			return true
		}
	}
	return false
}

// asWider is the refusal of what would be wider than its creator.
func asWider(err error) error {
	if errors.Is(err, auth.ErrWiderThanOwn) {
		return refuse(codeWider, "")
	}
	return err
}

func (h *tokens) revoke(c echo.Context) error {
	id, err := pathID(c, "jti")
	if err != nil {
		return err
	}
	if h.auth.Registry() == nil {
		return store.ErrNotFound
	}
	ctx := c.Request().Context()
	if err := h.auth.Registry().Revoke(ctx, auth.From(ctx), id); err != nil {
		return err
	}
	return c.NoContent(http.StatusNoContent)
}

// revokeAll is DELETE /api/tokens?user=…: every token, session and API key of one user.
func (h *tokens) revokeAll(c echo.Context) error {
	var q struct {
		User string `query:"user" validate:"required,max=128"`
	}
	if err := h.in.query(c, &q); err != nil {
		return err
	}
	if h.auth.Registry() == nil {
		return store.ErrNotFound
	}
	ctx := c.Request().Context()
	n, err := h.auth.Registry().RevokeAll(ctx, auth.From(ctx), q.User)
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, map[string]int64{"revoked": n})
}

// serviceAccounts is /api/service_accounts: programs of a tenant, each with an API key.
type serviceAccounts struct {
	registry *auth.Registry
	in       *intake
}

func (h *serviceAccounts) mount(to *routes) {
	to.callers(http.MethodGet, "/api/service_accounts", h.list)
	to.callers(http.MethodPost, "/api/service_accounts", h.create)
	to.callers(http.MethodDelete, "/api/service_accounts/:id", h.revoke)
}

type serviceAccountJSON struct {
	ID         string     `json:"id"`
	Name       string     `json:"name"`
	User       string     `json:"user"` // whose threads are its own
	Roles      []string   `json:"roles"`
	CreatedBy  string     `json:"created_by,omitempty"`
	CreatedAt  *time.Time `json:"created_at,omitempty"`
	ExpiresAt  *time.Time `json:"expires_at,omitempty"`
	LastUsedAt *time.Time `json:"last_used_at,omitempty"`
	RevokedAt  *time.Time `json:"revoked_at,omitempty"`
}

func serviceAccountOut(c store.Credential) serviceAccountJSON {
	return serviceAccountJSON{
		ID: c.ID, Name: c.Name, User: c.User, Roles: c.Roles, CreatedBy: c.CreatedBy, CreatedAt: moment(c.CreatedAt), ExpiresAt: moment(c.ExpiresAt),
		LastUsedAt: moment(c.LastUsedAt), RevokedAt: moment(c.RevokedAt),
	}
}

func (h *serviceAccounts) list(c echo.Context) error {
	if h.registry == nil {
		return store.ErrNotFound
	}
	var q struct {
		All   bool   `query:"all"`
		Limit int    `query:"limit" validate:"gte=0,lte=1000"`
		After string `query:"after" validate:"max=128"`
	}
	if err := h.in.query(c, &q); err != nil {
		return err
	}
	filter := store.CredentialFilter{Kind: store.CredentialAPIKey, Page: store.Page{Limit: q.Limit, After: q.After}}
	if !q.All {
		filter.Current = time.Now()
	}
	ctx := c.Request().Context()
	rows, err := h.registry.List(ctx, auth.From(ctx), filter, false)
	if err != nil {
		return err
	}
	out := struct {
		Accounts []serviceAccountJSON `json:"service_accounts"`
		Next     string               `json:"next,omitempty"`
	}{Accounts: make([]serviceAccountJSON, 0, len(rows))}
	for _, row := range rows {
		out.Accounts = append(out.Accounts, serviceAccountOut(row))
	}
	if len(rows) == filter.Size() {
		out.Next = rows[len(rows)-1].ID
	}
	return c.JSON(http.StatusOK, out)
}

type serviceAccountBody struct {
	Name       string   `json:"name" validate:"required,max=100"`
	Roles      []string `json:"roles" validate:"required,min=1,max=32,dive,max=128"`
	TTLSeconds int64    `json:"ttl_seconds" validate:"gte=0,lte=315360000"` // 0: until it is revoked
}

func (h *serviceAccounts) create(c echo.Context) error {
	if h.registry == nil {
		return store.ErrNotFound
	}
	var body serviceAccountBody
	if err := h.in.json(c, &body); err != nil {
		return err
	}
	for i, role := range body.Roles {
		if !bridge.ValidName(role) {
			return refuse(codeInvalidBody, "At /roles/"+strconv.Itoa(i)+": must be letters, digits and . _ : - only.")
		}
	}
	if !bridge.ValidName(body.Name) {
		return refuse(codeInvalidBody, "At /name: must be letters, digits and . _ : - only.")
	}
	account := auth.ServiceAccount{Name: body.Name, Roles: body.Roles}
	if body.TTLSeconds > 0 {
		account.Until = time.Now().Add(time.Duration(body.TTLSeconds) * time.Second).Truncate(time.Millisecond)
	}
	ctx := c.Request().Context()
	kept, key, err := h.registry.CreateKey(ctx, auth.From(ctx), account)
	if err != nil {
		return asWider(err)
	}
	c.Response().Header().Set("Cache-Control", "no-store")
	return c.JSON(http.StatusCreated, struct {
		Key string `json:"key"`
		serviceAccountJSON
	}{string(key), serviceAccountOut(kept)})
}

func (h *serviceAccounts) revoke(c echo.Context) error {
	id, err := pathID(c, "id")
	if err != nil {
		return err
	}
	if h.registry == nil {
		return store.ErrNotFound
	}
	ctx := c.Request().Context()
	if err := h.registry.Revoke(ctx, auth.From(ctx), id); err != nil {
		return err
	}
	return c.NoContent(http.StatusNoContent)
}
