package proxy

import (
	"fmt"
	"strings"
	"testing"

	"aqueduct/acpgateway/wire"
)

// TestAcpOpenRightBehindAcpClose: a gateway that gave up on an agent opens its run again at
// once. The new agent begins when the old one's end has been reported, and is not taken for it.
func TestAcpOpenRightBehindAcpClose(t *testing.T) {
	t.Parallel()
	g := newGateway(t, oldAck)
	g.start(nil)
	for range 5 {
		g.openRun()
		g.prompt("p", "wait")
		g.said()
		g.send(`{"type":"acp_close","run_id":"r"}`)
		g.send(`{"type":"acp_open","run_id":"r"}`)
		var told []string
		for len(told) == 0 || told[len(told)-1] != "acp_opened" {
			switch f := g.next().frame.(type) {
			case *wire.Exit, *wire.Closed:
				told = append(told, f.Type())
			case *wire.Opened:
				if told = append(told, f.Type()); !f.OK {
					t.Fatalf("it was not opened: %s", f.Error)
				}
			}
		}
		if got := strings.Join(told, " "); got != "acp_exit acp_closed acp_opened" {
			t.Fatalf("it told %s", got)
		}
	}
}

// TestAcpCloseMakesRoom: under max_concurrent the place of a run that was closed is free for
// an acp_open right behind.
func TestAcpCloseMakesRoom(t *testing.T) {
	t.Parallel()
	g := newGateway(t, oldAck)
	g.start(func(c *Config) { c.MaxConcurrent = 1 })
	g.openRun()
	before := "r"
	for i := range 5 {
		now := fmt.Sprint("r", i)
		g.send(`{"type":"acp_close","run_id":"` + before + `"}`)
		g.send(`{"type":"acp_open","run_id":"` + now + `"}`)
		if o := want[*wire.Opened](g); o.RunID != now || !o.OK {
			t.Fatalf("%+v", o)
		}
		before = now
	}
}
