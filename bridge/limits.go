package bridge

import "time"

// Limits are the bridge's settings. The zero value of a member means its default.
type Limits struct {
	// ApprovalTTL is how long a Question waits when the Agent does not say (contract §10).
	ApprovalTTL time.Duration
	// Quiet is how long a Turn that asked must say nothing before its Run ends; QuietMost
	// is when it ends however much is sent.
	Quiet, QuietMost time.Duration
	// QuietPaused is how long an Agent with open Questions, all of them shown, must say nothing before a Run ends in
	// which it went on: a Run costs its clients a start and an end, so a pause for breath must not end it.
	QuietPaused time.Duration
	// LeaveGrace is how long ?on_leave=cancel waits after the last tail left, so that a
	// reload does not cancel.
	LeaveGrace time.Duration
	// EventBytes bounds one event: longer text becomes several deltas, anything else is cut
	// and marked as cut.
	EventBytes int
	// RunBytes bounds one Run: its events are folded in memory and kept as messages, so an
	// agent that never stops talking would otherwise take all there is.
	RunBytes int
	// OwnerWait is how long a prompt waits for the replica that owns its thread to begin it.
	// It is longer than finding a dead owner and taking over from it takes.
	OwnerWait time.Duration
	// BusyWait is how long a message waits, before it is refused, for the tails of the Turn under way to leave: a client
	// that closes its response and asks at once may be faster than we notice.
	BusyWait time.Duration
	// QuestionsPerTurn bounds the open Questions of one Turn, and QuestionsPerUser those of all Turns of one user: no person
	// can decide more with care, and each is a row, a deadline, and a line in every inbox.
	QuestionsPerTurn, QuestionsPerUser int
	// TurnsPerUser bounds the Turns of one user that this replica drives at once. A thousand parallel agents of one person
	// stay below it; a loop that prompts does not.
	TurnsPerUser int
	// ThreadBytes bounds what is kept of one Session's log: it is replayed to clients and read for histories.
	ThreadBytes int64
	// TenantBytes bounds what is kept of the logs of all of a tenant's threads; 0 is no limit, as the disk is the
	// operator's, who knows its size and how many share it.
	TenantBytes int64
	// Transcript is how many of a Session's newest messages an Agent is given.
	Transcript int
}

func (l Limits) withDefaults() Limits {
	setDefault(&l.ApprovalTTL, 10*time.Minute)
	setDefault(&l.Quiet, 100*time.Millisecond)
	setDefault(&l.QuietMost, time.Second)
	setDefault(&l.QuietPaused, 2*time.Second)
	setDefault(&l.LeaveGrace, 5*time.Second)
	setDefault(&l.EventBytes, 1<<20)
	setDefault(&l.RunBytes, 64<<20)
	setDefault(&l.OwnerWait, 30*time.Second)
	setDefault(&l.BusyWait, time.Second)
	setDefault(&l.Transcript, 1000)
	setDefault(&l.QuestionsPerTurn, 32)
	setDefault(&l.QuestionsPerUser, 200)
	setDefault(&l.TurnsPerUser, 5000)
	setDefault(&l.ThreadBytes, 1<<30)
	return l
}

func setDefault[T comparable](v *T, d T) {
	var zero T
	if *v == zero {
		*v = d
	}
}
