package recorder

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"aqueduct/agui/doctor"
)

// TestRunsWithoutEnd: an endpoint that ends runs again and again is left when patience is over.
func TestRunsWithoutEnd(t *testing.T) {
	t.Parallel()
	left := make(chan struct{})
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if body, err := io.ReadAll(r.Body); err != nil || r.Method != http.MethodPost || strings.Contains(string(body), `"messages":42`) {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		for r.Context().Err() == nil {
			_, _ = io.WriteString(w, `data: {"type":"RUN_ERROR","message":"x"}`+"\n\n")
			_ = http.NewResponseController(w).Flush()
			time.Sleep(200 * time.Millisecond)
		}
		close(left)
	}))
	defer web.Close()
	go func() {
		select {
		case <-left:
		case <-time.After(15 * time.Second):
			web.CloseClientConnections()
		}
	}()
	began := time.Now()
	ex, err := Record(t.Context(), Options{URL: web.URL, Patience: time.Second})
	if took := time.Since(began); err != nil || ex.Run.Ended != doctor.GivenUp || took > 10*time.Second {
		t.Errorf("after %s: %v", took, err)
	}
}

// TestLineWithoutEnd: what comes without a line end is not copied again with each read.
func TestLineWithoutEnd(t *testing.T) {
	t.Parallel()
	r := &recording{run: new(doctor.Run), began: time.Now(), giveUp: time.NewTimer(time.Hour), patience: time.Hour}
	piece := bytes.Repeat([]byte("x"), 8<<10)
	began := time.Now()
	for range 4096 {
		r.take(piece)
	}
	if took := time.Since(began); took > 5*time.Second || len(r.line) != 4096*len(piece) {
		t.Errorf("%d bytes took %s", len(r.line), took)
	}
}
