package main

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// healthOf is an agent whose GET /health has this status; 0 never answers.
func healthOf(t *testing.T, status int) (url string, asked *atomic.Int32) {
	t.Helper()
	asked = new(atomic.Int32)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet || r.URL.Path != "/health" {
			t.Errorf("%s %s", r.Method, r.URL.Path)
		}
		if asked.Add(1); status == 0 {
			<-r.Context().Done()
			return
		}
		w.WriteHeader(status)
	}))
	t.Cleanup(web.Close)
	return web.URL, asked
}

// TestAgentsHealth: the directory has of each agent what its own /health answered to this server, and why it is not well, in words
// that name no address.
func TestAgentsHealth(t *testing.T) {
	t.Parallel()
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = gone.Close()
	args := []string{"--database", "sqlite:" + filepath.Join(t.TempDir(), "a.db"), "--outbound", "127.0.0.0/8"}
	want := map[string]string{"closed": "failing it cannot be reached"}
	args = append(args, "--agent", "closed=http://"+gone.Addr().String())
	asked := make(map[string]*atomic.Int32)
	for id, of := range map[string]struct {
		status int
		want   string
	}{
		"well":   {200, "online "},
		"ill":    {503, "failing its probe was answered with HTTP 503"},
		"moved":  {404, "failing its probe was answered with HTTP 404"},
		"silent": {0, "failing its probe was not answered in time"},
	} {
		var url string
		url, asked[id] = healthOf(t, of.status)
		args, want[id] = append(args, "--agent", id+"="+url), of.want
	}
	r := start(t, args...)
	url, _ := healthOf(t, 500) // one that a program registers while the server runs
	if status, body := r.post("/v1/agents/register", fmt.Sprintf(`{"agent_id":"late","endpoint":%q}`, url)); status != 200 {
		t.Fatal(status, body)
	}
	want["late"] = "failing its probe was answered with HTTP 500"
	var is map[string]string
	for end := time.Now().Add(25 * time.Second); fmt.Sprint(is) != fmt.Sprint(want); time.Sleep(50 * time.Millisecond) {
		if is = r.health(); time.Now().After(end) {
			t.Fatalf("the agents are %v, want %v", is, want)
		}
	}
	for id, n := range asked {
		if n.Load() != 1 {
			t.Errorf("%s was asked %d times", id, n.Load())
		}
	}
}

// health is the status of each agent of the directory, and why.
func (r *running) health() map[string]string {
	r.t.Helper()
	resp, err := r.client.Get(r.URL + "/v1/agents")
	if err != nil {
		r.t.Fatal(err)
	}
	defer resp.Body.Close()
	var list struct {
		Agents []struct {
			AgentID string `json:"agent_id"`
			Status  string
			Reason  string
			Checked time.Time `json:"checked_at"`
		}
	}
	if err := json.NewDecoder(resp.Body).Decode(&list); err != nil {
		r.t.Fatal(err)
	}
	is := make(map[string]string)
	for _, a := range list.Agents {
		if is[a.AgentID] = a.Status + " " + a.Reason; strings.Contains(a.Reason, "127.0.0.1") || a.Status != "unknown" && a.Checked.IsZero() {
			r.t.Errorf("%s: %+v", a.AgentID, a)
		}
	}
	return is
}
