package acpgateway_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"aqueduct/acpgateway"
	"aqueduct/bridge/livefeed"
	"aqueduct/store"
)

// records are those of a Turn that came through the gateway, as "source type payload".
func (h *acpEnv) records(turn string) []string {
	h.t.Helper()
	rows, err := h.store.RecordsOfTurn(h.t.Context(), store.System(), turn, store.Page{Limit: store.MaxPageLimit})
	h.must(err)
	slices.SortStableFunc(rows, func(a, b store.Record) int { return strings.Compare(a.ID, b.ID) })
	var all []string
	for _, r := range rows {
		if r.Source == store.SourceACP || r.Source == store.SourceProxy {
			all = append(all, fmt.Sprintf("%s %s %s", r.Source, r.Type, r.Payload))
		}
	}
	return all
}

func (h *acpEnv) recorded(turn string, want ...string) {
	h.t.Helper()
	h.settle()
	if got := h.records(turn); !slices.Equal(got, want) {
		h.t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// merged is the record of chunks that were merged.
func merged(message, text string) string {
	return `acp acp.update.received {"type":"session_update","session":"S1","update":{"sessionUpdate":"agent_message_chunk","messageId":"` + message + `","content":{"text":"` + text + `","type":"text"}}}`
}

// 16 000 characters are a record at once, and no chunk is ever cut.
func TestRecordsMergeTo16000Characters(t *testing.T) {
	inEnv(t, plan{}, func(h *acpEnv) {
		p := newProxy(h, "p1").link()
		c := p.begin("t1", "hi")
		long := strings.Repeat("é", 15_999)
		c.says("m", long)
		c.says("m", "x")
		h.pass(50 * time.Millisecond)
		if got := h.records(c.prompt); len(got) != 1 || got[0] != merged("m", long+"x") {
			t.Errorf("%d records", len(got))
		}
		huge := strings.Repeat("y", 100_000)
		c.says("m", huge)
		c.says("m", "z")
		h.recorded(c.prompt, merged("m", long+"x"), merged("m", huge), merged("m", "z"))
		c.ends()
		c.s.rest()
	})
}

// acp_exit is on record as sandbox.acp_exit, and in the instance's row.
func TestExitIsOnRecord(t *testing.T) {
	inEnv(t, plan{}, func(h *acpEnv) {
		p := newProxy(h, "p1").link()
		c := p.begin("t1", "hi")
		p.send(signal(c.run, `{"type":"transport_connected","instance_name":"i","at":"now"}`))
		p.send(signal(c.run, `{"type":"init_result","ok":false,"exitCode":3,"error":"boom"}`))
		p.send(signal(c.run, `{"type":"sandbox_instance_status","instance_name":"i","provider":"bwrap","runtime":"runsc","status":"running","last_seen_at":"now","last_error":"slow"}`))
		c.says("m", "a")
		code := 7
		p.send(exitOf(c.run, &code))
		c.fails("Error: agent closed")
		c.s.rest()
		h.settle()
		got := h.records(c.prompt)
		if !slices.Contains(got, `proxy sandbox.acp_exit {"run_id":"`+c.run+`","instance_name":"tuixiu-run-`+c.run+`","code":7,"signal":null}`) {
			t.Errorf("%v", got)
		}
		row := h.instance("t1")
		if row.Status != "stopped" || row.LastError != "slow" || row.Provider != "bwrap" || row.Runtime != "runsc" || row.ACPSessionID != agentSession ||
			!strings.Contains(string(row.Init), "boom") || !strings.Contains(string(row.Transport), "transport_connected") {
			t.Errorf("%+v", row)
		}
		p.restart()
		if again := h.instance("t1"); again.Status != row.Status || again.LastError != row.LastError || string(again.Init) != string(row.Init) {
			t.Errorf("after a restart: %+v", again)
		}
	})
}

// init.env is in no row of the database.
func TestEnvIsNeverKept(t *testing.T) {
	secret := "s3cr3t-0f-the-agent"
	agents := map[string]acpgateway.AgentConfig{"dev": {Env: map[string]string{"API_KEY": secret}}}
	inEnv(t, plan{agents: agents}, func(h *acpEnv) {
		p := newProxy(h, "p1").link()
		c := p.begin("t1", "hi")
		if c.sent.Init.Env["API_KEY"] != secret || c.sent.Init.Env["TUIXIU_RUN_ID"] != c.run {
			t.Errorf("%v", c.sent.Init.Env)
		}
		c.says("m", "x")
		c.ends()
		c.s.rest()
		h.settle()
		h.stop()
		for _, suffix := range []string{"", "-wal"} {
			raw, err := os.ReadFile(h.path + suffix)
			if err != nil && suffix == "" {
				t.Fatal(err)
			}
			if bytes.Contains(raw, []byte(secret)) || bytes.Contains(raw, []byte("API_KEY")) {
				t.Errorf("it is in %s", h.path+suffix)
			}
		}
	})
}

// /ws/client gets acp.prompt_update and event_added once what they report is committed.
func TestHints(t *testing.T) {
	inEnv(t, plan{}, func(h *acpEnv) {
		p := newProxy(h, "p1").link()
		watch := h.hub.Subscribe(livefeed.Wanted{In: store.As(h.who), Proxies: true})
		defer watch.Close()
		c := p.begin("t1", "hi")
		c.says("m", "a")
		p.send(signal(c.run, `{"type":"init_step","stage":"x","status":"start"}`))
		p.raw(`{"type":"sandbox_inventory","inventory_id":"i1","provider":"bwrap","runtime":null,"captured_at":"2000-01-01T00:00:00Z","instances":[]}`)
		c.ends()
		c.s.rest()
		h.settle()
		ctx, cancel := context.WithTimeout(h.t.Context(), time.Second)
		defer cancel()
		frames, err := watch.Next(ctx)
		h.must(err)
		got := map[string]string{}
		for _, frame := range frames {
			var head struct{ Type string }
			h.must(json.Unmarshal(frame, &head))
			got[head.Type] = string(frame)
		}
		for name, what := range map[string]string{"acp.prompt_update": c.run, "event_added": c.run, "run.init_step": c.run, "sandbox_inventory": "p1"} {
			if !strings.Contains(got[name], what) {
				t.Errorf("no %s of %s: %v", name, what, got)
			}
		}
	})
}
