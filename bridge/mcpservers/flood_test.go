package mcpservers

import (
	"bytes"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"aqueduct/internal/bubbletest"
)

// TestS69FloodOfListChanged: a server that reports a change every second for an hour has its list read once a minute, with one line of
// the log each, and after a quiet time a change is seen after the first pause again.
func TestS69FloodOfListChanged(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		s := newServer(Config{Logger: slog.New(slog.NewTextHandler(&log, nil)), Changed: func() {}}, Server{Name: "s"}, "epoch")
		var bad []*mcp.Tool
		for i := range 5 {
			bad = append(bad, &mcp.Tool{Name: fmt.Sprintf("a/%d", i)})
		}
		const flood = time.Hour
		began := time.Now()
		done := make(chan struct{})
		go func() {
			defer close(done)
			for time.Since(began) < flood {
				s.changed.Ring()
				time.Sleep(time.Second)
			}
		}()
		ended := make(chan error, 1)
		reads := 0
		for time.Since(began) < flood {
			if err := s.untilDue(t.Context(), nil, nil, ended); err != nil {
				t.Fatal(err)
			}
			reads++
			s.rows(bad)
		}
		<-done
		if most := int(flood/longestListPause) + 7; reads > most || bytes.Count(log.Bytes(), []byte("\n")) != reads {
			t.Errorf("%d lists, %d lines in an hour of reports", reads, bytes.Count(log.Bytes(), []byte("\n")))
		}
		time.Sleep(3 * longestListPause)
		s.changed.Clear()
		s.changed.Ring()
		began = time.Now()
		if err := s.untilDue(t.Context(), nil, nil, ended); err != nil || time.Since(began) != listPause {
			t.Errorf("after a quiet time a change is seen after %s: %v", time.Since(began), err)
		}
	})
}

// TestS69APauseEndsWithItsConnection: while a report is waited out, a connection that ends, or is lost, is seen at once.
func TestS69APauseEndsWithItsConnection(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		s := newServer(Config{Logger: slog.New(slog.DiscardHandler), Changed: func() {}}, Server{Name: "s"}, "epoch")
		s.pause, s.reported = longestListPause, time.Now()
		session := new(mcp.ClientSession)
		s.changed.Ring()
		began := time.Now()
		go func() {
			time.Sleep(listPause)
			s.lose(session)
		}()
		if err := s.untilDue(t.Context(), session, nil, nil); err == nil || time.Since(began) != listPause {
			t.Errorf("a lost session is seen after %s: %v", time.Since(began), err)
		}
	})
}
