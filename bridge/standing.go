package bridge

import (
	"slices"
	"strings"

	"aqueduct/bridge/inbox"
	"aqueduct/policy"
)

// An agent's button says what the agent would remember. An "always" stays ours, as a Grant: so the
// button also says what the Grant will cover and for how long, and where there is a choice there
// is a button for each.

// standingLabel bounds an agent's own words on such a button, in characters.
const standingLabel = 36

// offerStanding puts the Grants that a call can be given on the Question's options.
func offerStanding(q *Question, call policy.Call, v policy.Verdict) {
	at := slices.IndexFunc(q.Options, func(o Option) bool { return o.Kind == inbox.AllowAlways })
	if at < 0 {
		return
	}
	if call.Kind == "switch_mode" { // there an "always" chooses the mode that follows
		q.Options = slices.Clone(q.Options)
		for i, o := range q.Options {
			if o.Kind == inbox.AllowAlways {
				q.Options[i].Always = policy.AlwaysAgent
			}
		}
		return
	}
	standings := policy.Standings(call, v)
	once := slices.ContainsFunc(q.Options, func(o Option) bool { return o.Kind == inbox.AllowOnce })
	if len(standings) == 0 && once {
		q.Options = slices.DeleteFunc(slices.Clone(q.Options), func(o Option) bool { return o.Kind == inbox.AllowAlways })
		return
	}
	options := slices.Clone(q.Options)
	var given []policy.Always
	for i, o := range options {
		if o.Kind != inbox.AllowAlways {
			continue
		}
		s := standingOf(o, call, standings)
		options[i].Always, options[i].Label = s.Always, labelled(o.Label, s.Words)
		given = append(given, s.Always)
	}
	var more []Option
	for _, s := range standings {
		if once && !slices.Contains(given, s.Always) && s.Always != policy.AlwaysTool { // all of a tool only in the agent's own words
			id := options[at].ID + "." + string(s.Always)
			more = append(more, Option{ID: id, Label: labelled("", s.Words), Kind: inbox.AllowAlways, Always: s.Always})
		}
	}
	q.Options = slices.Insert(options, at+1, more...)
}

// standingOf is the Grant that an agent's option becomes: all of the tool where its words say so,
// else this very call.
func standingOf(o Option, call policy.Call, standings []policy.Standing) policy.Standing {
	chosen := policy.Standing{Always: policy.AlwaysOnce, Words: "this once only"}
	for _, s := range standings {
		if s.Always == policy.AlwaysExact || s.Always == policy.AlwaysTool && policy.ForAll(o.Label, call) {
			chosen = s
		}
	}
	return chosen
}

// labelled is an agent's label with what the Grant means.
func labelled(label, words string) string {
	if label == "" {
		return strings.ToUpper(words[:1]) + words[1:] // words of ours
	}
	return policy.Visible(label, standingLabel) + " (" + words + ")"
}
