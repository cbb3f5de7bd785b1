package llmproxy

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"aqueduct/bridge/budget"
	"aqueduct/internal/ownfile"
	"aqueduct/policy"
	"aqueduct/store"
)

// Upstreams are the operator's: the contents of --models-file. They do not change.
type Upstreams struct {
	Upstreams []Upstream `yaml:"upstreams"`
	// Prices are looked up by the name of the model; the first that matches counts.
	Prices   []Price `yaml:"prices"`
	Currency string  `yaml:"currency"` // of Prices and costs; USD
	// Limits are the budgets: at each limit a person is asked.
	Limits []Limit `yaml:"budgets"`
}

// Limit is a budget of tokens, of cost, or of both: whichever is used up first.
type Limit struct {
	Of     budget.Of `yaml:"of"` // run, or for a day (UTC) user, agent, tenant
	Tokens int64     `yaml:"tokens"`
	Cost   float64   `yaml:"cost"` // in Currency
	// Approvers may add to it besides the role admin, each "role:NAME" or "user:NAME".
	Approvers policy.Approvers `yaml:"approvers"`
	// AddMost is how many times the limit may be added to it in a day, or to a run's in all; 10 when it is left out.
	AddMost float64 `yaml:"add_most"`
}

// defaultAddMost lets a long work go on several times, and bounds what one mistake in a form costs.
const defaultAddMost = 10

// Budgets are the Limits, one for each unit.
func (u Upstreams) Budgets() (list []budget.Budget) {
	for _, l := range u.Limits {
		if l.Tokens > 0 {
			list = append(list, l.budget(budget.Tokens, min(l.Tokens, store.MostAmount), ""))
		}
		if l.Cost > 0 {
			list = append(list, l.budget(budget.Cost, int64(min(l.Cost*1e6, float64(store.MostAmount))), u.Currency))
		}
	}
	return list
}

func (l Limit) budget(unit budget.Unit, limit int64, currency string) budget.Budget {
	most := min(float64(limit)*cmp.Or(l.AddMost, defaultAddMost), float64(store.MostAmount))
	return budget.Budget{Of: l.Of, Unit: unit, Limit: limit, Currency: currency, Approvers: l.Approvers, MostAdded: int64(most)}
}

// Unpriced are the models that no budget of costs bounds, for want of a price, as the upstreams name them; none where no such
// budget is set. A pattern needs a price for all that it may stand for.
func (u Upstreams) Unpriced() (models []string) {
	if !slices.ContainsFunc(u.Limits, func(l Limit) bool { return l.Cost > 0 }) {
		return nil
	}
	for _, up := range u.Upstreams {
		for _, m := range up.Models {
			priced := slices.ContainsFunc(u.Prices, func(p Price) bool { return p.Model == "*" || p.Model == m || matches(p.Model, m) })
			if !priced && !slices.Contains(models, m) {
				models = append(models, m)
			}
		}
	}
	return models
}

// check refuses a budget that bounds nothing, or that would be used up from the start.
func (l Limit) check() error {
	switch l.Of {
	case budget.OfRun, budget.OfUser, budget.OfAgent, budget.OfTenant:
	default:
		return fmt.Errorf("of: %q is none of run, user, agent, tenant", l.Of)
	}
	if l.Tokens < 0 || !(l.Cost >= 0) || l.Tokens == 0 && l.Cost == 0 { // no number is neither
		return errors.New("tokens, cost or both, each above 0")
	}
	if !(l.AddMost >= 0) {
		return errors.New("add_most: a number above 0, of times the limit")
	}
	if err := l.Approvers.Check(); err != nil {
		return fmt.Errorf("approvers: %w", err)
	}
	return nil
}

// Upstream is a server that speaks OpenAI's API.
type Upstream struct {
	Name string `yaml:"name"`
	URL  string `yaml:"url"` // up to and with /v1
	// KeyFile holds the key, which is sent as a bearer token, or alone in the header that KeyHeader names.
	KeyFile   ownfile.Secret `yaml:"key_file"`
	KeyHeader string         `yaml:"key_header"`
	// Models are the names of models that it answers for; one * stands for any text.
	Models []string `yaml:"models"`
	// StreamUsage false: it refuses stream_options, so what a stream uses is estimated.
	StreamUsage *bool `yaml:"stream_usage"`

	key string
}

