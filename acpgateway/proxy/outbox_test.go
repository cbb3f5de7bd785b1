package proxy

import (
	"context"
	"strings"
	"testing"
)

func takeAll(o *outbox) string {
	var b strings.Builder
	for {
		_, body, ok := o.take()
		if !ok {
			return b.String()
		}
		b.Write(body)
	}
}

func TestOutboxSendsAgainWhatIsNotAcknowledged(t *testing.T) {
	t.Parallel()
	o := newOutbox()
	o.put("a", []byte(`{"n":1}`))
	o.put("b", []byte(`{"n":2}`))
	o.put("a", []byte(`{"n":3}`))
	if got := takeAll(o); got != "" {
		t.Errorf("before a link: %s", got)
	}
	o.attach(true)
	if got := takeAll(o); got != `{"n":1,"seq":1}{"n":2,"seq":1}{"n":3,"seq":2}` {
		t.Error(got)
	}
	o.ack("a", 1)
	o.detach()
	o.put("a", []byte(`{"n":4}`))
	o.attach(true)
	o.ack("b", 1)
	o.ack("a", 99) // more than was sent acknowledges what was
	o.put("b", []byte(`{"n":5}`))
	if got := takeAll(o); got != `{"n":5,"seq":2}` {
		t.Error(got)
	}
	o.ack("b", 2)
	if o.frames != 0 || o.bytes != 0 {
		t.Errorf("%d frames, %d bytes are left", o.frames, o.bytes)
	}
}

func TestOutboxForAnOldGateway(t *testing.T) {
	t.Parallel()
	o := newOutbox()
	o.attach(false)
	o.put("a", []byte(`{"n":1}`))
	l, body, _ := o.take()
	if string(body) != `{"n":1}` {
		t.Errorf("%s", body)
	}
	o.putBack(l)
	o.detach()
	o.attach(false)
	if got := takeAll(o); got != `{"n":1}` {
		t.Error(got)
	}
	if o.frames != 0 || o.bytes != 0 {
		t.Errorf("%d frames, %d bytes are left", o.frames, o.bytes)
	}
}

func TestOutboxMakesWaitWhenFull(t *testing.T) {
	t.Parallel()
	o := newOutbox()
	o.attach(true)
	for range outboxFrames {
		o.put("a", []byte(`{}`))
	}
	gone, cancel := context.WithCancel(context.Background())
	cancel()
	o.room(gone) // ends with its context
	takeAll(o)
	waited := make(chan struct{})
	go func() {
		defer close(waited)
		o.room(context.Background())
	}()
	o.ack("a", 1)
	<-waited
}
