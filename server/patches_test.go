package server_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"aqueduct/bridge/httpagent"
)

// TestPatchesOfManyOperations: a valid patch is applied whatever its keys look like, on every road by which an agent sends one.
func TestPatchesOfManyOperations(t *testing.T) {
	t.Parallel()
	ops := []string{`{"op":"test","path":"/nil","value":null}`, `{"op":"test","path":"/one","value":1.0}`}
	for i := range 100 {
		ops = append(ops, fmt.Sprintf(`{"op":"add","path":"/phones/+49%d","value":%d},{"op":"add","path":"/phones/%04d","value":%d}`, i, i, i, i))
	}
	ops = append(ops, `{"op":"add","path":"/phones/","value":{"":"none"}}`, `{"op":"replace","path":"/phones//","value":"some"}`)
	patch := "[" + strings.Join(ops, ",") + "]"
	const before = `{"nil":null,"one":1,"phones":{}}`

	h, _ := withAGUIPeer(t, nil, func(int, aguiInput) string {
		return aguiBegin + `
{"type":"STATE_SNAPSHOT","snapshot":` + before + `}
{"type":"STATE_DELTA","delta":` + patch + `}
{"type":"ACTIVITY_SNAPSHOT","messageId":"a","activityType":"list","content":` + before + `}
{"type":"ACTIVITY_DELTA","messageId":"a","activityType":"list","patch":` + patch + `}` + aguiEnd
	})
	plain := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = fmt.Fprintf(w, "event: state_snapshot\ndata: {\"snapshot\":%s}\n\nevent: state_delta\ndata: {\"delta\":%s}\n\nevent: done\ndata: {}\n\n", before, patch)
	}))
	t.Cleanup(plain.Close)
	cfg := atHome(t)
	cfg.ID, cfg.URL = "plain", plain.URL+"/agent"
	agent := httpagent.New(cfg)
	h.agents.Add("plain", agent)
	t.Cleanup(agent.Close)

	for _, agent := range []string{"peer", "plain"} {
		run := h.open(h.request("POST", "/api/agui/chat?agent="+agent, inputBody("T-"+agent, "R-"+agent, "hi"))).rest()
		got := types(run)
		if strings.Contains(got, "CUSTOM") || !strings.Contains(got, "STATE_SNAPSHOT STATE_DELTA") || agent == "peer" && !strings.Contains(got, "ACTIVITY_SNAPSHOT ACTIVITY_DELTA") {
			t.Errorf("the run of %s is %s", agent, got)
		}
		joined := typed(h.open(h.request("POST", "/api/agui/connect", `{"threadId":"T-`+agent+`"}`)).rest(), "STATE_SNAPSHOT").data
		for _, want := range []string{`"+4999":99`, `"0099":99`, `"":{"":"some"}`} {
			if !strings.Contains(joined, want) {
				t.Errorf("the state of %s is without %s: %.300s", agent, want, joined)
			}
		}
	}
}
