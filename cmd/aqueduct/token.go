package main

import (
	"fmt"
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
}

// tokenIssueCmd makes one.
type tokenIssueCmd struct {
	Type  string        `enum:"acp_proxy" required:"" help:"What it is for: acp_proxy."`
	Proxy string        `required:"" help:"Id of the proxy it is for." placeholder:"ID"`
	Agent string        `help:"Id of the agent the proxy serves." placeholder:"ID"`
	Name  string        `help:"Name of the proxy, shown to people."`
	TTL   time.Duration `default:"720h" help:"How long it is good."`
	Key   keyFlag       `embed:""`
}

// Run implements the command.
func (c *tokenIssueCmd) Run(to output) error {
	for flag, id := range map[string]string{"proxy": c.Proxy, "agent": c.Agent} {
		if id != "" && !bridge.ValidExternalID(id) {
			return fmt.Errorf("--%s: %q is not an id: letters, digits and . _ : - only", flag, id)
		}
	}
	keys, err := c.Key.keys()
	if err != nil {
		return err
	}
	token, err := keys.Issue(auth.Claims{
		Type:        auth.Type(c.Type),
		ProxyClaims: auth.ProxyClaims{ProxyID: c.Proxy, Name: c.Name, AgentID: c.Agent},
	}, c.TTL)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(to.out, token)
	return err
}
