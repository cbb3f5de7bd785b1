package notify

import (
	"fmt"
	"slices"
	"strings"

	"aqueduct/bridge/signed"
)

// Target is a subscriber to notices. The operator configured its URL; outbound checks the address at every call all the
// same.
type Target struct {
	Name   string // stable: rows that wait name it
	URL    string
	Secret Secret
	Tenant string   // "" is every tenant
	Types  []string // of messages; none is all
}

// check is of what the rest relies on. Whether the address may be called, outbound decides at each call.
func (t Target) check() error {
	switch {
	case t.Name == "" || len(t.Name) > 128:
		return fmt.Errorf("notify: a target needs a name of at most 128 characters")
	case !strings.HasPrefix(t.URL, "http://") && !strings.HasPrefix(t.URL, "https://"):
		return fmt.Errorf("notify: target %q: %q is not an http address", t.Name, t.URL)
	case len(t.Secret) < signed.MinSecret:
		return fmt.Errorf("notify: target %q: the secret must have at least %d characters", t.Name, signed.MinSecret)
	}
	for _, typ := range t.Types {
		if !slices.Contains(Types(), typ) {
			return fmt.Errorf("notify: target %q: there is no message %q", t.Name, typ)
		}
	}
	return nil
}

// wants reports whether a notice about a Question of the tenant goes to the target.
func (t Target) wants(m Message, tenant string) bool {
	return (t.Tenant == "" || t.Tenant == tenant) && (len(t.Types) == 0 || slices.Contains(t.Types, m.Type))
}
