package bridge

import (
	"slices"
	"strings"

	"aqueduct/bridge/approval"
	"aqueduct/policy"
)

// An agent's button names what the agent would remember. An "always" stays ours, as a Grant: so the
// button also names what the Grant will cover and for how long, and where there is a choice there
// is a button for each.

// standingLabel bounds an agent's own words on such a button, in characters.
const standingLabel = 36

// offerStanding puts the Grants that a call can be given on the Question's options.
// An agent that offers an "always" gets it kept where a person can see and revoke it. So the agent is answered with
// the option that holds once, and the Grant answers its next question. An option for which no Grant can be given is
// taken away, if one that holds once is left; a choice of mode is the exception, since there the agent itself keeps
// what was chosen.
func offerStanding(q *approval.Request, call policy.Call, v policy.Verdict) {
	at := slices.IndexFunc(q.Options, func(o approval.Option) bool { return o.Kind == approval.AllowAlways })
	if at < 0 {
		return
	}
	if call.Kind == "switch_mode" { // there an "always" chooses the mode that follows
		q.Options = slices.Clone(q.Options)
		for i, o := range q.Options {
			if o.Kind == approval.AllowAlways {
				q.Options[i].Always = policy.AlwaysAgent
			}
		}
		return
	}
	standings := policy.Standings(call, v)
	once := slices.ContainsFunc(q.Options, func(o approval.Option) bool { return o.Kind == approval.AllowOnce })
	if len(standings) == 0 && once {
		q.Options = slices.DeleteFunc(slices.Clone(q.Options), func(o approval.Option) bool { return o.Kind == approval.AllowAlways })
		return
	}
	options := slices.Clone(q.Options)
	var given []policy.Always
	for i, o := range options {
		if o.Kind != approval.AllowAlways {
			continue
		}
		s := standingOf(o, call, standings)
		options[i].Always, options[i].Label = s.Always, labelled(o.Label, s.Words)
		given = append(given, s.Always)
	}
	var more []approval.Option
	for _, s := range standings {
		if once && !slices.Contains(given, s.Always) && s.Always != policy.AlwaysTool { // all of a tool only in the agent's own words
			id := options[at].ID + "." + string(s.Always)
			more = append(more, approval.Option{ID: id, Label: labelled("", s.Words), Kind: approval.AllowAlways, Always: s.Always})
		}
	}
	q.Options = slices.Insert(options, at+1, more...)
}

// standingOf is the Grant that an agent's option becomes: all of the tool where its words say so,
// else this very call.
func standingOf(o approval.Option, call policy.Call, standings []policy.Standing) policy.Standing {
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
