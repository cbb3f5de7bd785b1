package goclients_test

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/r3labs/sse/v2"
)

// r3labs/sse only reads: it has no POST, so it neither asks, answers, stops, regenerates, edits
// nor sends tools, state or pictures. What those leave in the log it reads like everything else.

var errOver = errors.New("204: nothing is missing")

// subscription reads one Run with r3labs/sse over as many connections as its test makes.
type subscription struct {
	url  string
	got  map[string]string
	id   []byte // of the newest event
	last string // its type
}

func subscribe(s *server, run string) *subscription {
	return &subscription{url: s.url("/api/runs/" + run + "/events"), got: make(map[string]string)}
}

// read connects once and takes at most that many events. Each connection has a client of its
// own: the library moves its LastEventID when it has read an event, which may be one that its
// caller never gets when it is cancelled.
func (sub *subscription) read(t *testing.T, most int) error {
	t.Helper()
	client := sse.NewClient(sub.url, sse.ClientMaxBufferSize(4<<20))
	client.ReconnectStrategy = neverAgain{} // the test decides when to come back
	client.ResponseValidator = validate
	if sub.id != nil {
		client.LastEventID.Store(sub.id)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	taken := 0
	return client.SubscribeRawWithContext(ctx, func(ev *sse.Event) {
		if taken == most || len(ev.Data) == 0 {
			return
		}
		taken++
		sub.got[string(ev.ID)], sub.id = string(ev.Data), ev.ID
		_, rest, _ := strings.Cut(string(ev.Data), `"type":"`)
		sub.last, _, _ = strings.Cut(rest, `"`)
		if taken == most {
			cancel()
		}
	})
}

func validate(_ *sse.Client, resp *http.Response) error {
	switch resp.StatusCode {
	case http.StatusOK:
		return nil
	case http.StatusNoContent:
		return errOver
	}
	return errors.New(resp.Status)
}

// TestR3labs: every Run that the demo can show is read whole over connections that are cut after
// every event, and 204 reports that nothing is missing.
func TestR3labs(t *testing.T) {
	s := newServer(t)
	cuts := 0
	for _, part := range []string{"text", "think", "tool", "state", "activity", "step", "ask", "asks", "prefs", "all", "error", "flood 20"} {
		run := s.prompt(part)
		sub := subscribe(s, run)
		for err := error(nil); !errors.Is(err, errOver); cuts++ {
			if err = sub.read(t, 1); err != nil && !errors.Is(err, errOver) && !errors.Is(err, context.Canceled) {
				t.Fatalf("%s: %v", part, err)
			}
		}
		same(t, part, sub.got, s.log(run))
	}
	t.Logf("%d connections", cuts)
}

// TestR3labsKilled: the server is killed in mid-answer and started again. The client comes back
// by its last id, and receives how the Run ended.
func TestR3labsKilled(t *testing.T) {
	s := newServer(t)
	run := s.prompt("slow")
	sub := subscribe(s, run)
	_ = sub.read(t, 3)
	s.kill()
	if err := sub.read(t, 1); err == nil {
		t.Error("somebody still answers")
	}
	s.start()
	if err := sub.read(t, -1); err != nil {
		t.Fatal(err)
	}
	if sub.last != "RUN_ERROR" {
		t.Errorf("the Run ends with %s", sub.last)
	}
	same(t, "slow", sub.got, s.log(run))
}

func same(t *testing.T, what string, got, want map[string]string) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%s: %d events, %d are kept", what, len(got), len(want))
	}
	for id, data := range want {
		if _, err := strconv.Atoi(id); err != nil || got[id] != data {
			t.Errorf("%s: event %s is %q, %q is kept", what, id, got[id], data)
		}
	}
}

// neverAgain has the library not reconnect by itself.
type neverAgain struct{}

func (neverAgain) NextBackOff() time.Duration { return -1 }
func (neverAgain) Reset()                     {}
