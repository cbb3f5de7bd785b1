// Commands about credentials that ask a running server: list and revoke tokens, manage service accounts, rotate keys.

package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"text/tabwriter"
	"time"

	"aqueduct/server/auth"
)

const (
	// callTime bounds one call of a command. A server that does not answer in that time is reported as away.
	callTime = 30 * time.Second
	// answerBytes bounds an answer that is read. The largest is a page of events: 4 MiB, and one event beyond that.
	answerBytes = 16 << 20
)

// call makes one request and reads its answer into out, unless that is nil. It sends the token that the flags or the
// machine's own server have; the answer is bounded, since the server may be any.
func (c *clientFlags) call(ctx context.Context, env lookup, method, path string, body, out any) error {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	var sent io.Reader
	if body != nil {
		raw, err := json.Marshal(body)
		if err != nil {
			return err
		}
		sent = bytes.NewReader(raw)
	}
	req, err := http.NewRequestWithContext(ctx, method, strings.TrimRight(c.URL, "/")+path, sent)
	if err != nil {
		return err
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	token, err := c.token(env)
	if err != nil {
		return err
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	}
	// Where a redirect leads to another domain, net/http leaves the token out.
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close() // it was read
	// A longer answer is cut and then no JSON, which is an error and not half a list.
	raw, err := io.ReadAll(io.LimitReader(resp.Body, answerBytes))
	if err != nil {
		return err
	}
	if resp.StatusCode >= http.StatusBadRequest {
		return refusedBy(resp, raw)
	}
	if out == nil {
		return nil
	}
	return json.Unmarshal(raw, out)
}

// revoke deletes one credential below a route and prints that it is done.
func (c *clientFlags) revoke(ctx context.Context, to output, set *settings, route, id string) error {
	if err := c.call(ctx, set.env, http.MethodDelete, route+url.PathEscape(id), nil, nil); err != nil {
		return err
	}
	_, err := fmt.Fprintln(to.out, "revoked", id)
	return err
}

// refusal is a server's refusal in its own words. The code is printed with it, because documentation and scripts go
// by it.
type refusal struct {
	statusCode          int
	status, code, words string
}

// refusedBy reads a refusal.
func refusedBy(resp *http.Response, raw []byte) error {
	var problem struct{ Code, Title, Detail string }
	_ = json.Unmarshal(raw, &problem) // a proxy's page has none of them
	return &refusal{statusCode: resp.StatusCode, status: resp.Status, code: problem.Code, words: cmp.Or(problem.Detail, problem.Title)}
}

// Error implements error.
func (r *refusal) Error() string {
	return fmt.Sprintf("the server answered %s: %s %s", r.status, r.code, r.words)
}

// listedToken is what a list shows of a credential. Tokens have a jti and service accounts an id.
type listedToken struct {
	JTI, ID    string
	Kind, User string
	Name       string
	Roles      []string
	CreatedAt  time.Time `json:"created_at"`
	ExpiresAt  time.Time `json:"expires_at"`
	LastUsedAt time.Time `json:"last_used_at"`
	RevokedAt  time.Time `json:"revoked_at"`
}

// tokenListCmd lists them.
type tokenListCmd struct {
	Server       clientFlags `embed:""`
	User         string      `help:"Those of one user." placeholder:"ID"`
	All          bool        `help:"Those that are revoked or have expired too."`
	Tenant       string      `help:"Those of another tenant than one's own, for operators." placeholder:"ID"`
	Installation bool        `help:"Those of no tenant: proxies and operators."`
}

// Run implements the command. It reads all pages before it prints, so that the columns fit.
func (c *tokenListCmd) Run(ctx context.Context, to output, set *settings) error {
	q := url.Values{"limit": {"1000"}, "user": {c.User}, "tenant": {c.Tenant}, "all": {fmt.Sprint(c.All)}, "installation": {fmt.Sprint(c.Installation)}}
	var all []listedToken
	for {
		var page struct {
			Tokens []listedToken
			Next   string
		}
		if err := c.Server.call(ctx, set.env, http.MethodGet, "/api/tokens?"+q.Encode(), nil, &page); err != nil {
			return err
		}
		all = append(all, page.Tokens...)
		if page.Next == "" {
			return printTokens(to.out, all)
		}
		q.Set("after", page.Next)
	}
}

// printTokens prints a table. What others named is quoted, so that no name can draw on a terminal.
func printTokens(out io.Writer, all []listedToken) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "ID\tKIND\tUSER\tNAME\tROLES\tEXPIRES\tLAST USED\tREVOKED")
	for _, t := range all {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", t.JTI+t.ID, t.Kind, plain(t.User), plain(t.Name), plain(strings.Join(t.Roles, ",")),
			dated(t.ExpiresAt), dated(t.LastUsedAt), dated(t.RevokedAt))
	}
	return w.Flush()
}

// plain is a text without anything that a terminal would act on; "-" for none.
func plain(s string) string {
	if s == "" {
		return "-"
	}
	return strings.Trim(fmt.Sprintf("%+q", s), `"`)
}

