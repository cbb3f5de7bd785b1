// Package registry keeps the directory of agents: which ids there are, whose they are, and how the agents are reached that
// programs registered by themselves. The rows are the truth; every replica makes the agents of its Directory from them.
//
//   - Registry: registers, removes, and notes heartbeats
//   - syncer: has this replica's Directory follow the rows
//   - sealer: what an agent is sent with each call, encrypted at rest
//   - Entry: an agent as others see it, with what is known of its health here
//
// An entry takes this way: a registration is checked and written (Register), the syncer of each replica makes the agent of the
// row and puts it into the Directory, and the engine finds it there by tenant and id. Nothing of an agent is kept in memory
// alone, so a replica that starts has all of them.
package registry
