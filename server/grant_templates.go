// Templates of grants, which an administrator writes into the policy file: "this deployment tool, for an hour, five
// times". A person gives all grants of one template by its name; what they allow cannot be changed in the request.

package server

import (
	"encoding/json"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"aqueduct/policy"
)

// templateJSON is several grants under one name of the policy's, for POST /api/grants {template}. reason is what the
// policy's author wrote for those who give it.
type templateJSON struct {
	Name       string              `json:"name"`
	Reason     string              `json:"reason,omitempty"`
	TTLSeconds int64               `json:"ttl_seconds,omitempty"` // none: the default of a grant
	Grants     []templateGrantJSON `json:"grants"`
}

// templateGrantJSON is one grant of a template.
type templateGrantJSON struct {
	Tool    string          `json:"tool"`
	Kind    string          `json:"kind,omitempty"`
	Agent   string          `json:"agent,omitempty"`
	Match   json.RawMessage `json:"match"`
	MaxUses int             `json:"max_uses,omitempty"` // none: any number
}

// templates is GET /api/grants/templates: those of the policy in force, by name. They come from the policy as it is
// loaded on this replica now, so an edit of the file shows here at once.
func (h *grants) templates(c echo.Context) error {
	return c.JSON(http.StatusOK, struct {
		Templates []templateJSON `json:"templates"`
	}{eachOut(h.approvals.Grants.Templates(), templateOut)})
}

// templateOut is the JSON of a template of the policy.
func templateOut(t policy.Template) templateJSON {
	return templateJSON{Name: t.Name, Reason: t.Reason, TTLSeconds: int64(t.TTL / time.Second), Grants: eachOut(t.Grants, templateGrantOut)}
}

// templateGrantOut is the JSON of one grant of a template. The policy has a number of its own for "any number of
// uses", which no client should have to know.
func templateGrantOut(g policy.Grant) templateGrantJSON {
	out := templateGrantJSON{Tool: g.Tool, Kind: g.Kind, Agent: g.Agent, Match: g.Match}
	if g.UsesLeft != policy.Unlimited {
		out.MaxUses = g.UsesLeft
	}
	return out
}
