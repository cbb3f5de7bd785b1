package recorder

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"
	"time"
	"unsafe"

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

// TestS63RecordedBytesAreBounded: what an endpoint sends takes no more memory than is allowed, however it is cut or compressed,
// and in all answers together. If this fails, an endpoint that is examined fills the memory.
func TestS63RecordedBytesAreBounded(t *testing.T) {
	t.Parallel()
	const reads = 3_000_000 // which would take a fourfold of what is allowed
	bomb := func() io.Reader {
		pipe, into := io.Pipe()
		t.Cleanup(func() { _ = pipe.Close() })
		go func() {
			w := gzip.NewWriter(into)
			for zeros := make([]byte, 1<<20); ; {
				if _, err := w.Write(zeros); err != nil {
					return
				}
			}
		}()
		return pipe
	}
	for name, c := range map[string]struct {
		body     io.Reader
		encoding string
		before   int
	}{
		"a byte at a time":   {iotest.OneByteReader(io.LimitReader(endless{}, reads)), "", 0},
		"without an end":     {endless{}, "", 0},
		"compressed":         {bomb(), "gzip", 0},
		"a second answer":    {endless{}, "", mostBytes - 1<<20},
		"a second, in bytes": {iotest.OneByteReader(io.LimitReader(endless{}, reads)), "", mostBytes - 1<<20},
	} {
		r := &recording{run: new(doctor.Run), size: c.before, began: time.Now(), giveUp: time.NewTimer(time.Hour), patience: time.Hour}
		r.read(t.Context(), &http.Response{Body: io.NopCloser(c.body), Header: http.Header{"Content-Encoding": {c.encoding}}})
		held := c.before
		for _, chunk := range r.run.Chunks {
			held += cap(chunk.Data) + int(unsafe.Sizeof(chunk))
		}
		if most := mostBytes + readBytes + chunkBytes; held > most || r.run.Ended != doctor.GivenUp {
			t.Errorf("%s: %d bytes are held of at most %d; it ended by %v", name, held, most, r.run.Ended)
		}
	}
}

// endless is text without an end.
type endless struct{}

// Read implements io.Reader.
func (endless) Read(p []byte) (int, error) {
	copy(p, bytes.Repeat([]byte("x"), len(p)))
	p[len(p)-1] = '\n'
	return len(p), nil
}