// Price is what a million tokens cost. CachedInput 0 is Input.
type Price struct {
	Model       string  `yaml:"model"`
	Input       float64 `yaml:"input"`
	CachedInput float64 `yaml:"cached_input"`
	Output      float64 `yaml:"output"`
}

// Parse reads the file. readKey reads the file of a key. What is wrong is named by the upstream's place or name and never by
// its key. A member that is not known is an error: a misspelled stream_usage would otherwise show up as refused streams.
func Parse(raw []byte, readKey func(path string) (string, error)) (Upstreams, error) {
	var u Upstreams
	dec := yaml.NewDecoder(bytes.NewReader(raw))
	dec.KnownFields(true)
	if err := dec.Decode(&u); err != nil {
		return u, err
	}
	err := u.prepare(readKey)
	return u, err
}

// And is u with one more upstream, behind those that it has.
func (u Upstreams) And(up Upstream, readKey func(path string) (string, error)) (Upstreams, error) {
	u.Upstreams = append(slices.Clone(u.Upstreams), up)
	err := u.prepare(readKey)
	return u, err
}

// prepare checks what was given and reads the keys.
func (u *Upstreams) prepare(readKey func(path string) (string, error)) error {
	if u.Currency == "" {
		u.Currency = "USD"
	}
	names := make(map[string]bool)
	for i := range u.Upstreams {
		up := &u.Upstreams[i]
		if err := up.check(); err != nil {
			return fmt.Errorf("upstream %d: %w", i+1, err)
		}
		if names[up.Name] {
			return fmt.Errorf("the upstream %q is there twice", up.Name)
		}
		names[up.Name] = true
		if up.KeyFile == "" {
			continue
		}
		var err error
		if up.key, err = readKey(string(up.KeyFile)); err != nil {
			return fmt.Errorf("upstream %s: key_file: %w", up.Name, err)
		}
	}
	seen := make(map[budget.Of]bool)
	for i, l := range u.Limits {
		if err := l.check(); err != nil {
			return fmt.Errorf("budget %d: %w", i+1, err)
		}
		if seen[l.Of] {
			return fmt.Errorf("there are two budgets of a %s", l.Of)
		}
		seen[l.Of] = true
	}
	for _, p := range u.Prices {
		if strings.Count(p.Model, "*") > 1 || p.Model == "" || p.Input < 0 || p.Output < 0 || p.CachedInput < 0 {
			return fmt.Errorf("the price of %q: a model with at most one *, and no negative price", p.Model)
		}
	}
	return nil
}

// check refuses what could not be called. A user in the URL is refused, since it would be shown with the URL; a key has a
// file.
func (up *Upstream) check() error {
	up.URL = strings.TrimRight(up.URL, "/")
	at, err := url.Parse(up.URL)
	switch {
	case up.Name == "":
		return errors.New("it has no name")
	case err != nil || at.Host == "" || at.Scheme != "http" && at.Scheme != "https" || at.RawQuery != "" || at.User != nil:
		return errors.New("url must be http://… or https://…, up to and with /v1")
	case len(up.Models) == 0:
		return errors.New("models must name at least one; * is all of them")
	case slices.ContainsFunc(up.Models, func(m string) bool { return m == "" || strings.Count(m, "*") > 1 }):
		return errors.New("a model's name has at most one *")
	}
	return nil
}

// Hosts are the addresses that must be open to call them. They go on the list of the gate that only the proxy's calls pass: a
// tool that is registered at the address of a model server stays refused.
func (u Upstreams) Hosts() []string {
	var hosts []string
	for _, up := range u.Upstreams {
		at, _ := url.Parse(up.URL) // it was checked
		hosts = append(hosts, at.Host)
	}
	return hosts
}

// of are the upstreams that answer for a model, in the order in which they are tried: those that name it first, then those
// with a pattern, each in the order of the file.
func (u Upstreams) of(model string) []*Upstream {
	var named, matching []*Upstream
	for i := range u.Upstreams {
		up := &u.Upstreams[i]
		switch {
		case slices.Contains(up.Models, model):
			named = append(named, up)
		case slices.ContainsFunc(up.Models, func(pattern string) bool { return matches(pattern, model) }):
			matching = append(matching, up)
		}
	}
	return append(named, matching...)
}

// matches reports whether a name fits a pattern in which one * stands for any text.
func matches(pattern, name string) bool {
	before, after, star := strings.Cut(pattern, "*")
	if !star {
		return pattern == name
	}
	return len(name) >= len(before)+len(after) && strings.HasPrefix(name, before) && strings.HasSuffix(name, after)
}
