package policy

import (
	"bytes"
	"errors"
	"sync/atomic"
	"time"
)

// Holder is a Policy that can be replaced while it is asked. Each answer is of one Policy.
// A call that is being judged keeps the Policy it began with; the next gets the new one.
type Holder struct{ current atomic.Pointer[Policy] }

// NewHolder begins with a Policy.
func NewHolder(p *Policy) *Holder {
	h := new(Holder)
	h.current.Store(p)
	return h
}

// Current is the Policy in force.
func (h *Holder) Current() *Policy { return h.current.Load() }

// Replace puts the Policy of a file in force, or leaves the old one and returns why. An empty
// text is refused, as the file may still be being written.
func (h *Holder) Replace(data []byte) error {
	p, err := ParseFile(data)
	if err != nil {
		return err
	}
	h.Set(p)
	return nil
}

// Set puts a Policy in force.
func (h *Holder) Set(p *Policy) { h.current.Store(p) }

// ParseFile is Parse for a file, which is refused where it is empty: it may still be being written.
func ParseFile(data []byte) (*Policy, error) {
	if len(bytes.TrimSpace(data)) == 0 {
		return nil, errors.New("policy: the file is empty")
	}
	return Parse(data)
}

// Decide is the current Policy's.
func (h *Holder) Decide(c Call, grants []Grant, now time.Time) Verdict {
	return h.Current().Decide(c, grants, now)
}

// MayUse is the current Policy's.
func (h *Holder) MayUse(by Principal, agentID string) Verdict { return h.Current().MayUse(by, agentID) }

// MayCall is the current Policy's.
func (h *Holder) MayCall(by Principal, from, agentID string) Verdict {
	return h.Current().MayCall(by, from, agentID)
}

// LinkOf is the current Policy's.
func (h *Holder) LinkOf(q Prompted) (Link, string) { return h.Current().LinkOf(q) }

// Templates are the current Policy's.
func (h *Holder) Templates() []Template { return h.Current().Templates() }
