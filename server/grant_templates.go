package server

import (
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"aqueduct/policy"
)

// templateJSON is several grants under one name of the policy's, for POST /api/grants {template}.
type templateJSON struct {
	Name       string              `json:"name"`
	Reason     string              `json:"reason,omitempty"`
	TTLSeconds int64               `json:"ttl_seconds,omitempty"` // none: the default of a grant
	Grants     []templateGrantJSON `json:"grants"`
}

type templateGrantJSON struct {
	Tool    string  `json:"tool"`
	Kind    string  `json:"kind,omitempty"`
	Agent   string  `json:"agent,omitempty"`
	Match   rawJSON `json:"match"`
	MaxUses int     `json:"max_uses,omitempty"` // none: any number
}

// templates is GET /api/grants/templates: those of the policy in force, by name.
func (h *grants) templates(c echo.Context) error {
	out := struct {
		Templates []templateJSON `json:"templates"`
	}{Templates: []templateJSON{}}
	for _, t := range h.sessions.Templates() {
		out.Templates = append(out.Templates, templateOut(t))
	}
	return c.JSON(http.StatusOK, out)
}

func templateOut(t policy.Template) templateJSON {
	out := templateJSON{Name: t.Name, Reason: t.Reason, TTLSeconds: int64(t.TTL / time.Second), Grants: make([]templateGrantJSON, 0, len(t.Grants))}
	for _, g := range t.Grants {
		one := templateGrantJSON{Tool: g.Tool, Kind: g.Kind, Agent: g.Agent, Match: rawJSON(g.Match)}
		if g.UsesLeft != policy.Unlimited {
			one.MaxUses = g.UsesLeft
		}
		out.Grants = append(out.Grants, one)
	}
	return out
}
