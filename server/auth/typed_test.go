package auth_test

import (
	"crypto/tls"
	"errors"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"aqueduct/internal/bubbletest"
	"aqueduct/server/auth"
	"aqueduct/store"
)

// claims of a good token of each type.
func claims() map[auth.Type]auth.Claims {
	return map[auth.Type]auth.Claims{
		auth.TypeUser:     {Type: auth.TypeUser, Tenant: "acme", UserClaims: auth.UserClaims{User: "ada", Roles: []string{"dev"}}},
		auth.TypeApprover: {Type: auth.TypeApprover, Tenant: "acme", UserClaims: auth.UserClaims{User: "bea"}},
		auth.TypeMCP:      {Type: auth.TypeMCP, Tenant: "acme", UserClaims: auth.UserClaims{User: "ada"}},
		auth.TypeChannel:  {Type: auth.TypeChannel, Tenant: "acme", ChannelClaims: auth.ChannelClaims{ChannelID: "im"}},
		auth.TypeACPProxy: {Type: auth.TypeACPProxy, ProxyClaims: auth.ProxyClaims{ProxyID: "p1"}},
	}
}

func issued(t *testing.T, of auth.Type) string {
	t.Helper()
	token, err := keys(t).Issue(claims()[of], time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func bearer(token string) []string { return []string{"Authorization", "Bearer " + token} }

// TestEveryTypeOpensItsOwnDoorOnly: each token at each door.
func TestEveryTypeOpensItsOwnDoorOnly(t *testing.T) {
	t.Parallel()
	k := keys(t)
	for has := range claims() {
		token := issued(t, has)
		for wanted := range claims() {
			_, err := k.Verify(token, wanted)
			if has == wanted && err != nil || has != wanted && !errors.Is(err, auth.ErrTokenType) {
				t.Errorf("a token of type %s where %s is wanted: %v", has, wanted, err)
			}
		}
		if _, err := k.Verify(token); !errors.Is(err, auth.ErrTokenType) {
			t.Errorf("%s where nothing is wanted: %v", has, err)
		}
		if _, err := k.Proxy(from("127.0.0.1", bearer(token)...)); (err == nil) != (has == auth.TypeACPProxy) {
			t.Errorf("%s as a proxy: %v", has, err)
		}
	}
	if _, err := k.Verify(issued(t, auth.TypeUser), auth.TypeApprover, auth.TypeUser); err != nil {
		t.Errorf("one of two that are wanted: %v", err)
	}
}

// TestCallerOfTypedTokens: who a request's Caller is, with every way to configure it.
func TestCallerOfTypedTokens(t *testing.T) {
	t.Parallel()
	both, typed := static(t).WithKeys(keys(t)), auth.Typed(keys(t))
	user, approver, channel, proxy := issued(t, auth.TypeUser), issued(t, auth.TypeApprover), issued(t, auth.TypeChannel), issued(t, auth.TypeACPProxy)
	client := issued(t, auth.TypeMCP)
	foreign, err := auth.NewKeys(auth.Secret(strings.Repeat("k", 32)))
	if err != nil {
		t.Fatal(err)
	}
	forged, err := foreign.Issue(claims()[auth.TypeUser], time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	inbox := []auth.Kind{auth.KindApprover}
	for name, c := range map[string]struct {
		auth  *auth.Auth
		token string
		also  []auth.Kind
		kind  auth.Kind
		err   error
	}{
		"user":                         {both, user, nil, auth.KindUser, nil},
		"user, no static token":        {typed, user, nil, auth.KindUser, nil},
		"user where approvers may too": {both, user, inbox, auth.KindUser, nil},
		"static beside keys":           {both, token, nil, auth.KindStatic, nil},
		"static where approvers may":   {both, token, inbox, auth.KindStatic, nil},
		"approver in the inbox":        {both, approver, inbox, auth.KindApprover, nil},
		"approver in a chat":           {both, approver, nil, "", auth.ErrTokenType},
		"MCP client in a chat":         {both, client, nil, "", auth.ErrTokenType},
		"MCP client in the inbox":      {both, client, inbox, "", auth.ErrTokenType},
		"MCP client where it may":      {both, client, []auth.Kind{auth.KindMCP}, auth.KindMCP, nil},
		"channel in a chat":            {both, channel, nil, "", auth.ErrTokenType},
		"channel in the inbox":         {both, channel, inbox, "", auth.ErrTokenType},
		"channel where channels may":   {both, channel, []auth.Kind{auth.KindChannel}, auth.KindChannel, nil},
		"proxy in a chat":              {both, proxy, nil, "", auth.ErrTokenType},
		"proxy everywhere":             {both, proxy, []auth.Kind{auth.KindApprover, auth.KindChannel, "acp_proxy"}, "", auth.ErrTokenType},
		"of other keys":                {both, forged, nil, "", auth.ErrTokenInvalid},
		"user without keys":            {static(t), user, nil, "", auth.ErrTokenInvalid},
		"static without static":        {typed, token, nil, "", auth.ErrTokenInvalid},
		"nothing, no static token":     {typed, "", nil, "", auth.ErrBadCredential},
	} {
		got, err := c.auth.Caller(from("192.0.2.1", bearer(c.token)...), c.also...)
		if !errors.Is(err, c.err) || got.Kind != c.kind {
			t.Errorf("%s: %+v %v", name, got, err)
		}
		if err != nil && (got.Scope() != store.As(store.Principal{}) || len(got.Principal.Roles) > 0) {
			t.Errorf("%s: refused, but is somebody: %+v", name, got)
		}
	}
	for name, r := range map[string]*http.Request{
		"in the URL":       from("192.0.2.1"),
		"basic":            from("192.0.2.1", "Authorization", "Basic "+user),
		"twice":            from("192.0.2.1", append(bearer(user), bearer(user)...)...),
		"as a cookie":      from("192.0.2.1", "Cookie", "aqueduct_session="+user),
		"an empty cookie":  from("192.0.2.1", "Cookie", "aqueduct_session="),
		"approver, cookie": from("192.0.2.1", "Cookie", "aqueduct_session="+approver),
	} {
		r.URL.RawQuery = "token=" + user + "&access_token=" + user
		for _, a := range []*auth.Auth{both, typed} {
			if got, err := a.Caller(r, auth.KindApprover, auth.KindChannel); err == nil || got.Kind != "" {
				t.Errorf("%s: %+v", name, got)
			}
		}
	}
}

// TestProxyTokenWhereNoneIsNeeded: it opens its own door only, also where others stand open.
func TestProxyTokenWhereNoneIsNeeded(t *testing.T) {
	t.Parallel()
	for of := range claims() {
		r := from("127.0.0.1", bearer(issued(t, of))...)
		if _, err := auth.None().Caller(r); errors.Is(err, auth.ErrTokenType) != (of == auth.TypeACPProxy) {
			t.Errorf("%s: %v", of, err)
		}
	}
}

// TestCallersSayWhoTheyAre: tenant, user, roles and end come from the claims.
func TestCallersSayWhoTheyAre(t *testing.T) {
	t.Parallel()
	a := static(t).WithKeys(keys(t))
	who := func(of auth.Type, kind auth.Kind) auth.Caller {
		t.Helper()
		c, err := a.Accept(t.Context(), auth.Secret(issued(t, of)), kind)
		if err != nil {
			t.Fatal(err)
		}
		if left := time.Until(c.Until); left < 50*time.Minute || left > time.Hour {
			t.Errorf("%s ends in %s", of, left)
		}
		return c
	}
	user := who(auth.TypeUser, auth.KindUser)
	if user.Principal.Tenant != "acme" || user.Principal.User != "ada" || !user.Has("dev") || user.Has(auth.RoleApprover) || user.Has(auth.RoleAdmin) ||
		user.Scope() != store.As(user.Principal) || !reflect.DeepEqual(user.Inbox(), store.Deciding(user.Principal)) {
		t.Errorf("%+v", user)
	}
	approver := who(auth.TypeApprover, auth.KindApprover)
	if approver.Principal.User != "bea" || !approver.Has(auth.RoleApprover) || approver.Has(auth.RoleAdmin) || !reflect.DeepEqual(approver.Inbox(), store.Deciding(approver.Principal)) {
		t.Errorf("%+v", approver)
	}
	channel := who(auth.TypeChannel, auth.KindChannel)
	if channel.ChannelID != "im" || channel.Principal.User != "" || len(channel.Principal.Roles) != 0 {
		t.Errorf("%+v", channel)
	}
	static, err := a.Accept(t.Context(), token, auth.KindStatic)
	if err != nil || !static.Has(auth.RoleAdmin) || !static.Has(auth.RoleApprover) || !static.Until.IsZero() || static.Inbox() != store.Within("local") {
		t.Errorf("%+v %v", static, err)
	}
	open, err := auth.None().Caller(from("127.0.0.1"))
	if err != nil || !open.Has(auth.RoleAdmin) || open.Scope() != store.As(store.LocalPrincipal()) {
		t.Errorf("%+v %v", open, err)
	}
}

// TestOnlyChannelsNameUsers, and never one of ours.
func TestOnlyChannelsNameUsers(t *testing.T) {
	t.Parallel()
	for _, kind := range []auth.Kind{auth.KindNone, auth.KindStatic, auth.KindUser, auth.KindApprover, ""} {
		if p, ok := (auth.Caller{Kind: kind, Principal: store.Principal{Tenant: "acme", User: "eve"}}).For("ada"); ok || p.User != "" {
			t.Errorf("%q names %+v", kind, p)
		}
	}
	channel := auth.Caller{Kind: auth.KindChannel, ChannelID: "im", Principal: store.Principal{Tenant: "acme"}}
	if p, ok := channel.For("ada"); !ok || p.Tenant != "acme" || p.User != "ada" || len(p.Roles) != 0 {
		t.Errorf("%+v", p)
	}
	for _, user := range []string{"", "system", "unknown"} {
		if p, ok := channel.For(user); ok {
			t.Errorf("%q: %+v", user, p)
		}
	}
}

// TestAcceptTakesWhatIsWanted: the way of sockets, whose token comes in a frame.
func TestAcceptTakesWhatIsWanted(t *testing.T) {
	t.Parallel()
	open, both := auth.None().WithKeys(keys(t)), static(t).WithKeys(keys(t))
	channel, user := auth.Secret(issued(t, auth.TypeChannel)), auth.Secret(issued(t, auth.TypeUser))
	for name, c := range map[string]struct {
		auth  *auth.Auth
		token auth.Secret
		kinds []auth.Kind
		want  error
	}{
		"channel":                      {both, channel, []auth.Kind{auth.KindChannel}, nil},
		"channel, nobody needs tokens": {open, channel, []auth.Kind{auth.KindChannel}, nil},
		"user for a channel":           {both, user, []auth.Kind{auth.KindChannel}, auth.ErrTokenType},
		"user for an approver":         {both, user, []auth.Kind{auth.KindApprover}, auth.ErrTokenType},
		"static for a channel":         {both, token, []auth.Kind{auth.KindChannel}, auth.ErrTokenType},
		"static where it may":          {both, token, []auth.Kind{auth.KindChannel, auth.KindStatic}, nil},
		"nothing":                      {both, "", []auth.Kind{auth.KindStatic, auth.KindUser}, auth.ErrNoCredential},
		"nothing, no tokens needed":    {open, "", []auth.Kind{auth.KindNone, auth.KindStatic}, auth.ErrNoCredential},
		"no kinds":                     {both, user, nil, auth.ErrTokenType},
		"KindNone is no token's":       {both, user, []auth.Kind{auth.KindNone}, auth.ErrTokenType},
	} {
		if got, err := c.auth.Accept(t.Context(), c.token, c.kinds...); !errors.Is(err, c.want) || (err == nil) != (got.Kind != "") {
			t.Errorf("%s: %+v %v", name, got, err)
		}
	}
}

// TestSignedSession: the cookie of a user's token holds no token, opens nothing as one, and
// ends with it.
func TestSignedSession(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		a := static(t).WithKeys(keys(t))
		user := issued(t, auth.TypeUser)
		https := from("192.0.2.1")
		https.TLS = &tls.ConnectionState{}
		in, err := a.SignIn(https, auth.Secret(user))
		cookie := in.Cookie
		if err != nil || !cookie.HttpOnly || !cookie.Secure || cookie.SameSite != http.SameSiteStrictMode {
			t.Fatalf("%+v %v", cookie, err)
		}
		if strings.Contains(cookie.Value, user) || cookie.Value == user || len(cookie.Value) > 2000 {
			t.Error("the token is in the cookie, or the cookie is too long")
		}
		with := func() *http.Request {
			r := from("192.0.2.1", "Cookie", cookie.Name+"="+cookie.Value)
			r.TLS = &tls.ConnectionState{} // a secure cookie is one of https
			return r
		}
		got, err := a.Caller(with())
		if err != nil || got.Kind != auth.KindUser || got.Principal.User != "ada" || !slices.Equal(got.Principal.Roles, []string{"dev", auth.RoleUser}) {
			t.Errorf("%+v %v", got, err)
		}
		if _, err := a.Caller(from("192.0.2.1", bearer(cookie.Value)...), auth.KindApprover, auth.KindChannel); !errors.Is(err, auth.ErrTokenType) {
			t.Errorf("a session as a token: %v", err)
		}
		if _, err := a.SignIn(from("192.0.2.1"), auth.Secret(cookie.Value)); !errors.Is(err, auth.ErrBadCredential) {
			t.Errorf("a session of a session: %v", err)
		}
		if _, err := static(t).Caller(with()); !errors.Is(err, auth.ErrBadCredential) {
			t.Errorf("without keys: %v", err)
		}
		time.Sleep(time.Hour + time.Minute)
		if _, err := a.Caller(with()); !errors.Is(err, auth.ErrTokenExpired) {
			t.Errorf("it outlives its token: %v", err)
		}
	})
}

// TestApproversSession opens what its token does, and nothing more.
func TestApproversSession(t *testing.T) {
	t.Parallel()
	a := auth.Typed(keys(t))
	in, err := a.SignIn(from("192.0.2.1"), auth.Secret(issued(t, auth.TypeApprover)))
	if err != nil {
		t.Fatal(err)
	}
	r := from("192.0.2.1", "Cookie", in.Cookie.Name+"="+in.Cookie.Value, auth.PageHeader, string(in.Page))
	if got, err := a.Caller(r, auth.KindApprover); err != nil || got.Kind != auth.KindApprover || !got.Has(auth.RoleApprover) {
		t.Errorf("%+v %v", got, err)
	}
	if _, err := a.Caller(r); !errors.Is(err, auth.ErrTokenType) {
		t.Errorf("in a chat: %v", err)
	}
	for _, of := range []auth.Type{auth.TypeChannel, auth.TypeACPProxy} {
		if _, err := a.SignIn(from("192.0.2.1"), auth.Secret(issued(t, of))); !errors.Is(err, auth.ErrTokenType) {
			t.Errorf("%s signs in: %v", of, err)
		}
	}
	if _, err := a.SignIn(from("192.0.2.1"), ""); !errors.Is(err, auth.ErrBadCredential) {
		t.Errorf("nobody signs in: %v", err)
	}
}

// TestTypedTokensThatAreRefused: signed with our key, but not what it makes.
func TestTypedTokensThatAreRefused(t *testing.T) {
	t.Parallel()
	a := auth.Typed(keys(t))
	for name, spoil := range map[string]func(jwt.MapClaims){
		"no tenant":              func(c jwt.MapClaims) { delete(c, "tenant") },
		"no user":                func(c jwt.MapClaims) { delete(c, "user") },
		"the user system":        func(c jwt.MapClaims) { c["user"] = "system" },
		"a proxy's id":           func(c jwt.MapClaims) { c["proxyId"] = "p1" },
		"a channel's id":         func(c jwt.MapClaims) { c["channel"] = "im" },
		"made for another":       func(c jwt.MapClaims) { c["for"] = "user" },
		"roles are no list":      func(c jwt.MapClaims) { c["roles"] = "admin" },
		"the type alone":         func(c jwt.MapClaims) { c["type"] = "approver" },
		"the audience alone":     func(c jwt.MapClaims) { c["aud"] = "aqueduct/inbox" },
		"another's audience too": func(c jwt.MapClaims) { c["aud"] = []string{"aqueduct/inbox"} },
		"no audience":            func(c jwt.MapClaims) { delete(c, "aud") },
		"expired":                func(c jwt.MapClaims) { c["exp"] = time.Now().Add(-time.Minute).Unix() },
		"no end":                 func(c jwt.MapClaims) { delete(c, "exp") },
		"a session":              func(c jwt.MapClaims) { c["type"], c["aud"], c["for"] = "session", "aqueduct/browser", "user" },
		"a run's":                func(c jwt.MapClaims) { c["type"], c["aud"] = "run", "" },
	} {
		c := jwt.MapClaims{"type": "user", "tenant": "acme", "user": "ada", "iss": "aqueduct", "aud": "aqueduct/api", "exp": time.Now().Add(time.Hour).Unix()}
		if _, err := a.Caller(from("::1", bearer(signed(t, jwt.SigningMethodHS256, []byte(signingKey), c))...)); err != nil {
			t.Fatal(err)
		}
		spoil(c)
		got, err := a.Caller(from("::1", bearer(signed(t, jwt.SigningMethodHS256, []byte(signingKey), c))...), auth.KindApprover, auth.KindChannel)
		if !errors.Is(err, auth.ErrBadCredential) || got.Kind != "" {
			t.Errorf("%s: %+v %v", name, got, err)
		}
	}
}

// TestLateKeys are read when a token comes that has the form of one, and not before.
func TestLateKeys(t *testing.T) {
	t.Parallel()
	lost := errors.New("no such file")
	reads := 0
	a := static(t).WithLateKeys(func() (*auth.Keys, error) { reads++; return nil, lost })
	for _, other := range []string{token, "something", "a.b"} {
		_, _ = a.Caller(from("::1", bearer(other)...))
	}
	if reads != 0 {
		t.Errorf("read %d times for nothing", reads)
	}
	if _, err := a.Caller(from("::1", bearer(issued(t, auth.TypeUser))...)); !errors.Is(err, lost) || errors.Is(err, auth.ErrBadCredential) {
		t.Errorf("%v", err)
	}
}
