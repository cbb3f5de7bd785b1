// Package bridge drives Sessions: it takes what clients ask for in, runs Turns against
// Agents, and keeps every event that comes out.
//
// Handlers write requests (a reserved Run, a decision, a command) and ring the Session's
// bell; the one goroutine that drives the Session on its owning replica reads them and
// appends. No other goroutine appends, and no reader drives.
package bridge
