package agent

import (
	"io"
	"strings"
	"testing"
	"time"

	"aqueduct/internal/bubbletest"
)

// TestPatienceInSilence: a stream that was kept by comments alone and breaks is taken up again.
func TestPatienceInSilence(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		in := &incoming{tries: newTries()}
		r, w := io.Pipe()
		go func() {
			for range 8 {
				time.Sleep(15 * time.Second)
				_, _ = io.WriteString(w, ": alive\n\n")
			}
			_ = w.CloseWithError(io.ErrUnexpectedEOF)
		}()
		if ended, err := in.read(r); ended || err != nil {
			t.Fatal(ended, err)
		}
		if err := in.tries.wait(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// TestEventThatIsTooLong: an event without an end is an error, and no connection that broke: the call would be taken up again
// for ever.
func TestEventThatIsTooLong(t *testing.T) {
	t.Parallel()
	in := &incoming{tries: newTries()}
	if ended, err := in.read(strings.NewReader("data: " + strings.Repeat("x", maxEvent) + "\n\n")); ended || err == nil {
		t.Error(ended, err)
	}
}
