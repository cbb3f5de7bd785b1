package seqlink

import (
	"context"
	"strings"
	"testing"
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

func TestOutboxMakesWaitWhenFull(t *testing.T) {
	t.Parallel()
	o := NewOutbox()
	o.Attach(true)
	for range maxFrames {
		o.Put("a", []byte(`{}`))
	}
	gone, cancel := context.WithCancel(context.Background())
	cancel()
	o.Room(gone) // ends with its context
	takeAll(o)
	waited := make(chan struct{})
	go func() {
		defer close(waited)
		o.Room(context.Background())
	}()
	o.Ack("a", 1)
	<-waited
}
