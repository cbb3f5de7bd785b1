package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"aqueduct/bridge"
	"aqueduct/server/limit"
	"aqueduct/store"
)

// mcpPatience bounds the waits of these tests.
const mcpPatience = 30 * time.Second

// mcpCall makes one call by MCP, and gives the text of its result later.
func (h *env) mcpCall(path, tool, args string) <-chan string {
	h.t.Helper()
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	s, err := client.Connect(h.t.Context(), &mcp.StreamableClientTransport{Endpoint: h.URL + path, HTTPClient: &http.Client{}}, nil)
	if err != nil {
		h.t.Fatal(err)
	}
	done := make(chan string, 1)
	go func() {
		defer func() { _ = s.Close() }()
		ctx, cancel := context.WithTimeout(context.Background(), mcpPatience)
		defer cancel()
		r, err := s.CallTool(ctx, &mcp.CallToolParams{Name: tool, Arguments: json.RawMessage(args)})
		if err != nil {
			done <- "error: " + err.Error()
			return
		}
		text, _ := r.Content[0].(*mcp.TextContent)
		done <- text.Text
	}()
	return done
}

// eventually waits until do has no error.
func eventually(t *testing.T, do func() error) {
	t.Helper()
	for end := time.Now().Add(mcpPatience); ; time.Sleep(20 * time.Millisecond) {
		err := do()
		if err == nil {
			return
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
	}
}

// TestMCPCallsOfAProgram: calls of a user's program that come side by side share one Turn of a thread of the user's, are asked
// for and run once each, are on record, and the Turn ends when they have.
func TestMCPCallsOfAProgram(t *testing.T) {
	t.Parallel()
	onBothDatabases(t, func(t *testing.T, db database) {
		w := newToolEnvWith(t, plan{open: db.open}, `{"verdict":"require_approval"}`, func(*toolEnv, bridge.Call) string { return "" })
		first, second := w.mcpCall("/mcp", "cut", `{"wood":"oak"}`), w.mcpCall("/mcp", "cut", `{"wood":"elm"}`)
		bad := w.mcpCall("/mcp", "cut", `{"wood":7}`)
		var open []string
		turns := map[string]bool{}
		eventually(t, func() error {
			var list struct {
				Approvals []struct {
					ID   string `json:"approval_id"`
					Turn string `json:"run_id"`
				}
			}
			if err := json.Unmarshal([]byte(w.do("GET", "/api/approvals?status=PENDING&thread_id=mcp", "").body), &list); err != nil || len(list.Approvals) != 2 {
				return fmt.Errorf("%+v %w", list, err)
			}
			for _, a := range list.Approvals {
				open, turns[a.Turn] = append(open, a.ID), true
			}
			return nil
		})
		if got := <-bad; !strings.HasPrefix(got, "invalid_arguments: ") {
			t.Error(got)
		}
		if len(turns) != 1 {
			t.Errorf("in %d Turns", len(turns))
		}
		for _, id := range open {
			if got := w.do("POST", "/api/approvals/"+id+"/decision", `{"approved":true}`); got.status != http.StatusOK {
				t.Error(got)
			}
		}
		if one, other := <-first, <-second; one != `{"cut":{"wood":"oak"}}` || other != `{"cut":{"wood":"elm"}}` || w.ran.Load() != 2 {
			t.Errorf("%s, %s, %d times", one, other, w.ran.Load())
		}
		for turn := range turns {
			eventually(t, func() error {
				got, err := w.store.Turn(t.Context(), store.System(), turn)
				if err == nil && got.Status != store.TurnDone {
					err = fmt.Errorf("the Turn is %s", got.Status)
				}
				return err
			})
		}
		if raw := w.do("GET", "/api/threads/mcp/messages", "").body; strings.Count(raw, `"role":"tool"`) != 2 || !strings.Contains(raw, "oak") {
			t.Error(raw)
		}
		if got := w.do("GET", "/api/agui/capabilities", ""); strings.Contains(got.body, `"mcp"`) {
			t.Errorf("the agent of MCP clients is offered to people: %s", got.body)
		}
	})
}

// TestMCPByRole: the tools are for users' programs and for agents with a token of a Turn.
func TestMCPByRole(t *testing.T) {
	t.Parallel()
	h, _, callers := organisation(t, saysN(1))
	list := func(token string) answer {
		return h.do("POST", "/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, append(bearerOf(token), "Accept", "application/json, text/event-stream")...)
	}
	if got := list(callers["u"]); got.status != http.StatusOK || !strings.Contains(got.body, `"tools"`) || !strings.Contains(got.body, `"cacheScope":"private"`) {
		t.Error(got) // a list is the tenant's: nothing in between may give it to others
	}
	for _, role := range []string{"p", "a", "m", "g", "o"} {
		if got := list(callers[role]); got.status != http.StatusForbidden {
			t.Error(role, got)
		}
	}
	if got := list("run_session_" + "00000000-0000-7000-8000-000000000000_x"); got.status != http.StatusUnauthorized {
		t.Error(got)
	}
}

// TestMCPBatch: each message of a batch counts against the limit on calls, and a batch has so many at most.
func TestMCPBatch(t *testing.T) {
	t.Parallel()
	w := newToolEnvWith(t, plan{limits: limit.Limits{Invokes: limit.Rate{PerSecond: 0.001, Burst: 5}}}, `{"risk":"low"}`, func(*toolEnv, bridge.Call) string { return "" })
	batch := func(n int) answer {
		var all []string
		for i := range n {
			all = append(all, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"cut","arguments":{"wood":"oak"}}}`, i))
		}
		return w.do("POST", "/mcp", "["+strings.Join(all, ",")+"]", "Accept", "application/json, text/event-stream")
	}
	if got := batch(51); got.status != http.StatusBadRequest || w.ran.Load() != 0 {
		t.Error(got, w.ran.Load())
	}
	// One was counted with the batch that was too long.
	if got := batch(3); got.status != http.StatusOK || strings.Count(got.body, `"structuredContent"`) != 3 || w.ran.Load() != 3 {
		t.Error(got, w.ran.Load())
	}
	if got := batch(2); got.status != http.StatusTooManyRequests || w.ran.Load() != 3 {
		t.Error(got, w.ran.Load())
	}
}
