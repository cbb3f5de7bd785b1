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
	"aqueduct/internal/costtest"
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
	ex, err := Record(t.Context(), Options{URL: web.URL, Patience: time.Second})
	if err != nil || ex.Run.Ended != doctor.GivenUp { // another end where the endpoint was closed before
		t.Errorf("ended by %v, %v", ex.Run.Ended, err)
	}
}

// TestLineWithoutEnd: what comes without a line end is not copied again with each read.
func TestLineWithoutEnd(t *testing.T) {
	piece := bytes.Repeat([]byte("x"), 8<<10)
	costtest.Grows(t, "a line", 1024, func(pieces int) {
		r := &recording{run: new(doctor.Run), began: time.Now(), giveUp: time.NewTimer(time.Hour), patience: time.Hour}
		for range pieces {
			r.take(piece)
		}
		if len(r.line) != pieces*len(piece) {
			t.Errorf("%d bytes are kept", len(r.line))
		}
	})
}
