package registry

import (
	"encoding/json"
	"net/http"

	"aqueduct/bridge/redact"
	"aqueduct/bridge/signed"
	"aqueduct/store"
)

// sealer encrypts the credentials of registrations. Without a key none are taken: they would lie in the database as
// they are.
type sealer struct{ vault *redact.Vault }

// reference is what a credential is bound to. It opens for that agent at that endpoint only: a change of the row in
// the database has no credential sent to another address.
func reference(a store.Agent) string { return "auth of agent " + a.ID + " at " + a.Endpoint }

// seal sets the credential of an agent's row.
func (s sealer) seal(a *store.Agent, auth *Auth) error {
	a.AuthKID, a.Auth = "", nil
	if auth == nil {
		return nil
	}
	if s.vault == nil {
		return invalid("auth", "this server has no key to keep a credential with")
	}
	text, err := json.Marshal(auth)
	if err == nil {
		a.AuthKID, a.Auth = s.vault.Seal(reference(*a), text)
	}
	return err
}

// open is what an agent is sent with each call: headers, or a secret that signs.
func (s sealer) open(a store.Agent) (header http.Header, secret signed.Secret, err error) {
	if a.Auth == nil {
		return nil, "", nil
	}
	if s.vault == nil {
		return nil, "", redact.ErrSealed
	}
	text, err := s.vault.Open(reference(a), a.AuthKID, a.Auth)
	if err != nil {
		return nil, "", err
	}
	var auth Auth
	if err := json.Unmarshal(text, &auth); err != nil {
		return nil, "", err
	}
	switch auth.Type {
	case AuthBearer:
		header = http.Header{"Authorization": {"Bearer " + auth.Token}}
	case AuthHeader:
		header = http.Header{http.CanonicalHeaderKey(auth.Header): {auth.Value}}
	}
	return header, auth.Secret, nil
}
