package main

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"aqueduct/store/storetest"
)

// scriptedAgent is the least of an ACP agent: it answers each prompt with where it works and
// what it was given.
const scriptedAgent = `#!/bin/sh
while read -r line; do
  id=${line#*\"id\":}; id=${id%%[,\}]*}
  case $line in
  *'"initialize"'*) echo "{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":{\"protocolVersion\":1}}" ;;
  *'"session/new"'*) echo "{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":{\"sessionId\":\"s\"}}" ;;
  *'"session/prompt"'*)
    echo "{\"jsonrpc\":\"2.0\",\"method\":\"session/update\",\"params\":{\"sessionId\":\"s\",\"update\":{\"sessionUpdate\":\"agent_message_chunk\",\"content\":{\"type\":\"text\",\"text\":\"at $(pwd) with $GIVEN and $(cat made)\"}}}}"
    echo "{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":{\"stopReason\":\"end_turn\"}}" ;;
  esac
done
`

// TestServeACPAgentSettings: what the settings file sets for an agent reaches the one that
// --acp runs, wherever its cwd lies.
func TestServeACPAgentSettings(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	agent := filepath.Join(dir, "agent.sh")
	if err := os.WriteFile(agent, []byte(scriptedAgent), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir("work", 0o700); err != nil {
		t.Fatal(err)
	}
	for name, cwd := range map[string]string{"absolute": filepath.Join(dir, "work"), "relative": "work", "relative to here": "./work"} {
		t.Run(name, func(t *testing.T) {
			config := write(t, "serve.yaml", "acp-agents:\n  code:\n    cwd: "+cwd+"\n    env: {GIVEN: s3cret}\n    init_script: echo init > made\n")
			r := start(t, "--database", "sqlite:"+storetest.SQLite(t), "--config", config, "--acp", "code="+agent)
			body, err := json.Marshal(map[string]any{"messages": []map[string]string{{"id": "u", "role": "user", "content": "hi"}}})
			if err != nil {
				t.Fatal(err)
			}
			resp, err := r.client.Post(r.URL+"/api/agui/chat", "application/json", bytes.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			said, err := io.ReadAll(resp.Body)
			if want := "at " + filepath.Join(dir, "work") + " with s3cret and init"; err != nil || !strings.Contains(string(said), want) {
				t.Errorf("%v: no %q in\n%s", err, want, said)
			}
			if strings.Contains(r.log.String(), "s3cret") {
				t.Errorf("the agent's env is in the log:\n%s", r.log)
			}
		})
	}
}
