// This file writes an answer. Two goroutines do: the function's, and one that sends heartbeats while the function is
// silent.

package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"time"
)

// outlet writes one answer: frames of the function, and heartbeats between them. A frame is one write under the lock,
// so a heartbeat stands between frames and never in one.
type outlet struct {
	w       http.ResponseWriter
	control *http.ResponseController
	leave   context.CancelFunc // ends the call when nothing can be written any more

	mu   sync.Mutex
	last time.Time
}

// encode makes one SSE event. JSON has no raw line breaks, so one data line is enough.
func encode(name string, data any) ([]byte, error) {
	raw, err := json.Marshal(data)
	if err != nil {
		return nil, fmt.Errorf("frame %s: %w", name, err)
	}
	return fmt.Appendf(nil, "event: %s\ndata: %s\n\n", name, raw), nil
}

// write sends bytes at once. A failure ends the call and is not returned: a function writes in many places, and its
// ctx is one.
func (o *outlet) write(raw []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	_ = o.control.SetWriteDeadline(time.Now().Add(writePatience)) // a recorder of tests has none
	if _, err := o.w.Write(raw); err != nil {                     //nolint:gosec // an event stream of JSON, which no browser renders
		o.leave()
	}
	if err := o.control.Flush(); err != nil {
		o.leave()
	}
	o.last = time.Now()
}

// beat shows in silence that the agent is alive, until ctx ends.
func (o *outlet) beat(ctx context.Context) {
	tick := time.NewTicker(heartbeat / 3)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if o.silent() >= heartbeat {
				o.write([]byte(": alive\n\n"))
			}
		}
	}
}

func (o *outlet) silent() time.Duration {
	o.mu.Lock()
	defer o.mu.Unlock()
	return time.Since(o.last)
}
