// Package tools runs what agents call: a ToolCall is judged by the policy, waits for a
// person if it must, is run by us over HTTP or by the user's client, and keeps its result.
//
// Whatever happens to a ToolCall is a compare-and-set on its row, so that several replicas
// and several people may try. That it runs is kept before it runs: after a crash a call that
// was running is UNKNOWN, and a person says what became of it.
package tools
