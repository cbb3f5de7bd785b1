package eventlog

import (
	"context"
	"sync"

	"aqueduct/store"
)

// memory is as much of a store as a Log needs, for tests that turn the clock: nothing in
// it waits for anything outside of the test.
type memory struct {
	store.Store // nil: anything else is not to be called
	mu          sync.Mutex
	rows        map[string][]store.EventRow
}

func (m *memory) Commit(_ context.Context, b *store.Batch) (store.Result, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.rows == nil {
		m.rows = make(map[string][]store.EventRow)
	}
	for _, r := range b.Events {
		if m.last(r.SessionID) >= r.FirstSeq() {
			return store.Result{}, store.ErrConflict
		}
	}
	for _, r := range b.Events {
		m.rows[r.SessionID] = append(m.rows[r.SessionID], r)
	}
	return store.Result{}, nil
}

func (m *memory) last(sessionID string) int64 {
	rows := m.rows[sessionID]
	if len(rows) == 0 {
		return 0
	}
	return rows[len(rows)-1].LastSeq
}

func (m *memory) Events(_ context.Context, _ store.Scope, sessionID string, after int64, _ int) ([]store.EventRow, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []store.EventRow
	for _, r := range m.rows[sessionID] {
		if r.LastSeq > after {
			all = append(all, r)
		}
	}
	return all, nil
}

func (m *memory) LastSeq(_ context.Context, _ store.Scope, sessionID string) (int64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.last(sessionID), nil
}

func (m *memory) Register(context.Context, store.Replica) error { return nil }
