package bridge

import (
	"slices"
	"testing"
	"time"

	"aqueduct/store"
)

// watchSteps looks at what is listed again and again and gives who is found dead, and when.
type watchSteps struct {
	w   replicaWatch
	now time.Time
}

func (s *watchSteps) look(passed time.Duration, living ...store.Replica) (dead, gone []string) {
	s.now = s.now.Add(passed)
	d, g := s.w.look(s.now, "self", living)
	return idsOfReplicas(d), idsOfReplicas(g)
}

func idsOfReplicas(all []store.Replica) (ids []string) {
	for _, r := range all {
		ids = append(ids, r.ID)
	}
	slices.Sort(ids)
	return ids
}

func beating(id string, beat int64) store.Replica { return store.Replica{ID: id, Name: id, Beat: beat} }

// TestWatchFindsTheDead: one whose beat stands still for ten seconds of looking is dead, one
// that beats is not, nor is the replica itself, whatever its own beat does.
func TestWatchFindsTheDead(t *testing.T) {
	t.Parallel()
	s := watchSteps{now: time.Now()}
	enough := int64(DeadAfter / watchEvery)
	for i := range enough + 1 {
		dead, gone := s.look(watchEvery, beating("self", 0), beating("stopped", 7), beating("lives", i/4))
		if late := i == enough; len(gone) != 0 || slices.Equal(dead, []string{"stopped"}) != late || len(dead) != 0 && !late {
			t.Fatalf("after %v: dead %v, gone %v", time.Duration(i)*watchEvery, dead, gone)
		}
	}
	if dead, gone := s.look(watchEvery, beating("self", 0), beating("lives", enough)); dead != nil || !slices.Equal(gone, []string{"stopped"}) {
		t.Errorf("when others have fenced it: dead %v, gone %v", dead, gone)
	}
}

// TestWatchCountsOnlyWhatItSaw: time in which this process was frozen, or the database away,
// says nothing about the others.
func TestWatchCountsOnlyWhatItSaw(t *testing.T) {
	t.Parallel()
	s := watchSteps{now: time.Now()}
	s.look(0, beating("other", 1))
	if dead, _ := s.look(time.Hour, beating("other", 1)); dead != nil {
		t.Errorf("after an hour of not looking: dead %v", dead)
	}
	enough := int(DeadAfter / watchEvery)
	for range enough - 8 {
		s.look(watchEvery, beating("other", 1))
	}
	s.w.notListed()
	for i := range enough {
		if dead, _ := s.look(watchEvery, beating("other", 1)); (dead != nil) != (i == enough-1) {
			t.Errorf("%v after the database is back: dead %v", time.Duration(i+1)*watchEvery, dead)
		}
	}
	s.w.notListed()
	if _, gone := s.look(watchEvery); !slices.Equal(gone, []string{"other"}) {
		t.Errorf("one that went meanwhile: gone %v", gone)
	}
}
