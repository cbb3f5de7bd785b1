package policy

import (
	"encoding/json"
	"time"
)

// Unlimited is the UsesLeft of a Grant that is not counted.
const Unlimited = -1

// Grant is a standing answer: yes to the calls it covers, until it ends.
type Grant struct {
	ID      string          // one without covers nothing: no record could name it
	Tenant  string          // exactly; a Grant never leaves its tenant
	Tool    string          // exactly
	Kind    string          // "": any; so with the next three
	Agent   string          //
	Session string          //
	User    string          // who prompted
	Match   json.RawMessage // of the arguments; none covers nothing, {} calls without arguments
	// ExpiresAt is zero for never. UsesLeft is a copy: a use is taken by who keeps the Grant.
	ExpiresAt time.Time
	UsesLeft  int
	TTL       time.Duration // how long it is meant to hold, for who gives it an end; 0: not given
	// GivenBy is who approved. Where a rule names approvers or wants four eyes, a Grant counts
	// only if its giver could have approved the call; one without a giver does not.
	GivenBy Principal
	GivenAt time.Time // zero: not known, and older than any cap
}

// covers reports whether the Grant answers a Question that the Terms ask.
// Everything must hold: it lives, was given under the rule's cap, names this tenant, tool, kind, agent, session and
// user, its giver could have approved this call, and the arguments fit.
func (g *Grant) covers(q *question, t Terms, now time.Time) bool {
	return g.ID != "" && g.live(now) && (t.GrantTTL == 0 || now.Sub(g.GivenAt) < t.GrantTTL) && g.names(&q.Call) && g.answers(t, q.By) && g.fits(q)
}

// live reports whether the Grant has neither ended nor been used up. A number below Unlimited is none, and covers
// nothing.
func (g *Grant) live(now time.Time) bool {
	return g.UsesLeft != 0 && g.UsesLeft >= Unlimited && (g.ExpiresAt.IsZero() || now.Before(g.ExpiresAt))
}

func (g *Grant) names(c *Call) bool {
	return g.Tenant == c.By.Tenant && g.Tool == c.Tool && orAny(g.Kind, c.Kind) &&
		orAny(g.Agent, c.AgentID) && orAny(g.Session, c.Session) && orAny(g.User, c.By.User)
}

func orAny(want, is string) bool { return want == "" || want == is }

// answers reports whether the giver may answer what is asked on these Terms.
func (g *Grant) answers(t Terms, prompter Principal) bool {
	return !t.special() || t.MayApprove(g.GivenBy, prompter) == nil
}

// fits reads the Match each time: Grants come as rows, and nothing of them is kept between two calls. A Match or
// arguments that cannot be read cover nothing.
func (g *Grant) fits(q *question) bool {
	m, err := readMatch(g.Match)
	if err != nil {
		return false
	}
	args, err := q.args.read(q.Args)
	return err == nil && m.covers(q.Title, args)
}
