package main

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"aqueduct/bridge"
	"aqueduct/server/auth"
)

// keyFlag is the file that holds the key of tokens. serve and token must name the same.
type keyFlag struct {
	SigningKeyFile string `default:"./data/signing.key" help:"File that holds the key tokens are signed with; made on first use." placeholder:"FILE"`
}

func (k keyFlag) keys() (*auth.Keys, error) {
	key, err := auth.LoadKey(k.SigningKeyFile)
	if err != nil {
		return nil, err
	}
	return auth.NewKeys(key)
}

// tokenCmd makes tokens.
type tokenCmd struct {
	Issue tokenIssueCmd `cmd:"" help:"Print a new token."`
	Show  tokenShowCmd  `cmd:"" help:"Print the token of the server on this machine."`
}

// tokenIssueCmd makes one.
type tokenIssueCmd struct {
	Type   string        `enum:"user,approver,channel,acp_proxy" required:"" help:"What it is for: user, approver, channel or acp_proxy."`
	Tenant string        `default:"local" help:"Tenant of the user, approver or channel." placeholder:"ID"`
	User   string        `help:"The user or approver it is for." placeholder:"ID"`
	Roles  []string      `help:"Roles of the user or approver, with commas between; admin and approver have a meaning here, others in policies." placeholder:"ROLE"`
	ID     string        `name:"id" help:"Id of the channel or the proxy it is for." placeholder:"ID"`
	Proxy  string        `help:"The same as --id, of a proxy." placeholder:"ID"`
	Agent  string        `help:"Id of the agent the proxy serves." placeholder:"ID"`
	Name   string        `help:"Name of the proxy, shown to people."`
	TTL    time.Duration `default:"720h" help:"How long it is good."`
	Key    keyFlag       `embed:""`
}

// Run implements the command.
func (c *tokenIssueCmd) Run(to output) error {
	claims, err := c.claims()
	if err != nil {
		return err
	}
	keys, err := c.Key.keys()
	if err != nil {
		return err
	}
	token, err := keys.Issue(claims, c.TTL)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(to.out, token)
	return err
}

// claims are those of the type. A flag that says nothing about the type is a mistake: who
// gave it believes to have narrowed the token.
func (c *tokenIssueCmd) claims() (auth.Claims, error) {
	claims := auth.Claims{Type: auth.Type(c.Type)}
	var takes []string
	switch claims.Type {
	case auth.TypeACPProxy:
		takes = []string{"id", "proxy"}
		claims.ProxyClaims = auth.ProxyClaims{ProxyID: cmp.Or(c.ID, c.Proxy), Name: c.Name, AgentID: c.Agent}
		if c.ID != "" && c.Proxy != "" && c.ID != c.Proxy {
			return claims, errors.New("--id and --proxy mean the same; give one")
		}
	case auth.TypeChannel:
		takes = []string{"id"}
		claims.Tenant, claims.ChannelClaims = c.Tenant, auth.ChannelClaims{ChannelID: c.ID}
	default:
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

func (c *tokenIssueCmd) checkIDs() error {
	ids := map[string][]string{"tenant": {c.Tenant}, "user": {c.User}, "roles": c.Roles, "id": {c.ID}, "proxy": {c.Proxy}}
	if c.Type == string(auth.TypeACPProxy) {
		ids["agent"] = []string{c.Agent}
	}
	for _, flag := range slices.Sorted(maps.Keys(ids)) {
		for _, id := range ids[flag] {
			if id != "" && !bridge.ValidName(id) {
				return fmt.Errorf("--%s: %q is not an id: letters, digits and . _ : - only", flag, id)
			}
		}
	}
	return nil
}
