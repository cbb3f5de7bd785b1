package main

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A row of /proc/net/tcp: connection from 127.0.0.x:40000 to 127.0.0.1:8080. The operator's stands first.
const tcpTable = `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:9C40 0100007F:1F90 01 00000000:00000000 00:00000000 00000000     0        0 4711 1 0000000000000000 20 4 30 10 -1
   1: 0200007F:9C40 0100007F:1F90 01 00000000:00000000 00:00000000 00000000  1234        0 4712 1 0000000000000000 20 4 30 10 -1
   2: 0300007F:9C40 0100007F:1F90 05 00000000:00000000 03:00000000 00000000     0        0 0 3 0000000000000000
`

// TestS21AgentChoosesPorts: an agent that binds the port of the operator's connection, on another address of this machine,
// stays an agent; and one that has closed its socket has no owner.
func TestS21AgentChoosesPorts(t *testing.T) {
	table := filepath.Join(t.TempDir(), "tcp")
	if err := os.WriteFile(table, []byte(tcpTable), 0o600); err != nil {
		t.Fatal(err)
	}
	server := netip.MustParseAddrPort("127.0.0.1:8080")
	for from, want := range map[string]uint32{"127.0.0.1:40000": 0, "127.0.0.2:40000": 1234, "[::ffff:127.0.0.2]:40000": 1234} {
		if uid, err := uidOf(table, netip.MustParseAddrPort(from), server); err != nil || uid != want {
			t.Errorf("%s: user %d (%v), want %d", from, uid, err, want)
		}
	}
	for _, from := range []string{"127.0.0.3:40000", "127.0.0.4:40000"} {
		if uid, err := uidOf(table, netip.MustParseAddrPort(from), server); err == nil {
			t.Errorf("%s: user %d, want nobody", from, uid)
		}
	}
}

// TestS21AgentClosesBehindItsRequest: of a socket that its process has closed the kernel reports uid 0.
func TestS21AgentClosesBehindItsRequest(t *testing.T) {
	for _, at := range []string{"127.0.0.1:0", "[::1]:0"} {
		l, err := net.Listen("tcp", at)
		if err != nil {
			if at == "[::1]:0" {
				continue // no IPv6 here
			}
			t.Fatal(err)
		}
		defer l.Close()
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		theirs, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		defer theirs.Close()
		r := (&http.Request{RemoteAddr: theirs.RemoteAddr().String()}).
			WithContext(context.WithValue(context.Background(), http.LocalAddrContextKey, theirs.LocalAddr()))
		if uid, err := peerUID(r); err != nil || int(uid) != os.Getuid() {
			t.Fatalf("%s: user %d (%v), want %d", at, uid, err, os.Getuid())
		}
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		_ = theirs.SetReadDeadline(time.Now().Add(10 * time.Second))
		if _, err := theirs.Read(make([]byte, 1)); err == nil || strings.Contains(err.Error(), "timeout") {
			t.Fatal("the end of the connection did not come")
		}
		if uid, err := peerUID(r); err == nil {
			t.Errorf("%s: user %d for a closed socket, want nobody", at, uid)
		}
	}
}
