// Package blobtest is what every blob.Store promises.
package blobtest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strconv"
	"sync"
	"testing"

	"github.com/google/uuid"

	"aqueduct/store/blob"
)

// Run tries a Store.
func Run(t *testing.T, s blob.Store) {
	ctx := context.Background()
	id := func() string { return uuid.Must(uuid.NewV7()).String() }
	for _, size := range []int{0, 1, 64 << 10, 3<<20 + 7} {
		t.Run(strconv.Itoa(size), func(t *testing.T) {
			written(ctx, t, s, id(), bytes.Repeat([]byte{0, 0xff, '\n', 'x'}, size/4+1)[:size])
		})
	}
	t.Run("what is not there", func(t *testing.T) {
		if _, err := s.Open(ctx, id(), 1); !errors.Is(err, blob.ErrNotFound) {
			t.Errorf("opened: %v", err)
		}
		if err := s.Delete(ctx, id()); err != nil {
			t.Errorf("deleted: %v", err)
		}
	})
	t.Run("another size", func(t *testing.T) {
		one := id()
		put(ctx, t, s, one, []byte("three"))
		if from, err := s.Open(ctx, one, 9); err == nil {
			_, err = io.ReadAll(from)
			_ = from.Close() // it was read
			if err == nil {
				t.Error("a blob that lost bytes is read as a whole one")
			}
		}
	})
	t.Run("many at once", func(t *testing.T) {
		var all sync.WaitGroup
		for n := range 20 {
			all.Go(func() { written(ctx, t, s, id(), bytes.Repeat([]byte{byte(n)}, 100_000+n)) })
		}
		all.Wait()
	})
	t.Run("probe", func(t *testing.T) {
		one := id()
		if err := blob.Probe(ctx, s, one); err != nil {
			t.Error(err)
		}
		if _, err := s.Open(ctx, one, 26); !errors.Is(err, blob.ErrNotFound) {
			t.Errorf("it left its blob: %v", err)
		}
	})
}

func put(ctx context.Context, t *testing.T, s blob.Store, id string, data []byte) {
	t.Helper()
	if err := s.Put(ctx, id, data); err != nil {
		t.Error(err)
	}
}

// written writes a blob, reads it whole, in parts and from its end, and deletes it.
func written(ctx context.Context, t *testing.T, s blob.Store, id string, data []byte) {
	t.Helper()
	put(ctx, t, s, id, data)
	from, err := s.Open(ctx, id, int64(len(data)))
	if err != nil {
		t.Error(err)
		return
	}
	// As net/http does it: the size, a bit to look at, and all from the beginning.
	if end, err := from.Seek(0, io.SeekEnd); err != nil || end != int64(len(data)) {
		t.Errorf("it ends at %d of %d: %v", end, len(data), err)
	}
	for _, at := range []int{0, len(data) / 2, 0} {
		if _, err := from.Seek(int64(at), io.SeekStart); err != nil {
			t.Error(err)
		}
		few := make([]byte, min(9, len(data)-at))
		if _, err := io.ReadFull(from, few); err != nil || !bytes.Equal(few, data[at:at+len(few)]) {
			t.Errorf("at %d: %q %v", at, few, err)
		}
	}
	if _, err := from.Seek(0, io.SeekStart); err != nil {
		t.Error(err)
	}
	if got, err := io.ReadAll(from); err != nil || !bytes.Equal(got, data) {
		t.Errorf("%d bytes of %d read: %v", len(got), len(data), err)
	}
	if _, err := from.Seek(-1, io.SeekStart); err == nil {
		t.Error("a position before the beginning")
	}
	if err := from.Close(); err != nil {
		t.Error(err)
	}
	for range 2 {
		if err := s.Delete(ctx, id); err != nil {
			t.Error(err)
		}
	}
	if _, err := s.Open(ctx, id, int64(len(data))); len(data) > 0 && !errors.Is(err, blob.ErrNotFound) {
		t.Errorf("it is there after it was deleted: %v", err)
	}
}
