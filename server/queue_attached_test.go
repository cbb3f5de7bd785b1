package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"testing"

	"aqueduct/store/blob"
)

// failingBlobs reads no blob while it has an error, or breaks off in the middle of one.
type failingBlobs struct {
	blob.Store
	err, broken atomic.Pointer[error]
}

func (f *failingBlobs) Open(ctx context.Context, id string, size int64) (io.ReadSeekCloser, error) {
	if err := f.err.Load(); err != nil {
		return nil, *err
	}
	from, err := f.Store.Open(ctx, id, size)
	if broken := f.broken.Load(); err == nil && broken != nil {
		return breaking{from, *broken}, nil
	}
	return from, err
}

// breaking is a blob of which nothing can be read.
type breaking struct {
	io.ReadSeekCloser
	err error
}

// Read implements io.Reader.
func (b breaking) Read([]byte) (int, error) { return 0, b.err }

// TestQueueOfUnreadable: a task whose attachment cannot be read keeps nothing from the others. It waits while the blob store is
// away, and fails where the bytes are gone.
func TestQueueOfUnreadable(t *testing.T) {
	t.Parallel()
	onFiles, _ := onDisk(t)
	blobs := &failingBlobs{Store: onFiles}
	g := newGate()
	close(g.open)
	h := newEnvWith(t, g.script, plan{blobs: blobs})
	away := errors.New("the bucket is away")
	for name, err := range map[string]*atomic.Pointer[error]{"away": &blobs.err, "broken": &blobs.broken} {
		err.Store(&away)
		first := h.queuesFile("first " + name)
		h.until(h.queues("second "+name, "second "+name, "").RunID, "DONE")
		if got := h.task(first.RunID); got.Status != "TAKEN" && got.Status != "WAITING" {
			t.Errorf("while the blob store is %s: %+v", name, got)
		}
		err.Store(nil)
		h.until(first.RunID, "DONE")
	}

	blobs.err.Store(&blob.ErrNotFound)
	lost := h.queuesFile("lost")
	if got := h.until(lost.RunID, "FAILED"); got.Error != "task_unreadable" {
		t.Errorf("without its bytes: %+v", got)
	}
	h.until(h.queues("last", "last", "").RunID, "DONE")
}

// queuesFile puts a prompt with a file into the queue.
func (h *env) queuesFile(request string) (out queuedTask) {
	h.t.Helper()
	file := h.uploads(bytes.Repeat([]byte{0, 1}, 100<<10), "application/octet-stream")
	body := fmt.Sprintf(`{"request_id":%q,"message":{"content":[{"type":"text","text":"see"},{"type":"document","source":{"type":"url","value":%q}}]}}`, request, file.URL)
	got := h.do("POST", "/v1/runs", body)
	if err := json.Unmarshal([]byte(got.body), &out); err != nil || got.status != 202 {
		h.t.Fatal(got)
	}
	return out
}
