// The flags for signing in at an OpenID provider. Nothing is asked of the provider here: it may start after this
// server.

package main

import (
	"errors"
	"fmt"
	"time"

	"aqueduct/internal/ownfile"
	"aqueduct/internal/secretfile"
	"aqueduct/server/auth"
)

// oidcFlags are how people sign in at an OpenID provider. Two of them are needed together with the issuer: its id of
// this server, and the mapping.
type oidcFlags struct {
	OIDCIssuer           string         `name:"oidc-issuer" help:"OpenID provider at which people sign in, and whose bearer tokens are accepted." placeholder:"URL"`
	OIDCClientID         string         `name:"oidc-client-id" help:"Id of this server at the provider." placeholder:"ID"`
	OIDCClientSecretFile ownfile.Secret `name:"oidc-client-secret-file" help:"File that holds the client's secret; without it the client is a public one." placeholder:"FILE"`
	OIDCMapping          ownfile.Config `name:"oidc-mapping" help:"What the provider's claims mean here: tenant, user and roles; YAML." placeholder:"FILE"`
	OIDCAudience         string         `name:"oidc-audience" help:"What bearer tokens of the provider must be for; the client id when not given." placeholder:"NAME"`
	OIDCScope            []string       `name:"oidc-scope" default:"profile,email" help:"Scope to ask for beside openid; repeatable." placeholder:"SCOPE"`
	OIDCSession          time.Duration  `name:"oidc-session" help:"How long a browser stays signed in, at most 24h; as long as the provider's ID token when not given." placeholder:"8h"`
}

// provider is the OpenID provider; nil without --oidc-issuer. Flags that contradict each other end the start, with
// the one that is missing named.
func (f *oidcFlags) provider(mode string) (*auth.OIDC, error) {
	if f.OIDCIssuer == "" {
		if f.OIDCClientID != "" || f.OIDCClientSecretFile != "" || f.OIDCMapping != "" {
			return nil, errors.New("--oidc-issuer is needed with the other --oidc flags")
		}
		return nil, nil
	}
	if mode == "none" { // everybody is the operator then, signed in or not
		return nil, errors.New("--oidc-issuer is of no use with --auth none, which asks nobody who they are")
	}
	if f.OIDCClientID == "" || f.OIDCMapping == "" {
		return nil, errors.New("--oidc-issuer needs --oidc-client-id and --oidc-mapping")
	}
	raw, err := f.OIDCMapping.Read()
	if err != nil {
		return nil, fmt.Errorf("--oidc-mapping: %w", err)
	}
	mapping, err := auth.ParseMapping(raw)
	if err != nil {
		return nil, fmt.Errorf("--oidc-mapping %s: %w", f.OIDCMapping, err)
	}
	cfg := auth.OIDCConfig{
		Issuer: f.OIDCIssuer, ClientID: f.OIDCClientID, Audience: f.OIDCAudience, Scopes: f.OIDCScope, Mapping: mapping, SessionLife: f.OIDCSession,
	}
	if f.OIDCClientSecretFile != "" {
		secret, err := secretfile.Read(string(f.OIDCClientSecretFile))
		if err == nil && secret == "" {
			err = fmt.Errorf("%s is empty", f.OIDCClientSecretFile)
		}
		if err != nil {
			return nil, fmt.Errorf("--oidc-client-secret-file: %w", err)
		}
		cfg.ClientSecret = auth.Secret(secret)
	}
	// Only the configuration is judged here. What the provider itself has wrong shows at the first sign-in.
	o, err := auth.NewOIDC(cfg)
	if err != nil {
		return nil, fmt.Errorf("--oidc-issuer %s: %w", f.OIDCIssuer, err)
	}
	return o, nil
}
