package faults_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/gorilla/websocket"
	"github.com/pelletier/go-toml/v2"

	"aqueduct/store/storetest"
	"aqueduct/test/program"
)

// contractConfig is the whole settings file of a proxy written to the contract: a key that it does not know ends its start.
type contractConfig struct {
	OrchestratorURL          string   `toml:"orchestrator_url"`
	AuthToken                string   `toml:"auth_token"`
	RegisterURL              string   `toml:"register_url"`
	BootstrapToken           string   `toml:"bootstrap_token"`
	HeartbeatSeconds         int      `toml:"heartbeat_seconds"`
	InventoryIntervalSeconds int      `toml:"inventory_interval_seconds"`
	MockMode                 bool     `toml:"mock_mode"`
	SkillsMountingEnabled    bool     `toml:"skills_mounting_enabled"`
	AgentCommand             []string `toml:"agent_command"`
	Sandbox                  struct {
		TerminalEnabled   bool              `toml:"terminalEnabled"`
		Provider          string            `toml:"provider"`
		WorkingDir        string            `toml:"workingDir"`
		WorkspaceProvider string            `toml:"workspaceProvider"`
		WorkspaceHostRoot string            `toml:"workspaceHostRoot"`
		Env               map[string]string `toml:"env"`
	} `toml:"sandbox"`
	Agent struct {
		ID            string         `toml:"id"`
		MaxConcurrent int            `toml:"max_concurrent"`
		Capabilities  map[string]any `toml:"capabilities"`
	} `toml:"agent"`
}

// contractProxy is a proxy with the habits of the contract's own: it invents its id at its first start and keeps it in a
// file, registers at every start with the same bootstrap token and keeps no token, counts no frames, names no instance of a
// workspace, and has an agent that repeats its prompt.
type contractProxy struct {
	t        *testing.T
	cfg      contractConfig
	id       string
	conn     *websocket.Conn
	ended    chan struct{}
	sessions map[string]string // by run

	mu      sync.Mutex // of writing
	answers map[string]chan string
}

