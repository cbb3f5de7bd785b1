// Package registry keeps the directory of agents: which ids there are, whose they are, and how the agents are reached that
// programs registered by themselves. The rows are the truth; every replica makes the agents of its Directory from them.
//
//   - Registry: registers, removes, and notes heartbeats
//   - syncer: has this replica's Directory follow the rows
//   - sealer: what an agent is sent with each call, encrypted at rest
//   - Entry: an agent as others see it, with what is known of its health here
package registry
