package bridge

import (
	"slices"
	"strings"

	"aqueduct/agui"
	"aqueduct/bridge/approval"
)

// notices are the names of the CUSTOM events by which the server itself speaks to clients (docs/protocol.md).
var notices = []string{
	HistoryCut, stateNotApplied, runEnded, messageAmended, messagesAmended,
	"message_not_taken", "messages_dropped", "answers_ignored", "activity_not_applied", "event_too_large",
}

// reservedEvents begin the names of the server's CUSTOM events, and translatedEvents those that its translator makes of what ACP
// agents and their proxies say.
var (
	reservedEvents   = []string{"aqueduct.", "question_", "policy_"}
	translatedEvents = []string{"acp.", "proxy."}
)

// reservedEvent reports whether the name of a CUSTOM event is the server's. Case and characters that are not seen do not make it
// another one.
func reservedEvent(name string) bool {
	name = approval.Seen(name)
	return slices.Contains(notices, name) || begins(name, reservedEvents)
}

func begins(name string, prefixes []string) bool {
	return slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
}

// notOurs is an event of an Agent under a name that is none of ours: what it calls as we do might else rewrite the result of a tool
// that it did not run, or show a decision that no person took.
func notOurs(ev agui.Event) agui.Event {
	c, ok := ev.(*agui.Custom)
	if !ok || !reservedEvent(c.Name) {
		return ev
	}
	renamed := *c
	renamed.Name = approval.AgentPrefix + c.Name
	return &renamed
}

// AgentsEvent is the name of a CUSTOM event that an agent chooses itself. Unlike notOurs it is for agents without a translator
// whose events have reserved names.
func AgentsEvent(name string) string {
	if reservedEvent(name) || begins(approval.Seen(name), translatedEvents) {
		return approval.AgentPrefix + name
	}
	return name
}
