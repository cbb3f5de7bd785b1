package faults_test

import (
	"bufio"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"aqueduct/store/storetest"
	"aqueduct/test/program"
)

// TestSlowReader: one reader takes 1 KiB a second beside 20 normal ones. Their p99 from
// request to end stays within 1.25 of what it is without it, the two taken in turn. The
// slow one is cut at its write deadline, and comes back by its last id to the same bytes.
func TestSlowReader(t *testing.T) {
	h := newServerEnv(t, "sqlite:"+storetest.SQLite(t))
	bulk := newLedger(t, "bulk", 0)
	whole, err := bulk.post(h.server, "bulk-r", "bulk 1200") // 10 MiB: more than sockets hold
	if err != nil || oneEnd(t, whole) != "RUN_FINISHED" {
		t.Fatal(len(whole), err)
	}
	h.flood(t, "warm", 2)
	if t.Failed() {
		t.FailNow()
	}
	var calm, beside time.Duration
	ok := false
	for try := 0; try < 3 && !ok; try++ { // others may use the machine
		var without, with []time.Duration
		for round := range 8 { // without, with, with, without, …
			name := fmt.Sprintf("flood-%d-%d", try, round)
			if round%4 == 0 || round%4 == 3 {
				without = append(without, h.flood(t, name, 8)...)
				continue
			}
			slow := startSlow(t, h.server)
			with = append(with, h.flood(t, name, 8)...)
			slow.close()
		}
		calm, beside = p99(without), p99(with)
		ok = beside <= max(calm*5/4, calm+5*time.Millisecond)
		t.Logf("p99 of %d runs: %v without, %v beside a slow reader (%.2f)", len(with), calm, beside, float64(beside)/float64(calm))
	}
	if !ok {
		t.Errorf("a slow reader holds the others up: p99 %v, without it %v", beside, calm)
	}
	cutAndBack(t, h, whole)
}

// flood has 20 clients run prompts and gives the spans from request to end.
func (h *serverEnv) flood(t *testing.T, name string, runs int) []time.Duration {
	const clients = 20
	spans := make([][]time.Duration, clients)
	var all sync.WaitGroup
	for c := range clients {
		all.Go(func() {
			l := newLedger(t, fmt.Sprintf("%s-%d", name, c), 200)
			for i := range runs {
				begun := time.Now()
				if _, err := l.post(h.server, fmt.Sprintf("%s-%d", l.thread, i), "count 200"); err != nil {
					t.Error(err)
					return
				}
				spans[c] = append(spans[c], time.Since(begun))
			}
		})
	}
	all.Wait()
	return slices.Concat(spans...)
}

func p99(spans []time.Duration) time.Duration {
	slices.Sort(spans)
	return spans[len(spans)*99/100].Round(100 * time.Microsecond)
}

// slowReader reads a long log, 1 KiB a second, through a socket that holds little.
type slowReader struct {
	cancel context.CancelFunc
	resp   *http.Response
	read   sync.WaitGroup
	hurry  chan struct{} // closed when it may read as fast as it likes
	got    strings.Builder
	err    error
}

func startSlow(t *testing.T, s *server) *slowReader {
	t.Helper()
	dialer := net.Dialer{Control: func(_, _ string, c syscall.RawConn) (err error) {
		failed := c.Control(func(fd uintptr) { err = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 4096) })
		return errors.Join(err, failed)
	}}
	client := &http.Client{Transport: program.Authorized(&http.Transport{DialContext: dialer.DialContext, DisableKeepAlives: true})}
	ctx, cancel := context.WithCancel(context.Background())
	req, err := http.NewRequestWithContext(ctx, "GET", s.url+"/api/runs/bulk-r/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", "text/event-stream")
	r := &slowReader{cancel: cancel, hurry: make(chan struct{})}
	if r.resp, err = client.Do(req); err != nil {
		t.Fatal(err)
	}
	r.read.Go(func() {
		for r.err == nil {
			_, r.err = io.CopyN(&r.got, r.resp.Body, 1<<10)
			select {
			case <-time.After(time.Second):
			case <-r.hurry:
			case <-ctx.Done():
			}
		}
	})
	return r
}

func (r *slowReader) close() {
	r.cancel()
	_ = r.resp.Body.Close()
	r.read.Wait()
}

// cutAndBack waits until the server cuts a slow reader, and has it come back.
func cutAndBack(t *testing.T, h *serverEnv, whole []event) {
	t.Helper()
	begun, before, peak := time.Now(), h.cutStreams(t), h.peak()
	slow := startSlow(t, h.server)
	for h.cutStreams(t) == before {
		if time.Since(begun) > 40*time.Second {
			t.Fatal("the slow reader is not cut")
		}
		time.Sleep(100 * time.Millisecond)
	}
	took := time.Since(begun)
	close(slow.hurry)
	slow.read.Wait()
	slow.close()
	if errors.Is(slow.err, io.EOF) && !errors.Is(slow.err, io.ErrUnexpectedEOF) {
		t.Error("the slow reader takes the cut for the end")
	}
	var got []event
	for in := (&stream{in: bufio.NewReader(strings.NewReader(slow.got.String()))}); ; {
		e, err := in.next()
		if err != nil {
			break
		}
		got = append(got, e)
	}
	if len(got) == 0 || len(got) >= len(whole) {
		t.Fatalf("the slow reader got %d of %d events", len(got), len(whole))
	}
	grown := (h.peak() - peak) >> 20
	t.Logf("the slow reader was cut after %v, with %d of %d events; peak memory grew by %d MiB", took.Round(100*time.Millisecond), len(got), len(whole), grown)
	if grown > 16 {
		t.Errorf("a slow reader costs %d MiB", grown)
	}
	last := strconv.FormatInt(got[len(got)-1].id, 10)
	in, err := h.stream("GET", "/api/runs/bulk-r/events", nil, "Last-Event-ID", last)
	if err != nil {
		t.Fatal(err)
	}
	rest, err := newLedger(t, "bulk", 0).drain(in)
	if err != nil {
		t.Fatal(err)
	}
	if digest(append(got, rest...)) != digest(whole) {
		t.Errorf("%d events, then %d after id %s: not the %d there are", len(got), len(rest), last, len(whole))
	}
}

func digest(log []event) [sha256.Size]byte {
	h := sha256.New()
	for _, e := range log {
		fmt.Fprintf(h, "%d %s\n", e.id, e.data)
	}
	return [sha256.Size]byte(h.Sum(nil))
}

// cutStreams is how many streams the server has cut because their readers were slow.
func (s *server) cutStreams(t *testing.T) string {
	t.Helper()
	resp, err := s.do(t.Context(), "GET", "/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		if strings.Contains(lines.Text(), `outcome="slow"`) {
			return lines.Text()
		}
	}
	return ""
}
