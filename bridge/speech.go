package bridge

import "aqueduct/agui"

// speech brings the events of an upstream into the shape in which it may stand in the open Run: characters that deltas cut in
// two are joined, secrets masked, messages that an earlier Run's end closed go on under a new id, and messages of an Agent
// that is not the thread's own carry its name. It lives as long as the Turn, because an upstream does not know of Runs.
type speech struct {
	halves        agui.Halves
	masking       masking
	continuations continuations
	author        string // the name on the Agent's messages; "" for the thread's own Agent
}

// each passes on what an event of the upstream becomes: first whole characters, then masked, then under the Run that is
// open. The order counts: a secret may be cut inside a character, and masking must see it whole. It is on the path of
// every delta; one that stays as it is costs three slices of one element and no copy of its text.
func (s *speech) each(ev agui.Event, pass func(agui.Event) error) error {
	for _, whole := range s.halves.Join(nil, ev) {
		for _, shown := range s.masking.on(whole) {
			for _, next := range s.continuations.apply(s.named(shown)) {
				if err := pass(next); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// endRun passes on the half characters that are left when a Run ends. A refusal means that the delta that began the
// character was refused too: nothing is lost.
func (s *speech) endRun(pass func(agui.Event) error) {
	for _, lone := range s.halves.Flush(nil) {
		for _, ev := range s.continuations.apply(lone) {
			if pass(ev) != nil {
				return
			}
		}
	}
}

// endTurn passes on the text that masking holds back when the Turn ends. A refusal means that its message has ended.
func (s *speech) endTurn(pass func(agui.Event) error) {
	for _, left := range s.masking.rest() {
		for _, ev := range s.continuations.apply(s.named(left)) {
			if pass(ev) != nil {
				return
			}
		}
	}
}

// named is an event with the name of its author on a message.
func (s *speech) named(ev agui.Event) agui.Event {
	e, ok := ev.(*agui.TextMessageStart)
	if !ok || e.Name != "" || s.author == "" || e.Role != "" && e.Role != agui.RoleAssistant {
		return ev
	}
	by := *e
	by.Name = s.author
	return &by
}
