package judges_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// stateAgent starts an HTTP agent that works on the client's state, or breaks off, as the prompt asks. It reports what
// state it was given.
func stateAgent(t *testing.T) (url string) {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost { // whether it is well
			return
		}
		var call struct {
			Input struct {
				Content string `json:"content"`
			} `json:"input_message"`
			State json.RawMessage `json:"state"`
		}
		if err := json.NewDecoder(r.Body).Decode(&call); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		send := func(event string, data any) {
			raw, err := json.Marshal(data)
			if err != nil {
				panic(err)
			}
			fmt.Fprintf(w, "event: %s\ndata: %s\n\n", event, raw)
			_ = http.NewResponseController(w).Flush()
		}
		send("delta", map[string]string{"text": "given " + string(call.State) + " "})
		what, argument, _ := strings.Cut(call.Input.Content, " ")
		switch what {
		case "patch": // the argument is a JSON Patch
			send("state_delta", map[string]json.RawMessage{"delta": json.RawMessage(argument)})
		case "fail":
			send("error", map[string]string{"code": "out_of_luck", "message": "No luck."})
			return
		case "wait":
			<-r.Context().Done()
			return
		}
		send("done", struct{}{})
	}))
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s.URL
}