// identity is the proxy's id, made at its first start.
func identity(t *testing.T, home string) string {
	t.Helper()
	path := filepath.Join(home, "identity.json")
	var kept struct {
		AgentID string `json:"agentId"`
	}
	if raw, err := os.ReadFile(path); err == nil && json.Unmarshal(raw, &kept) == nil {
		return kept.AgentID
	}
	kept.AgentID = "host-" + uuid.NewString()
	raw, err := json.Marshal(kept)
	if err == nil {
		err = os.WriteFile(path, raw, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return kept.AgentID
}

// register trades the bootstrap token for one of the proxy's own, and is the status of the answer.
func (p *contractProxy) register() (token string, status int) {
	p.t.Helper()
	body, err := json.Marshal(map[string]string{"proxyId": p.id, "name": p.id})
	if err != nil {
		p.t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(p.t.Context(), http.MethodPost, p.cfg.RegisterURL, bytes.NewReader(body))
	if err != nil {
		p.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-Acp-Proxy-Bootstrap", p.cfg.BootstrapToken)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		p.t.Fatal(err)
	}
	defer resp.Body.Close()
	var answer struct{ Data struct{ Token string } }
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		p.t.Fatal(err)
	}
	return answer.Data.Token, resp.StatusCode
}

// newContractProxy is one that has read its settings and knows its id; home is its own folder.
func newContractProxy(t *testing.T, config, home string) *contractProxy {
	t.Helper()
	raw, err := os.ReadFile(config)
	if err != nil {
		t.Fatal(err)
	}
	p := &contractProxy{t: t, id: identity(t, home), sessions: map[string]string{}, answers: map[string]chan string{}, ended: make(chan struct{})}
	if err := toml.NewDecoder(bytes.NewReader(raw)).DisallowUnknownFields().Decode(&p.cfg); err != nil {
		t.Fatal(err)
	}
	return p
}

// start registers, connects, and serves until stop.
func (p *contractProxy) start() *contractProxy {
	p.t.Helper()
	token, status := p.register()
	if status != http.StatusOK || token == "" {
		p.t.Fatalf("the proxy is refused: %d", status)
	}
	conn, resp, err := websocket.DefaultDialer.DialContext(p.t.Context(), p.cfg.OrchestratorURL, http.Header{"Authorization": {"Bearer " + token}})
	if err != nil {
		p.t.Fatal(err)
	}
	_ = resp.Body.Close()
	p.conn = conn
	p.send(map[string]any{"type": "register_agent", "agent": map[string]any{
		"id": p.id, "name": p.id, "max_concurrent": p.cfg.Agent.MaxConcurrent, "capabilities": map[string]any{"acpTunnel": true, "languages": p.cfg.Agent.Capabilities["languages"]},
	}})
	now := time.Now().UTC().Format(time.RFC3339)
	p.send(map[string]any{"type": "sandbox_inventory", "inventory_id": uuid.NewString(), "provider": p.cfg.Sandbox.Provider, "runtime": nil, "captured_at": now, "instances": []any{}})
	var workspaces []any
	entries, _ := os.ReadDir(p.cfg.Sandbox.WorkspaceHostRoot) // none yet
	for _, e := range entries {
		run, _ := strings.CutPrefix(e.Name(), "run-")
		workspaces = append(workspaces, map[string]any{
			"workspace_provider": "host", "run_id": run, "instance_name": nil, "host_path": filepath.Join(p.cfg.Sandbox.WorkspaceHostRoot, e.Name()), "guest_path": nil,
			"exists": true, "mtime": now, "size_bytes": nil,
		})
	}
	p.send(map[string]any{"type": "workspace_inventory", "inventory_id": uuid.NewString(), "captured_at": now, "workspace_provider": "host", "workspaces": workspaces})
	p.send(map[string]any{"type": "heartbeat", "agent_id": p.id, "timestamp": now})
	go p.serve()
	return p
}

func (p *contractProxy) stop() {
	_ = p.conn.Close()
	<-p.ended
}

func (p *contractProxy) send(frame any) {
	raw, err := json.Marshal(frame)
	if err != nil {
		p.t.Error(err)
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	_ = p.conn.WriteMessage(websocket.TextMessage, raw) // a broken link is seen by the reader
}

// serve takes the gateway's frames until the link ends.
func (p *contractProxy) serve() {
	defer close(p.ended)
	var prompts sync.WaitGroup
	defer prompts.Wait()
	for {
		_, raw, err := p.conn.ReadMessage()
		if err != nil {
			return
		}
		var f struct {
			Type      string
			RunID     string `json:"run_id"`
			PromptID  string `json:"prompt_id"`
			RequestID string `json:"request_id"`
			Outcome   string
			OptionID  string `json:"option_id"`
			Init      struct{ AgentInputs json.RawMessage }
			Prompt    []struct{ Text string }
		}
		if err := json.Unmarshal(raw, &f); err != nil {
			p.t.Errorf("%s: %v", raw, err)
			continue
		}
		switch f.Type {
		case "acp_open":
			if len(f.Init.AgentInputs) == 0 { // as the contract's own refuses it
				p.send(map[string]any{"type": "acp_opened", "run_id": f.RunID, "ok": false, "error": "Error: init.agentInputs missing"})
				continue
			}
			if err := os.MkdirAll(filepath.Join(p.cfg.Sandbox.WorkspaceHostRoot, "run-"+f.RunID), 0o700); err != nil {
				p.t.Error(err)
			}
			p.signal(f.RunID, map[string]any{"type": "sandbox_instance_status", "instance_name": "tuixiu-run-" + f.RunID, "provider": "host_process", "runtime": nil, "status": "running", "last_seen_at": time.Now().UTC().Format(time.RFC3339), "last_error": nil})
			p.signal(f.RunID, map[string]any{"type": "transport_connected", "instance_name": "tuixiu-run-" + f.RunID, "at": time.Now().UTC().Format(time.RFC3339)})
			p.signal(f.RunID, map[string]any{"type": "text", "text": "[agent:stderr] the agent is up"})
			p.send(map[string]any{"type": "acp_opened", "run_id": f.RunID, "ok": true})
		case "prompt_send":
			prompts.Go(func() { p.prompt(f.RunID, f.PromptID, f.Prompt[len(f.Prompt)-1].Text) })
		case "session_permission":
			p.mu.Lock()
			answer := p.answers[f.RequestID]
			p.mu.Unlock()
			if answer == nil {
				p.t.Errorf("an answer to nothing: %s", raw)
				continue
			}
			answer <- f.Outcome + " " + f.OptionID
		}
	}
}

func (p *contractProxy) signal(run string, content any) {
	p.send(map[string]any{"type": "proxy_update", "run_id": run, "content": content})
}

// prompt does one: it repeats the words, and asks for permission before where they begin with "may".
func (p *contractProxy) prompt(run, prompt, words string) {
	session := "s-" + run[:8]
	update := func(u any) {
		p.send(map[string]any{"type": "acp_update", "run_id": run, "prompt_id": prompt, "session_id": session, "update": u})
	}
	update(map[string]any{"sessionUpdate": "session_created", "content": map[string]any{"type": "session_created"}})
	if strings.HasPrefix(words, "may") {
		const request = "0" // the id of a JSON-RPC request: it begins anew with each agent
		answer := make(chan string, 1)
		p.mu.Lock()
		p.answers[request] = answer
		p.mu.Unlock()
		call := map[string]any{"toolCallId": "c1", "title": "rm x", "kind": "execute", "rawInput": map[string]any{"command": "rm x"}}
		p.signal(run, map[string]any{"type": "permission_request", "request_id": request, "session_id": session, "prompt_id": prompt, "tool_call": call, "options": []any{
			map[string]any{"optionId": "go", "name": "Allow", "kind": "allow_once"}, map[string]any{"optionId": "no", "name": "Reject", "kind": "reject_once"},
		}})
		select {
		case words = <-answer:
		case <-p.t.Context().Done():
			return
		}
		update(map[string]any{"sessionUpdate": "tool_call_update", "toolCallId": "c1", "status": "completed"})
	}
	update(map[string]any{"sessionUpdate": "agent_message_chunk", "content": map[string]any{"type": "text", "text": "<" + words + ">"}})
	p.send(map[string]any{"type": "prompt_result", "run_id": run, "prompt_id": prompt, "ok": true, "session_id": session, "stop_reason": "end_turn", "session_created": true, "session_recreated_from": nil})
}

// linkOf waits until the server has a proxy's link, or has noticed its end.
func (y *acpEnv) linkOf(id string, linked bool) {
	y.t.Helper()
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		var p struct{ Linked bool }
		if found, err := y.get("/api/proxies/"+id, &p); err != nil {
			y.t.Fatal(err)
		} else if found && p.Linked == linked {
			return
		}
		if time.Now().After(end) {
			y.t.Fatalf("the link of %s does not become %v\n%s", id, linked, y.log())
		}
	}
}

// prompts posts words to an agent and reads the Run to its end.
func (y *acpEnv) prompts(agent, thread, words string) (run []event) {
	y.t.Helper()
	in, err := y.stream("POST", "/api/agui/chat?agent="+agent, prompt(thread, thread+"-r", words))
	if err != nil {
		y.t.Fatal(err)
	}
	defer in.close()
	for len(run) == 0 || !run[len(run)-1].terminal() {
		e, err := in.next()
		if err != nil {
			y.t.Fatalf("after %d events: %v\n%s", len(run), err, y.log())
		}
		run = append(run, e)
	}
	return run
}

// TestContractProxy: a proxy of the contract's own habits, with the program as it is built: it enrols, is started again and
// again with the same bootstrap token, answers prompts, asks for permission; its workspaces are known by their runs; another
// proxy with its token is refused, with both its id and the reason in the server's log.
func TestContractProxy(t *testing.T) {
	t.Parallel()
	y := newACPEnvAlone(t, "sqlite:"+storetest.SQLite(t))
	path, err := program.Shipped()
	if err != nil {
		t.Fatal(err)
	}
	issue := exec.Command(path, "token", "bootstrap", "--reusable")
	issue.Env = append(os.Environ(), y.env...)
	bootstrap, err := issue.Output()
	if err != nil {
		t.Fatal(err)
	}
	example, err := os.ReadFile("testdata/contract-config.toml")
	if err != nil {
		t.Fatal(err)
	}
	home, config := t.TempDir(), filepath.Join(t.TempDir(), "config.toml")
	filled := strings.NewReplacer("%GATEWAY%", "ws"+strings.TrimPrefix(y.url, "http")+"/ws/agent", "%REGISTER%", y.url+"/api/admin/acp-proxy/register",
		"%BOOTSTRAP%", strings.TrimSpace(string(bootstrap)), "%WORKSPACES%", filepath.Join(home, "workspaces")).Replace(string(example))
	if err := os.WriteFile(config, []byte(filled), 0o600); err != nil {
		t.Fatal(err)
	}
	var id string
	for i, words := range []string{"enrolled", "restarted", "and again"} {
		p := newContractProxy(t, config, home).start()
		if id == "" {
			id = p.id
		} else if p.id != id {
			t.Errorf("start %d: %s, not %s", i, p.id, id)
		}
		y.linkOf(id, true)
		if said := text(y.prompts(id, fmt.Sprint("t", i), words)); said != "<"+words+">" {
			t.Errorf("start %d: the agent says %q", i, said)
		}
		p.stop()
		y.linkOf(id, false)
	}
	stranger := newContractProxy(t, config, t.TempDir())
	if _, status := stranger.register(); status != http.StatusUnauthorized {
		t.Errorf("another proxy with the token: %d", status)
	}
	if log := y.log(); !strings.Contains(log, "registration was refused") || !strings.Contains(log, "proxy="+stranger.id) || !strings.Contains(log, id+"'s") || strings.Contains(log, strings.TrimSpace(string(bootstrap))) {
		t.Errorf("the log:\n%s", log)
	}

	p := newContractProxy(t, config, home).start()
	defer p.stop()
	y.linkOf(id, true)
	run := y.prompts(id, "t9", "may I?")
	if last := run[len(run)-1]; !strings.Contains(last.data, `"type":"interrupt"`) {
		t.Fatalf("no question: %s", last.data)
	}
	if status := y.answer(y.asked("permission").ID, `{"approved":true}`); status != http.StatusOK {
		t.Fatalf("the decision: %d", status)
	}
	_, turn := y.settled(t, "t9")
	if said := text(y.whole(t, "t9", turn.LastSeq)); said != "<selected go>" || turn.Turn.Status != "DONE" {
		t.Errorf("after the permission: %q, %s", said, turn.Turn.Status)
	}
	var inventory struct {
		Workspaces []struct{ State, Path string }
	}
	if _, err := y.get("/api/proxies/"+id+"/inventory", &inventory); err != nil {
		t.Fatal(err)
	}
	if len(inventory.Workspaces) != 3 { // as listed at the start of the link
		t.Errorf("workspaces: %+v", inventory.Workspaces)
	}
	for _, w := range inventory.Workspaces {
		if w.State != "known" || w.Path == "" {
			t.Errorf("%+v", w)
		}
	}
}
