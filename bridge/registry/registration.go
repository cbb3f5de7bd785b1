// This file checks registrations. A registration names an address that this server will call with prompts of users,
// so what is not plainly an agent's address and credential is refused.

package registry

import (
	"bytes"
	"encoding/json"
	"net/url"
	"strings"

	"aqueduct/bridge/signed"
	"aqueduct/internal/fault"
	"aqueduct/internal/ids"
	"aqueduct/store"
)

// Registration describes an agent (platform contract §7.3).
type Registration struct {
	AgentID  string `json:"agent_id" validate:"required"`
	Name     string `json:"name"`                                  // for people; the id where it is left out
	Endpoint string `json:"endpoint" validate:"required,max=2048"` // of http without /invoke
	Protocol string `json:"protocol,omitempty"`                    // http, the default, or agui
	// Capabilities are AG-UI's AgentCapabilities, or any other object or array that the program likes to be shown. "resumable":
	// true announces that the agent can be called again after its call was lost (bridge.Resumable). "raw": "keep" forwards
	// the events of its own upstream.
	Capabilities json.RawMessage `json:"capabilities,omitempty"`
	// Auth is what the agent is sent with each call, so that it knows who calls.
	Auth *Auth `json:"auth,omitempty"`
}

// KeepRaw is the value of "raw" in capabilities that forwards an AG-UI agent's RAW events and rawEvents.
const KeepRaw = "keep"

// Auth is a credential of ours at an agent. It is kept encrypted and never shown.
type Auth struct {
	Type   string        `json:"type"`             // AuthBearer, AuthHeader or AuthHMAC
	Token  string        `json:"token,omitempty"`  // of AuthBearer
	Header string        `json:"header,omitempty"` // of AuthHeader: its name,
	Value  string        `json:"value,omitempty"`  // and its value
	Secret signed.Secret `json:"secret,omitempty"` // of AuthHMAC
}

// The types of Auth.
const (
	AuthBearer = "bearer" // Authorization: Bearer <token>
	AuthHeader = "header" // a header of the agent's choice
	AuthHMAC   = "hmac"   // calls are signed (package signed)
)

const (
	// maxCapabilities bounds what every list of agents holds of each.
	maxCapabilities = 16 << 10
	// maxCredential is far above any token, and below what servers take as a header.
	maxCredential = 4 << 10
)

// Refusals of registrations.
const (
	Invalid = "invalid_body"   // the registration is not what the route takes
	Taken   = "agent_id_taken" // the id is another's
	TooMany = "too_many_agents"
)

func invalid(where, what string) error { return fault.New(Invalid, "/"+where+": "+what) }

// check refuses what could not be called, or would be read differently by others. checkURL decides which addresses may
// be called.
func (r *Registration) check(checkURL func(string) error) error {
	if r.Protocol == "" {
		r.Protocol = store.AgentHTTP
	}
	if r.Protocol == store.AgentHTTP { // of agui it is a whole URL, whose last character counts
		r.Endpoint = strings.TrimRight(r.Endpoint, "/")
	}
	u, err := url.Parse(r.Endpoint)
	switch {
	case !ids.ValidName(r.AgentID):
		return invalid("agent_id", "must be 1 to 128 of A-Z a-z 0-9 . _ : -")
	case r.Name != "" && !ids.Valid(r.Name):
		return invalid("name", "must be 1 to 128 printable characters, without a space at either end")
	case r.Protocol != store.AgentHTTP && r.Protocol != store.AgentAGUI:
		return invalid("protocol", "must be http or agui. ACP agents come by an acp-proxy.")
	case err != nil || u.Host == "":
		return invalid("endpoint", "must be a URL")
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return invalid("endpoint", "must have no user, query or fragment; credentials belong into auth")
	case len(r.Capabilities) > maxCapabilities:
		return invalid("capabilities", "must be at most 16384 bytes")
	case len(r.Capabilities) > 0 && !bytes.ContainsAny(r.Capabilities[:1], "{[n"):
		return invalid("capabilities", "must be an object or an array")
	}
	if bytes.Equal(r.Capabilities, []byte("null")) {
		r.Capabilities = nil
	}
	if err := checkURL(r.Endpoint); err != nil {
		return fault.New(Invalid, "/endpoint: "+err.Error()+". The operator opens addresses with --outbound.")
	}
	if r.Auth != nil {
		return r.Auth.check()
	}
	return nil
}

// check refuses credentials that no request can carry, and headers that mean something between us and an agent already.
func (a *Auth) check() error {
	switch a.Type {
	case AuthBearer:
		if !headerValue(a.Token) {
			return invalid("auth/token", "must be 1 to 4096 printable ASCII characters")
		}
	case AuthHeader:
		if !mayChoose(a.Header) {
			return invalid("auth/header", "must be Authorization, or begin with X- and be none of this server's own")
		}
		if !headerValue(a.Value) {
			return invalid("auth/value", "must be 1 to 4096 printable ASCII characters")
		}
	case AuthHMAC:
		if len(a.Secret) < signed.MinSecret || len(a.Secret) > maxCredential {
			return invalid("auth/secret", "must have 16 to 4096 bytes")
		}
	default:
		return invalid("auth/type", "must be bearer, header or hmac")
	}
	return nil
}

// headerValue reports whether a text can be sent as a header's value without being changed.
func headerValue(text string) bool {
	return text != "" && len(text) <= maxCredential && text == strings.TrimSpace(text) &&
		strings.IndexFunc(text, func(r rune) bool { return r < ' ' || r > '~' }) < 0
}

// mayChoose reports whether a registration may name a header. The others belong to HTTP or to the contract; one of those
// would let a registration change what the call means.
func mayChoose(header string) bool {
	name := strings.ToLower(header)
	if strings.IndexFunc(name, func(r rune) bool { return r != '-' && (r < 'a' || r > 'z') && (r < '0' || r > '9') }) >= 0 {
		return false
	}
	return name == "authorization" || strings.HasPrefix(name, "x-") && len(name) > len("x-") &&
		!strings.HasPrefix(name, "x-aqueduct-") && !strings.HasPrefix(name, "x-forwarded") && name != "x-run-id" && name != "x-session-id"
}