// dated is a time, or "-" for none.
func dated(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format(time.RFC3339)
}

// tokenRevokeCmd revokes one, or all of a user.
type tokenRevokeCmd struct {
	Server clientFlags `embed:""`
	ID     string      `arg:"" optional:"" help:"Id of the token (jti), session or API key."`
	User   string      `help:"All of this user, those that were never used too." placeholder:"ID"`
	Tenant string      `help:"The user's tenant, where it is not one's own; for operators." placeholder:"ID"`
}

// Run implements the command.
func (c *tokenRevokeCmd) Run(ctx context.Context, to output, set *settings) error {
	if (c.ID == "") == (c.User == "") {
		return errors.New("token revoke: name either an ID or a --user")
	}
	if c.ID != "" {
		return c.Server.revoke(ctx, to, set, "/api/tokens/", c.ID)
	}
	var got struct{ Revoked int64 }
	if err := c.Server.call(ctx, set.env, http.MethodDelete, "/api/tokens?"+url.Values{"user": {c.User}, "tenant": {c.Tenant}}.Encode(), nil, &got); err != nil {
		return err
	}
	_, err := fmt.Fprintf(to.out, "revoked all of %s; %d were good\n", c.User, got.Revoked)
	return err
}

// tokenRotateCmd rotates the signing key. A server that runs takes it up within seconds.
type tokenRotateCmd struct {
	Retire bool       `help:"Drop the key before the current one instead: what it signed is refused from then on."`
	Files  stateFlags `embed:""`
}

// Run implements the command. Retiring the old key ends every token, session and link that it signed.
func (c *tokenRotateCmd) Run(to output) error {
	ids, err := auth.RotateKey(string(c.Files.SigningKeyFile), c.Retire)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(to.out, "signs     %s\n", ids[0])
	for _, id := range ids[1:] {
		_, err = fmt.Fprintf(to.out, "verifies  %s\n", id)
	}
	return err
}

// serviceAccountCmd manages service accounts.
type serviceAccountCmd struct {
	Create serviceAccountCreateCmd `cmd:"" help:"Create one and print its API key, once."`
	List   serviceAccountListCmd   `cmd:"" help:"List them."`
	Revoke serviceAccountRevokeCmd `cmd:"" help:"Revoke one's API key."`
}

// serviceAccountCreateCmd creates one.
type serviceAccountCreateCmd struct {
	Server clientFlags   `embed:""`
	Name   string        `arg:"" help:"Its name."`
	Roles  []string      `required:"" xor:"kind" help:"Its roles, with commas between; each must be one of yours." placeholder:"ROLE"`
	Agent  string        `required:"" xor:"kind" help:"Instead of roles: the key calls models and tools as this agent, and does nothing else." placeholder:"ID"`
	Scope  string        `required:"" xor:"kind" enum:"mcp" help:"Instead of roles: mcp. The key is for an MCP client: it calls tools at /mcp, and does nothing else."`
	Owner  string        `help:"With --agent or --scope: the user who decides its questions; you when not given." placeholder:"USER"`
	TTL    time.Duration `help:"How long the key is good; until it is revoked when not given."`
}

// Run implements the command.
func (c *serviceAccountCreateCmd) Run(ctx context.Context, to output, set *settings) error {
	var got struct{ ID, Key string }
	err := c.Server.call(ctx, set.env, http.MethodPost, "/api/service_accounts", map[string]any{
		"name": c.Name, "roles": c.Roles, "agent": c.Agent, "scope": c.Scope, "owner": c.Owner, "ttl_seconds": int64(c.TTL / time.Second),
	}, &got)
	if err != nil {
		return err
	}
	// The key alone goes to the output, so that it can be put into a file; it is nowhere else, so it is printed even
	// where the id could not be.
	_, err = fmt.Fprintln(to.log, "service account", got.ID)
	_, printed := fmt.Fprintln(to.out, got.Key)
	return errors.Join(err, printed)
}

// serviceAccountListCmd lists them.
type serviceAccountListCmd struct {
	Server clientFlags `embed:""`
}

// Run implements the command.
func (c *serviceAccountListCmd) Run(ctx context.Context, to output, set *settings) error {
	var page struct {
		Accounts []listedToken `json:"service_accounts"`
	}
	if err := c.Server.call(ctx, set.env, http.MethodGet, "/api/service_accounts?limit=1000", nil, &page); err != nil {
		return err
	}
	for i := range page.Accounts {
		page.Accounts[i].Kind = "api_key"
	}
	return printTokens(to.out, page.Accounts)
}

// serviceAccountRevokeCmd revokes one.
type serviceAccountRevokeCmd struct {
	Server clientFlags `embed:""`
	ID     string      `arg:"" help:"Its id."`
}

// Run implements the command.
func (c *serviceAccountRevokeCmd) Run(ctx context.Context, to output, set *settings) error {
	return c.Server.revoke(ctx, to, set, "/api/service_accounts/", c.ID)
}
