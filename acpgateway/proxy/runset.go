package proxy

import (
	"maps"
	"slices"
	"sync"

	"aqueduct/acpgateway/wire"
)

// runSet is the directory of runs. A run that is closed leaves it at once, while its process may still live:
// another of the same id can be opened meanwhile, and starts its agent when that process is gone.
//
// The two maps are why close can answer at once and a second open for the same id is safe: byID holds what may be
// used, ending what is on its way out. start is called with mu held, and so calls nothing of the set.
type runSet struct {
	max   int // how many agents may live; 0 is any number
	start func(id string, before *run) *run

	mu     sync.Mutex
	byID   map[string]*run
	ending map[string]*run // closed ones whose process may still live
}

// get finds a run, or makes it.
func (rs *runSet) get(id string) *run {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	r := rs.byID[id]
	if r == nil {
		r = rs.start(id, rs.ending[id])
		rs.byID[id] = r
	}
	return r
}

// find finds a run.
func (rs *runSet) find(id string) *run {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	return rs.byID[id]
}

// all are the runs, the oldest first, in an order that does not change from one inventory to the next.
func (rs *runSet) all() []*run {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	return slices.SortedFunc(maps.Values(rs.byID), func(a, b *run) int { return a.created.Compare(b.created) })
}

// forget ends a run for good and waits for its process.
func (rs *runSet) forget(r *run) {
	if rs.detach(r) {
		rs.reportEnd(r, func() {})
	}
	<-r.gone
}

// detach takes a run out and stops it. False: another goroutine has.
func (rs *runSet) detach(r *run) bool {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if rs.byID[r.id] != r {
		return false
	}
	delete(rs.byID, r.id)
	rs.ending[r.id] = r
	r.stop(errRunClosed)
	return true
}

// reportEnd waits for the process of a run that was taken out, and reports its end.
func (rs *runSet) reportEnd(r *run, tell func()) {
	<-r.done
	tell()
	close(r.gone)
	rs.mu.Lock()
	defer rs.mu.Unlock()
	// Another run of the id may have been closed meanwhile, and stands there now.
	if rs.ending[r.id] == r {
		delete(rs.ending, r.id)
	}
}

// full reports whether as many agents live as may.
//
// It is a look and no reservation: two runs that start at the same moment may exceed the number by one. The gateway
// gives out the slots; this is the net under it.
func (rs *runSet) full() bool {
	if rs.max <= 0 {
		return false
	}
	n := 0
	for _, r := range rs.all() {
		r.mu.Lock()
		if r.agent != nil {
			n++
		}
		r.mu.Unlock()
	}
	return n >= rs.max
}

// living lists the runs for register_agent.
func (rs *runSet) living() []wire.RunInfo {
	var infos []wire.RunInfo
	for _, r := range rs.all() {
		r.mu.Lock()
		info := wire.RunInfo{RunID: r.id, Running: r.agent != nil}
		r.mu.Unlock()
		info.SessionID, info.PromptIDs = r.prompts.ids()
		infos = append(infos, info)
	}
	return infos
}

// awaitEnd waits for the process of a closed run of this id.
func (rs *runSet) awaitEnd(id string) {
	rs.mu.Lock()
	r := rs.ending[id]
	rs.mu.Unlock()
	if r != nil {
		<-r.gone
	}
}
