// Package acpgateway is /ws/agent: acp-proxies connect to it, and the ACP agents that they run answer chats. A Session
// is a run_id on this wire, a Turn a prompt_id.
//
// A frame goes one way. The goroutine of its link reads and decodes it (link.go, receive.go), its proxy puts it in order
// (proxy.go), its Session's channel observes and queues it (channel.go, observe.go, queue.go), and the Turn that reads
// the channel has acpgateway/translate translate it (turn.go, process.go). Frames to the proxy pass its outbox
// (seqlink). A channel outlives Turns and links: output that no Turn reads waits for the next one, and a Turn whose link
// is cut continues when the link is back.
//
// Locks, in the order in which they are taken: proxy.inMu, Gateway.mu or proxy.mu, channel.mu, then one of the channel's
// parts. The locks of two parts are never held together.
package acpgateway
