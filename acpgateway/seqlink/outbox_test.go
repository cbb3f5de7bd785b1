package seqlink

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"

	"aqueduct/internal/bubbletest"
)

func takeAll(o *Outbox) string {
	var b strings.Builder
	for {
		_, body, ok := o.Take()
		if !ok {
			return b.String()
		}
		b.Write(body)
	}
}

func TestOutboxSendsAgainWhatIsNotAcknowledged(t *testing.T) {
	t.Parallel()
	o := NewOutbox()
	o.Put("a", []byte(`{"n":1}`))
	o.Put("b", []byte(`{"n":2}`))
	o.Put("a", []byte(`{"n":3}`))
	if got := takeAll(o); got != "" {
		t.Errorf("before a link: %s", got)
	}
	o.Attach(true)
	if got := takeAll(o); got != `{"n":1,"seq":1}{"n":2,"seq":1}{"n":3,"seq":2}` {
		t.Error(got)
	}
	o.Ack("a", 1)
	o.Detach()
	o.Put("a", []byte(`{"n":4}`))
	o.Attach(true)
	o.Ack("b", 1)
	o.Ack("a", 99) // more than was sent acknowledges what was
	o.Put("b", []byte(`{"n":5}`))
	if got := takeAll(o); got != `{"n":5,"seq":2}` {
		t.Error(got)
	}
	o.Ack("b", 2)
	if o.frames != 0 || o.bytes != 0 {
		t.Errorf("%d frames, %d bytes are left", o.frames, o.bytes)
	}
}

func TestOutboxForAnOldGateway(t *testing.T) {
	t.Parallel()
	o := NewOutbox()
	o.Attach(false)
	o.Put("a", []byte(`{"n":1}`))
	l, body, _ := o.Take()
	if string(body) != `{"n":1}` {
		t.Errorf("%s", body)
	}
	o.PutBack(l)
	o.Detach()
	o.Attach(false)
	if got := takeAll(o); got != `{"n":1}` {
		t.Error(got)
	}
	if o.frames != 0 || o.bytes != 0 {
		t.Errorf("%d frames, %d bytes are left", o.frames, o.bytes)
	}
}

// TestOutboxMakesWaitWhenFull: at the bound of frames, and at that of bytes, Room returns with its context only; below it
// returns whatever became of the context, and it wakes a sender that waits when there is room again.
func TestOutboxMakesWaitWhenFull(t *testing.T) {
	for name, fill := range map[string]func(o *Outbox){
		"frames": func(o *Outbox) {
			for range maxFrames {
				o.Put("a", []byte(`{}`))
			}
		},
		"bytes": func(o *Outbox) {
			o.Put("a", []byte(`{}`))
			o.Put("a", make([]byte, maxBytes-2))
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubbletest.Test(t, func(t *testing.T) {
				o := NewOutbox()
				o.Attach(true)
				fill(o)
				through := func(ctx context.Context) *atomic.Bool {
					returned := new(atomic.Bool)
					go func() {
						o.Room(ctx)
						returned.Store(true)
					}()
					return returned
				}
				ctx, cancel := context.WithCancel(t.Context())
				left, waits := through(ctx), through(t.Context())
				bubbletest.Wait()
				if left.Load() || waits.Load() {
					t.Fatal("there is room in a full outbox")
				}
				cancel()
				bubbletest.Wait()
				if !left.Load() || waits.Load() {
					t.Errorf("after one context has ended: that sender %t, the other %t", left.Load(), waits.Load())
				}
				takeAll(o) // written, and not acknowledged
				bubbletest.Wait()
				if waits.Load() {
					t.Error("what is written counts as acknowledged")
				}
				o.Ack("a", 1)
				bubbletest.Wait()
				if !waits.Load() {
					t.Error("a sender is not woken by an ack")
				}
				o.Room(ctx) // below the bound nothing is waited for
				o.Put("a", []byte(`{}`))
				again := through(t.Context())
				bubbletest.Wait()
				if again.Load() {
					t.Error("there is room in an outbox that is full again")
				}
				o.Forget()
				bubbletest.Wait()
				if !again.Load() {
					t.Error("a sender is not woken when the peer is a new process")
				}
			})
		})
	}
}
