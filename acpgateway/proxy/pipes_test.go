package proxy

import (
	"strings"
	"testing"

	"aqueduct/acpgateway/wire"
)

// TestS48PipesHoldNothingUp: a pipe without another end, which an agent reads by the proxy, holds up neither the answer nor the
// end of the proxy, whose cleanup here waits for it.
func TestS48PipesHoldNothingUp(t *testing.T) {
	t.Parallel()
	g := newGateway(t, oldAck)
	g.start(func(c *Config) { c.FS = true })
	g.send(`{"type":"acp_open","run_id":"r","init":{"script":"mkfifo p; ln -s p l"}}`)
	want[*wire.Opened](g)
	for _, path := range []string{"p", "l"} {
		g.prompt(path, "read "+path)
		if text, _ := g.said(); !strings.Contains(text, "not a regular file") {
			t.Error(text)
		}
	}
}
