package registry

import (
	"context"
	"encoding/json"
	"log/slog"
	"reflect"
	"sync"
	"time"

	"aqueduct/bridge"
	"aqueduct/internal/retry"
	"aqueduct/store"
)

// syncEvery is how soon what was registered at another replica is known here. A chat that names an agent which is not
// known yet does not wait for it (syncer.one).
const syncEvery = 2 * time.Second

// syncer has the Directory follow the rows of agents that programs registered. Agents of flags and proxies are put there by
// those who made them.
type syncer struct {
	store     store.Store
	directory *bridge.Directory
	sealer    sealer
	make      func(Upstream) bridge.Agent
	log       *slog.Logger

	mu    sync.Mutex        // held over a read and what follows from it: an older read must not be applied behind a newer
	stamp store.AgentsStamp // of the rows that all read last; the zero value has them read anew
	made  map[string]made   // by id: what this syncer has put into the Directory, and nothing of others
}

// made is an agent in the Directory and the row that it was made of.
type made struct {
	row   store.Agent
	agent bridge.Agent
}

// run follows the rows until ctx ends. A read that fails leaves the Directory as it is: agents that were known stay
// reachable while the store is away, and what changed meanwhile is found by the next read.
func (s *syncer) run(ctx context.Context) error {
	for {
		if err := s.all(ctx); err != nil && ctx.Err() == nil {
			s.log.Warn("the directory of agents was not read; it is tried again", slog.Any("error", err))
		}
		if retry.Sleep(ctx, syncEvery) != nil {
			return nil
		}
	}
}

// all reads the rows if any of them changed. An unchanged directory costs one small query each time, however many agents
// there are and however many replicas look.
func (s *syncer) all(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	// The stamp is read first: what changes while the rows are read changes the next one.
	stamp, err := s.store.AgentsStamp(ctx, store.System())
	if err != nil || stamp == s.stamp {
		return err
	}
	known := make(map[string]bool)
	for page := (store.Page{Limit: store.MaxPageLimit}); ; {
		rows, err := s.store.Agents(ctx, store.System(), page)
		if err != nil {
			return err
		}
		for _, row := range rows {
			known[row.ID] = true
			s.apply(row)
		}
		if len(rows) < page.Size() {
			break
		}
		page.After = rows[len(rows)-1].ID
	}
	for id := range s.made {
		if !known[id] {
			s.drop(id)
		}
	}
	s.stamp = stamp
	return nil
}

// one reads one row: it was written here, or is wanted and not known yet. It has no part in when all reads next, except that
// all must then compare with nothing.
func (s *syncer) one(ctx context.Context, id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	// An agent may be registered elsewhere, applied here, and removed elsewhere, all between two reads of all. The rows are
	// then as they were at the first of them, the stamps are equal, and what was applied here would stay for ever.
	s.stamp = 0
	row, err := s.store.Agent(ctx, store.System(), id)
	switch {
	case err == nil:
		s.apply(row)
	case isMissing(err):
		s.drop(id)
		err = nil
	}
	return err
}

// apply makes the agent of a row. One that did not change stays, because connections to it are open and its last probe is
// known. A Turn that is under way keeps the agent it began with, whatever happens here.
func (s *syncer) apply(row store.Agent) {
	if row.Source != store.AgentFromAPI {
		s.drop(row.ID)
		return
	}
	row.LastHeartbeatAt = time.Time{} // it changes nothing here
	if reflect.DeepEqual(s.made[row.ID].row, row) {
		return
	}
	header, secret, err := s.sealer.open(row)
	if err != nil {
		// Without its credential the agent would refuse each call; with an old one it might take them.
		s.drop(row.ID)
		s.log.Error("the credential of a registered agent cannot be opened; register it again", slog.String("agent", row.ID), slog.Any("error", err))
		return
	}
	c := settingsOf(row.Capabilities)
	next := made{row, s.make(Upstream{ID: store.AgentID(row.ID), URL: row.Endpoint, Protocol: row.Protocol, Header: header, Secret: secret, Resumable: c.Resumable, KeepRaw: c.Raw == KeepRaw})}
	// Put compares: an agent of a flag or of a proxy may have come under this id since the row was written, and the
	// operator's goes first. Its claim then changes the row, which is read as one that is no registration.
	if !s.directory.Put(row.Tenant, row.ID, s.before(row.ID), next.agent) {
		s.log.Error("an agent of this server's own configuration has the id of a registered one, which is not called", slog.String("agent", row.ID))
		return
	}
	s.made[row.ID] = next
}

// settings are the members of capabilities that decide how an agent is called.
type settings struct {
	Resumable bool   `json:"resumable"`
	Raw       string `json:"raw"`
}

func settingsOf(capabilities json.RawMessage) (c settings) {
	_ = json.Unmarshal(capabilities, &c) // a list, or a member of another type, sets nothing
	return c
}

// before is the agent that the syncer has under an id; nil when there is none.
func (s *syncer) before(id string) bridge.Agent { return s.made[id].agent }

func (s *syncer) drop(id string) {
	if before := s.before(id); before != nil {
		s.directory.Take(id, before)
		delete(s.made, id)
	}
}
