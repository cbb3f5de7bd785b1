package server_test

import (
	"errors"
	"io"
	"net/http"
	"strconv"
	"sync"
	"testing"

	"aqueduct/bridge/eventlog"
	"aqueduct/store"
)

// TestReconnectAtEveryIndex: a client that comes back after any event gets the rest, and
// all it has then is the whole log, byte for byte.
func TestReconnectAtEveryIndex(t *testing.T) {
	t.Parallel()
	const deltas = 296 // with start, end and the run's own two: 300
	h := newEnv(t, saysN(deltas))
	whole := h.chat("T", "R", "go")
	if len(whole) != 300 {
		t.Fatalf("%d events", len(whole))
	}
	want := chained([32]byte{}, whole)
	for k := range len(whole) + 1 {
		sum := chained([32]byte{}, whole[:k])
		req := h.request("GET", "/api/runs/R/events", "", "Accept", "text/event-stream", "Last-Event-ID", strconv.Itoa(k))
		if k == len(whole) {
			if got := h.send(req); got.status != 204 {
				t.Fatalf("returning with the last id: %d", got.status)
			}
			continue
		}
		if sum = chained(sum, h.open(req).rest()); sum != want {
			t.Fatalf("reconnecting after %d gives another log", k)
		}
	}
}

// TestReconnectWhileItGrows: a client that reads seven events at a time, each on a
// connection of its own, while the agent talks.
func TestReconnectWhileItGrows(t *testing.T) {
	t.Parallel()
	h := newEnv(t, saysN(200))
	first := h.open(h.prompt("T", "R", "go"))
	started, err := first.next()
	if err != nil {
		t.Fatal(err)
	}
	first.close()
	got, last := []frame{started}, started.id
	for typed(got, "RUN_FINISHED").data == "" {
		r := h.open(h.request("GET", "/api/runs/R/events?after=0", "", "Accept", "text/event-stream", "Last-Event-ID", last))
		n := 0
		frames, err := r.until(func(frame) bool { n++; return n == 7 })
		r.close()
		if err != nil && !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
		got = append(got, frames...)
		last = got[len(got)-1].id
	}
	again := h.open(h.request("GET", "/api/runs/R/events", "", "Accept", "text/event-stream")).rest()
	if chained([32]byte{}, got) != chained([32]byte{}, again) {
		t.Errorf("%d events in pieces, %d in one", len(got), len(again))
	}
}

// TestKeptIsSent: the bytes in the database are the bytes on the wire (AG-UI 1.0).
func TestKeptIsSent(t *testing.T) {
	t.Parallel()
	h := newEnv(t, saysN(50))
	sent := h.chat("T", "R", "<b>&\u2028 9007199254740993")
	session, err := h.store.SessionByExternalID(t.Context(), store.System(), "T")
	if err != nil {
		t.Fatal(err)
	}
	rows, err := h.store.Events(t.Context(), store.System(), session.ID, 0, 1<<30)
	if err != nil {
		t.Fatal(err)
	}
	var kept []frame
	eventlog.Each(rows, func(seq int64, event []byte) bool {
		kept = append(kept, frame{id: strconv.FormatInt(seq, 10), data: string(event)})
		return true
	})
	if len(kept) != len(sent) || chained([32]byte{}, kept) != chained([32]byte{}, sent) {
		t.Errorf("%d kept, %d sent, and not the same", len(kept), len(sent))
	}
}

// TestCursors: what each kind of position means.
func TestCursors(t *testing.T) {
	t.Parallel()
	h := newEnv(t, saysN(2)) // 6 events a run
	h.chat("T", "R1", "a")
	h.chat("T", "R2", "b")
	for name, c := range map[string]struct {
		path, last string
		status     int
		first      string // id
		frames     int
	}{
		"none":                        {"/api/runs/R2/events", "", 200, "7", 6},
		"before the slice":            {"/api/runs/R2/events", "3", 200, "7", 6},
		"at its edge":                 {"/api/runs/R2/events", "6", 200, "7", 6},
		"inside":                      {"/api/runs/R2/events", "9", 200, "10", 3},
		"the query":                   {"/api/runs/R2/events?after=9", "", 200, "10", 3},
		"the header goes before":      {"/api/runs/R2/events?after=9", "11", 200, "12", 1},
		"the last of a finished run":  {"/api/runs/R2/events", "12", 204, "", 0},
		"past a finished run":         {"/api/runs/R1/events", "8", 204, "", 0},
		"beyond the log":              {"/api/runs/R2/events", "13", 416, "", 0},
		"beyond the log, other run":   {"/api/runs/R1/events", "13", 416, "", 0},
		"not a number":                {"/api/runs/R2/events", "abc", 400, "", 0},
		"negative":                    {"/api/runs/R2/events?after=-1", "", 400, "", 0},
		"too large":                   {"/api/runs/R2/events", "99999999999999999999", 400, "", 0},
		"of another thread":           {"/api/threads/T/events", "13", 416, "", 0},
		"not a number, on a thread":   {"/api/threads/T/events?after=x", "", 400, "", 0},
		"a run that is not there":     {"/api/runs/R9/events", "1", 404, "", 0},
		"a position given as a float": {"/api/runs/R2/events?after=1.5", "", 400, "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			header := []string{"Accept", "text/event-stream"}
			if c.last != "" {
				header = append(header, "Last-Event-ID", c.last)
			}
			got := h.do("GET", c.path, "", header...)
			if got.status != c.status {
				t.Fatalf("%d %s", got.status, got.body)
			}
			if c.status != 200 {
				return
			}
			frames := stream(t, got.body)
			if len(frames) != c.frames || frames[0].id != c.first {
				t.Errorf("%d frames from %s", len(frames), frames[0].id)
			}
		})
	}
}

// TestThreadTail goes on across runs and does not end.
func TestThreadTail(t *testing.T) {
	t.Parallel()
	h := newEnv(t, saysN(2))
	first := h.chat("T", "R1", "a")
	r := h.open(h.request("GET", "/api/threads/T/events?after=3", "", "Accept", "text/event-stream"))
	second := h.chat("T", "R2", "b")
	got, err := r.until(func(f frame) bool { return f.id == "12" })
	if err != nil {
		t.Fatal(err)
	}
	if chained([32]byte{}, got) != chained([32]byte{}, append(first[3:], second...)) {
		t.Errorf("%s", types(got))
	}
	r.close()
}

// TestSamePostAtOnce: a client that sends its POST again, or a hundred times at once, gets
// one Run, and all get the same bytes.
func TestSamePostAtOnce(t *testing.T) {
	t.Parallel()
	h := newEnv(t, saysN(20))
	requests := make([]*http.Request, 100)
	for i := range requests {
		requests[i] = h.prompt("T", "R", "go")
	}
	bodies := make([]answer, len(requests))
	var all sync.WaitGroup
	for i, req := range requests {
		all.Go(func() { bodies[i] = h.send(req) })
	}
	all.Wait()
	for i, got := range bodies {
		if got.status != 200 || got.body != bodies[0].body {
			t.Fatalf("%d: %d, %d bytes; the first got %d", i, got.status, len(got.body), len(bodies[0].body))
		}
	}
	if n := len(h.agent.prompts()); n != 1 || h.threads() != 1 {
		t.Errorf("%d calls of the agent, %d threads", n, h.threads())
	}
}
