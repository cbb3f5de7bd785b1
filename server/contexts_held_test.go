package server_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"aqueduct/bridge/contextstore"
	"aqueduct/server/limit"
	"aqueduct/store"
	"aqueduct/store/blob"
	"aqueduct/store/sqlite"
	"aqueduct/store/storetest"
)

// dataStore counts the contents that are read from rows.
type dataStore struct {
	store.Store
	reads atomic.Int32
}

func (s *dataStore) ContextData(ctx context.Context, in store.Scope, key string, version int64) ([]byte, error) {
	s.reads.Add(1)
	return s.Store.ContextData(ctx, in, key, version)
}

// TestContextInRows: a content that lies in its row is read only to be sent, and counts against its user's share of memory while
// it is.
func TestContextInRows(t *testing.T) {
	t.Parallel()
	st := new(dataStore)
	limits := limit.Limits{Body: 64 << 10, Bodies: 1 << 20, BodiesWait: 50 * time.Millisecond}
	h := newEnvWith(t, saysN(1), plan{limits: limits, open: func(t testing.TB) (_ store.Store, err error) {
		st.Store, err = sqlite.Open(t.Context(), storetest.SQLite(t), sqlite.Options{Sent: sentSQLite.Note})
		return st, err
	}})
	who := contextstore.Caller{Principal: store.LocalPrincipal()}
	mint := func(size int) string {
		e, err := h.entries.Mint(t.Context(), who, contextstore.Minting{Content: contextstore.Content{Type: "image/png", Data: []byte(strings.Repeat("\xff", size))}})
		if err != nil {
			t.Fatal(err)
		}
		return "/v1/context/" + e.Key
	}
	large, small := mint(900<<10), mint(100<<10) // a user has a share of all bodies, a half at most
	for _, a := range []answer{
		h.do("GET", large+"?format=entry", ""), h.do("PUT", small, "x", bytesOf("image/png")...), h.do("DELETE", small, ""),
	} {
		if a.status >= 300 {
			t.Error(a)
		}
	}
	if n := st.reads.Load(); n != 0 {
		t.Errorf("contents are read %d times for nothing", n)
	}
	if a := h.do("GET", large, ""); a.status != 503 || !strings.Contains(a.body, "too_many_bodies") {
		t.Errorf("%d %.200s", a.status, a.body)
	}
	small = mint(100 << 10)
	if a := h.do("GET", small, ""); a.status != 200 || len(a.body) != 100<<10 || st.reads.Load() != 1 {
		t.Errorf("%d %d bytes, %d reads", a.status, len(a.body), st.reads.Load())
	}
}

// stuckBlobs cannot delete one blob.
type stuckBlobs struct {
	blob.Store
	stuck atomic.Pointer[string]
}

func (s *stuckBlobs) Put(ctx context.Context, id string, data []byte) error {
	s.stuck.CompareAndSwap(nil, &id) // the first
	return s.Store.Put(ctx, id, data)
}

func (s *stuckBlobs) Delete(ctx context.Context, id string) error {
	if id == *s.stuck.Load() {
		return errors.New("it is locked")
	}
	return s.Store.Delete(ctx, id)
}

// TestContextStuckBlob: a blob that cannot be deleted keeps none of the others, and is reported.
func TestContextStuckBlob(t *testing.T) {
	t.Parallel()
	onFiles, files := onDisk(t)
	h := newEnvWith(t, saysN(1), plan{blobs: &stuckBlobs{Store: onFiles}})
	for range 3 {
		e := h.entry(h.do("POST", "/v1/context", strings.Repeat("\xff", 100<<10), bytesOf("image/png")...), 201)
		if a := h.do("DELETE", "/v1/context/"+e.ContextKey, ""); a.status != 204 {
			t.Fatal(a)
		}
	}
	if err := h.entries.Sweep(t.Context()); err == nil || !strings.Contains(err.Error(), "it is locked") {
		t.Errorf("the sweep reports %v", err)
	}
	if n := files(); n != 1 {
		t.Errorf("%d files are left", n)
	}
}
