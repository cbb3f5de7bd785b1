package store

import "context"

// Agenda is what the owner of a Session has to do next, read in one go because it is
// read for every Run.
type Agenda struct {
	Session Session
	LastSeq int64    // of the log
	Command *Command // the oldest that is not done
	Turn    *Turn    // the one under way: RUNNING or paused, else the oldest QUEUED
	// Running is the id of the open Run, "" when none is.
	Running string
	// Settled reports a Question of Turn that was settled, which is still to be passed on: to the log, or to an
	// Agent that could take it.
	Settled bool
	// Run is the oldest reserved one of Turn; with no Turn under way the oldest of all.
	Run      *Run
	Reserved int64 // how many Runs are reserved in all
}

// AgendaReader reads what is to be done.
type AgendaReader interface {
	Agenda(ctx context.Context, in Scope, sessionID string) (Agenda, error)
}
