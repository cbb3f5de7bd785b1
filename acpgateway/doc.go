// Package acpgateway is /ws/agent: acp-proxies connect to it, and the ACP agents they run
// answer chats. A Session of ours is a run_id on this wire, a Turn a prompt_id.
//
// A frame goes one way. The goroutine of its link reads it (link.go), its proxy puts it in
// order (proxy.go, receive.go), its Session's tunnel queues it (tunnel.go), and the Turn that
// reads the tunnel has it translated (turn.go, step.go) by bridge/fromacp. What goes down
// passes the proxy's outbox. A tunnel outlives Turns and links: an agent that talks while
// nobody reads is heard later, and a Turn whose link is cut goes on when it is back.
package acpgateway
