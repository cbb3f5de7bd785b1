// Package tools takes, judges and executes the tool calls of agents. The policy decides about a call; the call waits for a
// person if it must; this package executes it over HTTP, or the user's client does; its result is kept.
//
// Everything that happens to a ToolCall is a compare-and-set on its row, so several replicas and several people may try at
// once. That a call is executed is committed before it is: after a crash a call that was RUNNING is UNKNOWN, and a person
// answers what became of it.
//
// The way of a call: invoke.go takes it, judge.go decides, client.go or runner.go and execute.go execute it, commit.go keeps
// the end. recovery.go finds what a crash left behind, outcome.go asks about it.
package tools
