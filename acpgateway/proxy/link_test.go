package proxy

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"aqueduct/acpgateway/wire"
)

// introducing is a linkHost whose introduction is several messages, as that of a proxy with agents is.
type introducing struct{ linkHost }

func (introducing) info(map[string]int64) (wire.ProxyInfo, error) { return wire.ProxyInfo{}, nil }

func (introducing) inventories() []wire.Frame {
	beats := make([]wire.Frame, 32)
	for i := range beats {
		beats[i] = &wire.Heartbeat{AgentID: "p", Timestamp: []byte(`"2026-01-01T00:00:00Z"`)}
	}
	return beats
}

// TestARefusedTokenIsNoticed: a gateway that refuses a token closes with 1008 while the proxy still introduces itself. The
// refusal counts, and not that the introduction could not be written.
func TestARefusedTokenIsNoticed(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, err := (&websocket.Upgrader{}).Upgrade(w, r, nil)
		if err != nil {
			return
		}
		_ = conn.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(websocket.ClosePolicyViolation, "Unauthorized"), time.Now().Add(time.Second))
		_ = conn.Close()
	}))
	t.Cleanup(srv.Close)
	token := func(context.Context) (string, error) { return "t", nil }
	cfg := Config{URL: "ws" + strings.TrimPrefix(srv.URL, "http"), ID: "p", Token: token, Heartbeat: time.Minute, Inventory: time.Minute, Log: slog.New(slog.DiscardHandler)}
	missed := make(map[string]int)
	for range 300 {
		l := newLink(cfg, introducing{})
		if err := l.connect(t.Context()); !websocket.IsCloseError(err, websocket.ClosePolicyViolation) || l.refused.Load() == nil {
			why := err.Error()
			if _, cause, ok := strings.Cut(why, "->"); ok {
				why = cause
			}

			missed[why]++
		}
	}
	if len(missed) > 0 {
		t.Errorf("of 300 refusals these were missed: %v", missed)
	}
}
