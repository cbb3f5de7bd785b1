package bridge

import "time"

// quietTimer ends the open Run of a Turn that has open Questions. A Question is shown when its Run ends; a Run that ends
// at once would cut the Agent's sentence, one that waits for the Agent's end would hide the Question from the person who
// must answer it. So the Run ends when the upstream has been silent for a moment.
//
// It is not what ends an Agent that has nothing more to say and no Question open: such an Agent may think for as long as its
// own limits let it, which are its upstream's (httpagent's limiter, the gateway's timeouts).
type quietTimer struct {
	limits  Limits
	timer   *time.Timer
	asking  bool      // the open Run has yet to show a Question
	askedAt time.Time // when the first of these was asked
	// calls is set when all Questions are settled, and that the upstream, which is still read but takes no answers, is to be
	// called again with them once it is silent.
	calls bool
}

func newQuietTimer(limits Limits) quietTimer {
	// The timer exists, stopped, from the start: the loop of the Turn selects on its channel whether it runs or not.
	// Stop and Reset leave no old tick in the channel (Go 1.23), so nothing is drained anywhere.
	q := quietTimer{limits: limits, timer: time.NewTimer(time.Hour)}
	q.timer.Stop()
	return q
}

// ask has the open Run end with a Question that came up.
func (q *quietTimer) ask() {
	if !q.asking {
		q.asking, q.askedAt = true, time.Now()
	}
	q.timer.Reset(q.limits.Quiet)
}

// putOff puts the end off because the upstream goes on: by Quiet while a Question is to be shown, but not for more than
// QuietMost in all, and by QuietPaused otherwise. An upstream that is not read any more can add nothing.
// QuietMost is for an Agent that asks and goes on writing: a person must not wait for the Question until it is done.
func (q *quietTimer) putOff(idle, paused bool) {
	switch {
	case idle && paused:
		q.timer.Reset(0)
	case q.asking:
		if time.Since(q.askedAt) < q.limits.QuietMost {
			q.timer.Reset(q.limits.Quiet)
		}
	case paused, q.calls:
		q.timer.Reset(q.limits.QuietPaused)
	}
}

func (q *quietTimer) stop() { q.timer.Stop() }
