package mcpservers

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"aqueduct/bridge/tools"
)

// TestAServerByAddressThatAsksWithoutEnd: what a server asks over HTTP while it takes no answer is bounded as well.
func TestAServerByAddressThatAsksWithoutEnd(t *testing.T) {
	t.Parallel()
	f := newFar(t)
	r := run(t, Server{Name: "f", URL: f.URL})
	r.offers("f.echo")
	asked := make(chan int, 1)
	f.answers(func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodPost {
			return false
		}
		body, err := io.ReadAll(r.Body)
		var m struct {
			ID     json.RawMessage
			Method string
		}
		if err != nil || json.Unmarshal(body, &m) != nil {
			return true
		}
		switch m.Method {
		case "": // an answer
			<-r.Context().Done()
		case "tools/call":
			w.Header().Set("Content-Type", "text/event-stream")
			n, end := 0, time.Now().Add(5*time.Second)
			for ; err == nil && n < 200_000 && time.Now().Before(end); n++ {
				_, err = fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"id\":\"a%d\",\"method\":\"roots/list\",\"params\":{\"_meta\":{\"x\":%q}}}\n\n", n, strings.Repeat("x", 2000))
			}
			asked <- n
		default:
			w.WriteHeader(http.StatusAccepted)
		}
		return true
	})
	if got := r.call("f.echo", patience); got != tools.CodeUnknownOutcome {
		t.Error(got)
	}
	if n := <-asked; n > 5*mostUnanswered {
		t.Errorf("%d requests were taken", n)
	}
}
