package bridge

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"aqueduct/store"
)

const (
	// beatEvery is how often a replica shows that it lives. Others fence it when they have seen
	// no beat for DeadAfter, so several may be late.
	beatEvery = 2 * time.Second
	// DeadAfter is how long a replica's beat must be seen unmoved before it is fenced: several
	// beats, so that a slow database or a pause of its process does not look like death. A
	// wrong guess costs the process and no data: the fence inside each Batch refuses what a
	// fenced replica still sends.
	DeadAfter = 10 * time.Second
	// watchEvery is how often the beats are read. It bounds how long the Sessions of a replica
	// that stopped cleanly wait, and is part of how late a dead one is found: well below the
	// second and the two that there are for it.
	watchEvery = 250 * time.Millisecond
	// watchMost is how much time between two looks counts at most.
	watchMost = 4 * watchEvery
)

// Beat moves the replica's counter, which the others watch, until ctx ends. It returns
// store.ErrFenced when the replica has been replaced: its process must end then.
// A beat that fails because the database is away is not the end: the others cannot see beats then either, and do not
// count that time.
func Beat(ctx context.Context, st store.Store, replica string, log *slog.Logger) error {
	tick := time.NewTicker(beatEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		switch err := st.Beat(ctx, replica); {
		case errors.Is(err, store.ErrFenced):
			return err
		case err != nil && ctx.Err() == nil:
			log.Warn("heartbeat not kept", slog.Any("error", err))
		}
	}
}

// replicaWatch finds the replicas whose beat has stopped. It trusts no clock but this
// process's monotonic one, and no time in which it did not look.
type replicaWatch struct {
	looked time.Time
	known  map[string]*watchedReplica
}

type watchedReplica struct {
	store.Replica
	unmoved time.Duration // for how long its beat has been looked at and did not move
}

// look takes what the store lists now. dead are replicas to fence; gone are those that were
// listed before and are no more, because they or others have fenced them.
func (w *replicaWatch) look(now time.Time, self string, living []store.Replica) (dead, gone []store.Replica) {
	// A watch that was frozen or cut off saw nothing of the time in between. Counting it would
	// fence everybody else whenever this process wakes up, or the database comes back.
	passed := min(now.Sub(w.looked), watchMost)
	if w.looked.IsZero() {
		passed = 0
	}
	before := w.known
	w.looked, w.known = now, make(map[string]*watchedReplica, len(living))
	for _, r := range living {
		if r.ID == self {
			continue
		}
		seen := before[r.ID]
		delete(before, r.ID)
		if seen == nil || seen.Beat != r.Beat {
			seen = &watchedReplica{}
		} else {
			seen.unmoved += passed
		}
		seen.Replica = r
		w.known[r.ID] = seen
		if seen.unmoved >= DeadAfter {
			dead = append(dead, r)
		}
	}
	for _, r := range before {
		gone = append(gone, r.Replica)
	}
	return dead, gone
}

// notListed is called when the replicas could not be listed: while the database is away, no
// replica can beat. Who was known stays known, so that one which vanishes meanwhile is missed.
func (w *replicaWatch) notListed() {
	for _, r := range w.known {
		r.unmoved = 0
	}
}

// keep has a replica that is gone be found gone again.
func (w *replicaWatch) keep(r store.Replica) { w.known[r.ID] = &watchedReplica{Replica: r} }
