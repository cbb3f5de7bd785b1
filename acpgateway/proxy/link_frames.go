// This file writes and reads the frames of one connection.

package proxy

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/gorilla/websocket"

	"aqueduct/acpgateway/wire"
)

// introduce is the first thing written on a connection: who the proxy is, and what it has.
// Behind is what the outbox has to send again, by run: the gateway knows by it which numbers to expect.
func (l *link) introduce(conn *websocket.Conn) error {
	// What waits was meant for the connection before, and both lists are sent anew right here.
	l.dropUrgent()
	me, err := l.host.info(l.out.Behind())
	if err != nil {
		return err
	}
	for _, f := range append([]wire.Frame{&wire.RegisterAgent{Agent: me}}, l.host.inventories()...) {
		if err := writeFrame(conn, f); err != nil {
			return err
		}
	}
	return nil
}

// write is the only writer of frames: who we are, what is urgent, then the outbox.
//
// Until register_ack it is not known whether the gateway counts frames, so the outbox is attached only then, or after
// ackWait for one that never sends it.
func (l *link) write(ctx context.Context, conn *websocket.Conn, registered <-chan struct{}) error {
	if err := l.introduce(conn); err != nil {
		return err
	}
	beat := time.NewTicker(l.cfg.Heartbeat)
	defer beat.Stop()
	var due <-chan time.Time // never, where lists are sent only at the start of a link
	if l.cfg.Inventory > 0 {
		list := time.NewTicker(l.cfg.Inventory)
		defer list.Stop()
		due = list.C
	}
	late := time.NewTimer(ackWait)
	defer late.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-registered:
			late.Stop()
			l.out.Attach(l.offers.Load().Seq)
		case <-late.C:
			l.out.Attach(false)
		case f := <-l.urgent:
			if err := writeFrame(conn, f); err != nil {
				return err
			}
		case <-beat.C:
			if err := l.beat(conn); err != nil {
				return err
			}
		case <-due:
			l.host.list()
		case <-l.out.Ready():
			if err := l.drain(conn); err != nil {
				return err
			}
		}
	}
}

// burst is how many frames go before the writer looks for what is urgent.
const burst = 64

// drain writes frames of the outbox, at most a burst of them. A frame whose write failed goes back to its place:
// whether the gateway got it is not known, and its number tells the gateway when it comes twice.
//
// The bound keeps heartbeats and acks in time while an agent floods.
func (l *link) drain(conn *websocket.Conn) error {
	for range burst {
		envelope, body, ok := l.out.Take()
		if !ok {
			return nil
		}
		if err := writeText(conn, body); err != nil {
			l.out.PutBack(envelope)
			return err
		}
	}
	l.out.Wake()
	return nil
}

// beat sends the contract's heartbeat, which the gateway counts as a sign of life of the proxy, and a WebSocket ping,
// whose pong is the gateway's sign of life for read.
func (l *link) beat(conn *websocket.Conn) error {
	at, err := json.Marshal(stamp())
	if err != nil {
		return err
	}
	if err := writeFrame(conn, &wire.Heartbeat{AgentID: l.cfg.ID, Timestamp: at}); err != nil {
		return err
	}
	return conn.WriteControl(websocket.PingMessage, nil, time.Now().Add(writeTimeout))
}

// read hands on the gateway's frames. It never waits for an agent: a slow one would delay all others, and the acks.
func (l *link) read(conn *websocket.Conn, registered chan<- struct{}) error {
	conn.SetReadLimit(inBytes)
	// Every message of the gateway's counts as a sign of life, and so does the pong for each beat.
	alive := func() error { return conn.SetReadDeadline(time.Now().Add(silences * l.cfg.Heartbeat)) }
	conn.SetPongHandler(func(string) error { return alive() })
	for {
		if err := alive(); err != nil {
			return err
		}
		kind, data, err := conn.ReadMessage()
		if websocket.IsCloseError(err, websocket.ClosePolicyViolation) {
			l.refused.Store(l.shown.Load()) // how the contract tells it: after the upgrade
		}
		if err != nil {
			return err
		}
		if kind != websocket.TextMessage {
			continue
		}
		head, frame, err := wire.Decode(data)
		if err != nil {
			// As the contract's proxy does: the contract has no answer for it.
			l.log.Warn("a message of the gateway was not understood", "type", head.Type, "err", err)
			continue
		}
		switch f := frame.(type) {
		case *wire.RegisterAck:
			if !f.Success {
				return errors.New("the gateway refused to register this proxy")
			}
			l.registered(f.Offers)
			l.log.Info("linked to the gateway", "url", l.cfg.URL, "id", l.cfg.ID, "counts", f.Offers.Seq)
			select {
			case registered <- struct{}{}:
			default:
			}
		case *wire.Ack:
			l.out.Ack(f.RunID, f.Seq)
		default:
			if l.isNew(head) {
				l.host.handle(frame)
			}
		}
	}
}

// registered keeps what the gateway offers.
//
// Another epoch is another process of the gateway, whose numbers begin anew.
func (l *link) registered(offers wire.Offers) {
	l.mu.Lock()
	if offers.Epoch != l.peer {
		l.peer = offers.Epoch
		clear(l.seen)
	}
	l.mu.Unlock()
	l.offers.Store(&offers)
}

// isNew records a counted frame, acknowledges it, and reports whether it has not come before.
// The gateway numbers its frames too and sends them again after a cut. A prompt that was handled before is
// acknowledged and not handled twice.
func (l *link) isNew(head wire.Head) bool {
	if head.Seq == 0 {
		return true
	}
	l.mu.Lock()
	seen := l.seen[head.RunID]
	l.seen[head.RunID] = max(seen, head.Seq)
	l.mu.Unlock()
	// The ack does not wait for the frame to be handled: a proxy that dies in between has lost its runs as well, and
	// the gateway learns that by the next epoch.
	l.sendNow(&wire.Ack{RunID: head.RunID, Seq: max(seen, head.Seq)})
	return head.Seq > seen
}

// dropUrgent drops what was meant for the last link.
func (l *link) dropUrgent() {
	for {
		select {
		case <-l.urgent:
		default:
			return
		}
	}
}

func writeFrame(conn *websocket.Conn, f wire.Frame) error {
	body, err := wire.Encode(f)
	if err != nil {
		return err
	}
	return writeText(conn, body)
}

func writeText(conn *websocket.Conn, body []byte) error {
	if err := conn.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
		return err
	}
	return conn.WriteMessage(websocket.TextMessage, body)
}
