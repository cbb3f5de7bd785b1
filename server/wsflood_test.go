package server_test

import (
	"errors"
	"net"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"aqueduct/server/limit"
)

// TestS27Fragments: a message in many small fragments is cut at its limit before hello, and pings without end do not block
// other clients.
func TestS27Fragments(t *testing.T) {
	t.Parallel()
	h, ann, _ := people(t, saysN(1), limit.Limits{})
	conn, _, err := h.dial("/ws/ingress")
	if err != nil {
		t.Fatal(err)
	}
	pinging, _, err := h.dial("/ws/ingress")
	if err != nil {
		t.Fatal(err)
	}
	for range 5000 {
		if pinging.WriteControl(websocket.PingMessage, []byte("flood"), time.Now().Add(10*time.Second)) != nil {
			break
		}
	}
	raw := conn.NetConn()
	_ = raw.SetDeadline(time.Now().Add(20 * time.Second))
	fragment := append([]byte{0x00, 0x80 | 64, 0, 0, 0, 0}, make([]byte, 64)...) // masked by zeros
	first := append([]byte(nil), fragment...)
	first[0] = 0x01 // a text that goes on
	_, err = raw.Write(first)
	for range 1 << 18 { // 16 MiB, one of which is more than any hello
		if err != nil {
			break // the server has closed
		}
		_, err = raw.Write(fragment)
	}
	var late net.Error
	if err == nil || errors.As(err, &late) && late.Timeout() {
		t.Errorf("16 MiB of fragments were taken: %v", err)
	}
	if code := h.hello("ann", ann); code != "" {
		t.Errorf("hello beside the floods: %s", code)
	}
}
