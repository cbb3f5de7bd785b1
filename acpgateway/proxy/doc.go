// Package proxy is an acp-proxy: it connects to a gateway's /ws/agent, runs one ACP agent
// process for each run_id, and carries what both say.
//
// Who does what: Proxy.Run owns everything. One goroutine holds the link (link.go). Each run
// has one goroutine that works through its opens and prompts (run.go) and outlives links.
// Each agent process has a reader of its output, a reader of its errors and one that waits
// for its end (agent.go). Whatever goes up passes the outbox, so a cut link loses nothing.
package proxy
