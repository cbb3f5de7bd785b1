// aqueduct token: makes tokens with the key file, without a server. What calls a server (list, revoke) is in
// token_server.go.

package main

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"aqueduct/internal/ids"
	"aqueduct/server/auth"
)

// keys reads the file of the signing key, which is made when it is not there.
func (f *stateFlags) keys() (*auth.Keys, error) {
	keys, err := auth.LoadKeys(string(f.SigningKeyFile))
	if err != nil {
		return nil, err
	}
	return auth.NewKeys(keys[0], keys[1:]...)
}

// tokenCmd makes tokens.
type tokenCmd struct {
	Issue     tokenIssueCmd     `cmd:"" help:"Print a new token."`
	Bootstrap tokenBootstrapCmd `cmd:"" help:"Print a token by which one proxy elsewhere gets its own token, once, within an hour; with --reusable at each of its starts."`
	Show      tokenShowCmd      `cmd:"" help:"Print the token of the server on this machine."`
	List      tokenListCmd      `cmd:"" help:"List the tokens, sessions and API keys that a server knows."`
	Revoke    tokenRevokeCmd    `cmd:"" help:"Revoke a token, session or API key, or all of a user."`
	Rotate    tokenRotateCmd    `cmd:"" help:"Make a new signing key; the one before goes on verifying."`
}

// tokenFlags are the flags of serve about tokens. token issue has them too, so that the command refuses what the
// server would.
type tokenFlags struct {
	TokenMaxLife time.Duration `name:"token-max-life" default:"2160h" help:"The longest that a token may live for which the server is asked; at most 365 days (8760h)."`
}

// check refuses a limit that no token could have.
func (f tokenFlags) check() error {
	if f.TokenMaxLife < time.Second || f.TokenMaxLife > auth.LongestTokenLife {
		return errors.New("--token-max-life: a token may live for between one second and 365 days (8760h)")
	}
	return nil
}

// tokenIssueCmd makes one.
type tokenIssueCmd struct {
	Type   string        `enum:"user,approver,mcp,channel,acp_proxy,operator" required:"" help:"What it is for: user, approver, mcp (an MCP client, which calls tools and decides nothing), channel, acp_proxy or operator."`
	Tenant string        `default:"local" help:"Tenant of the user, approver, MCP client or channel." placeholder:"ID"`
	User   string        `help:"The user, approver or operator it is for; of an MCP client, the user for whom it calls." placeholder:"ID"`
	Roles  []string      `help:"Roles of the user or approver, with commas between; user, approver, auditor and admin have a meaning here, others in policies." placeholder:"ROLE"`
	ID     string        `name:"id" help:"Id of the channel or the proxy it is for." placeholder:"ID"`
	Proxy  string        `help:"The same as --id, of a proxy." placeholder:"ID"`
	Agent  string        `help:"Id of the agent the proxy serves." placeholder:"ID"`
	Name   string        `help:"Name of the proxy, shown to people."`
	TTL    time.Duration `default:"720h" help:"How long it is good."`
	Life   tokenFlags    `embed:""`
	Files  stateFlags    `embed:""`
}

// Run implements the command. The server keeps the token when it is first used; its id is printed
// beside it, to revoke it by.
func (c *tokenIssueCmd) Run(to output) error {
	claims, err := c.claims()
	if err != nil {
		return err
	}
	keys, err := c.Files.keys()
	if err != nil {
		return err
	}
	if err := c.Life.check(); err != nil {
		return err
	}
	issued, err := keys.IssueWithin(claims, c.TTL, c.Life.TokenMaxLife)
	if err != nil {
		return err
	}
	return printIssued(to, issued)
}

// printIssued prints a token. It prints only the token to the output, so that it can be written to a file or piped.
func printIssued(to output, issued auth.Issued) error {
	_, err := fmt.Fprintf(to.log, "token %s, until %s\n", issued.ID, issued.Until.UTC().Format(time.RFC3339))
	_, printed := fmt.Fprintln(to.out, issued.Token)
	return errors.Join(err, printed)
}

// claims are those of the type. A flag that does not apply to the type is a mistake: who gave it believes to have
// narrowed the token. Each type has its own flags, as each token has its own claims.
func (c *tokenIssueCmd) claims() (auth.Claims, error) {
	claims := auth.Claims{Type: auth.Type(c.Type)}
	var takes []string
	switch claims.Type {
	case auth.TypeACPProxy:
		takes = []string{"id", "proxy"}
		claims.ProxyClaims = auth.ProxyClaims{ProxyID: cmp.Or(c.ID, c.Proxy), Name: c.Name, AgentID: c.Agent}
		if auth.ReservedProxy(claims.ProxyID) {
			return claims, auth.ErrReservedProxy
		}
		if c.ID != "" && c.Proxy != "" && c.ID != c.Proxy {
			return claims, errors.New("--id and --proxy mean the same; give one")
		}
	case auth.TypeChannel:
		takes = []string{"id"}
		claims.Tenant, claims.ChannelClaims = c.Tenant, auth.ChannelClaims{ChannelID: c.ID}
	case auth.TypeMCP:
		takes = []string{"user"}
		claims.Tenant, claims.UserClaims = c.Tenant, auth.UserClaims{User: c.User}
	case auth.TypeOperator:
		takes = []string{"user"}
		claims.UserClaims = auth.UserClaims{User: c.User}
	default:
		if slices.Contains(c.Roles, auth.RoleOperator) {
			return claims, errors.New("--roles: no token of a tenant has the role operator; use --type operator")
		}
		if slices.Contains(c.Roles, auth.RoleMCP) {
			return claims, errors.New("--roles: no token of a person has the role mcp; use --type mcp")
		}
		takes = []string{"user", "roles"}
		claims.Tenant, claims.UserClaims = c.Tenant, auth.UserClaims{User: c.User, Roles: c.Roles}
	}
	// --name and --agent are left out: serve has flags of these names, whose settings reach here.
	given := map[string]string{"user": c.User, "roles": strings.Join(c.Roles, ","), "id": c.ID, "proxy": c.Proxy}
	for _, flag := range slices.Sorted(maps.Keys(given)) {
		if given[flag] != "" && !slices.Contains(takes, flag) {
			return claims, fmt.Errorf("--%s says nothing about a token of type %s", flag, c.Type)
		}
	}
	return claims, c.checkIDs()
}

// checkIDs refuses names that could not be ids anywhere else: a token with one would be good and useless.
func (c *tokenIssueCmd) checkIDs() error {
	given := map[string][]string{"tenant": {c.Tenant}, "user": {c.User}, "roles": c.Roles, "id": {c.ID}, "proxy": {c.Proxy}}
	if c.Type == string(auth.TypeACPProxy) {
		given["agent"] = []string{c.Agent}
	}
	for _, flag := range slices.Sorted(maps.Keys(given)) {
		for _, id := range given[flag] {
			if id != "" && !ids.ValidName(id) {
				return fmt.Errorf("--%s: %q is not an id: letters, digits and . _ : - only", flag, id)
			}
		}
	}
	return nil
}
