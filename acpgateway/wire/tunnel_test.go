package wire

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestGoldenFrames reads every line of testdata/frames.ndjson and writes it again: the same
// bytes. Each message of the contract stands there by name.
func TestGoldenFrames(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for line := range lines(t, "frames.ndjson") {
		head, frame, err := Decode([]byte(line))
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if _, unknown := frame.(*Unknown); unknown {
			t.Errorf("%s is unknown", head.Type)
		}
		out, err := Encode(frame)
		if err != nil || string(out) != line {
			t.Errorf("%v\n got %s\nwant %s", err, out, line)
		}
		seen[head.Type] = true
	}
	for _, name := range []string{
		"register_ack", "acp_open", "acp_close", "prompt_send", "session_cancel", "session_set_mode", "session_set_model",
		"session_set_config_option", "session_permission", "sandbox_control", "ack", "register_agent", "heartbeat", "acp_opened",
		"acp_closed", "acp_exit", "acp_update", "proxy_update", "prompt_result", "session_control_result",
		"sandbox_control_result", "sandbox_inventory", "workspace_inventory", "branch_created",
	} {
		if !seen[name] {
			t.Errorf("no golden frame of %s", name)
		}
	}
}

// TestGoldenSignals does the same for the content of proxy_update.
func TestGoldenSignals(t *testing.T) {
	t.Parallel()
	for line := range lines(t, "signals.ndjson") {
		signal, err := DecodeSignal([]byte(line))
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if _, unknown := signal.(*UnknownSignal); unknown {
			t.Errorf("unknown: %s", line)
		}
		update, err := NewProxyUpdate("r", signal)
		if err != nil || string(update.Content) != line {
			t.Errorf("%v\n got %s\nwant %s", err, update.Content, line)
		}
	}
}

func lines(t *testing.T, name string) func(func(string) bool) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return func(yield func(string) bool) {
		for line := range strings.Lines(string(data)) {
			if !yield(strings.TrimSuffix(line, "\n")) {
				return
			}
		}
	}
}

func TestAnUnknownMessageIsKeptWhole(t *testing.T) {
	t.Parallel()
	const text = `{"type":"weather","run_id":"r","rain":1.50}`
	head, frame, err := Decode([]byte(text))
	u, ok := frame.(*Unknown)
	if err != nil || !ok || head.RunID != "r" || string(u.Raw) != text {
		t.Fatalf("%+v %+v %v", head, frame, err)
	}
}

func TestMalformedMessagesSayWhatTheyAre(t *testing.T) {
	t.Parallel()
	for text, name := range map[string]string{
		`not json`: "", `{}`: "", `[]`: "", `{"type":7}`: "",
		`{"type":"prompt_send","run_id":"r","prompt":"text"}`: "prompt_send",
		`{"type":"acp_open","run_id":7}`:                      "acp_open",
	} {
		if head, _, err := Decode([]byte(text)); err == nil || head.Type != name {
			t.Errorf("%s: %+v, %v", text, head, err)
		}
	}
}

func TestUpdatesKeepTheirBytes(t *testing.T) {
	t.Parallel()
	const update = `{"sessionUpdate":"new_kind","x":[1.0,"<&>"],"big":12345678901234567890}`
	out, err := Encode(&ACPUpdate{RunID: "r", Update: json.RawMessage(update)})
	if err != nil || !strings.Contains(string(out), update) {
		t.Fatalf("%s %v", out, err)
	}
}

func TestSeqIsWrittenAndRead(t *testing.T) {
	t.Parallel()
	body, err := Encode(&Closed{RunID: "r", OK: true})
	if err != nil {
		t.Fatal(err)
	}
	head, _, err := Decode(WithSeq(body, 42))
	if err != nil || head.Seq != 42 {
		t.Fatalf("%+v %v", head, err)
	}
}

func TestRequestIDsMayBeNumbers(t *testing.T) {
	t.Parallel()
	for _, id := range []string{`4`, `0`, `"4"`, `"a\u00004"`, `-1.50`} {
		message := `{"type":"session_permission","run_id":"r","session_id":"s","request_id":` + id + `,"outcome":"cancelled","option_id":null}`
		_, frame, err := Decode([]byte(message))
		if err != nil {
			t.Fatal(err)
		}
		if out, err := Encode(frame); err != nil || string(out) != message {
			t.Errorf("%v: %s, not %s", err, out, message)
		}
	}
}

func TestRPCIDsAreSentBackAsTheyCame(t *testing.T) {
	t.Parallel()
	for _, text := range []string{`{"jsonrpc":"2.0","id":0,"method":"m"}`, `{"jsonrpc":"2.0","id":"a/1","method":"m"}`} {
		var m Message
		if err := json.Unmarshal([]byte(text), &m); err != nil || !m.IsRequest() {
			t.Fatalf("%s: %v", text, err)
		}
		if out, err := json.Marshal(m); err != nil || string(out) != text {
			t.Errorf("%s became %s, %v", text, out, err)
		}
	}
	var m Message
	if json.Unmarshal([]byte(`{"id":{}}`), &m) == nil {
		t.Error("an object passed as an id")
	}
}
