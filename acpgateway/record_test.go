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
	"aqueduct/acpgateway/acp"
	"aqueduct/bridge/hints"
	"aqueduct/store"
)

// records are those of a Turn that came through the gateway, as "source type payload".
func (h *house) records(turn string) []string {
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

func (h *house) recorded(turn string, want ...string) {
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

// Chunks of one message become one record 800 ms after the first of them; another message is
// another record.
func TestRecordsMergeFor800ms(t *testing.T) {
	inHouse(t, plan{}, func(h *house) {
		p := newProxy(h, "p1").link()
		c := p.begin("t1", "hi")
		c.says("m", "a")
		h.pass(700 * time.Millisecond)
		c.says("m", "b")
		h.pass(60 * time.Millisecond)
		if got := h.records(c.prompt); len(got) != 0 {
			t.Errorf("after 760 ms: %v", got)
		}
		h.pass(250 * time.Millisecond)
		if got := h.records(c.prompt); len(got) != 1 {
			t.Errorf("after 1010 ms: %v", got)
		}
		c.says("m", "c")
		c.says("m2", "d")
		h.pass(2 * time.Second)
		h.recorded(c.prompt, merged("m", "ab"), merged("m", "c"), merged("m2", "d"))
		c.ends()
		c.s.rest()
	})
}

// How long and to which size chunks are merged is a setting.
func TestRecordsMergeAsSet(t *testing.T) {
	inHouse(t, plan{limits: acpgateway.Limits{MergeTime: 8 * time.Second, MergeChars: 10}}, func(h *house) {
		p := newProxy(h, "p1").link()
		c := p.begin("t1", "hi")
		c.says("m", "abcde")
		h.pass(7 * time.Second)
		if got := h.records(c.prompt); len(got) != 0 {
			t.Errorf("after 7 s: %v", got)
		}
		c.says("m", "fghij")
		h.pass(50 * time.Millisecond)
		h.recorded(c.prompt, merged("m", "abcdefghij"))
		c.says("m", "k")
		h.pass(10 * time.Second)
		h.recorded(c.prompt, merged("m", "abcdefghij"), merged("m", "k"))
		c.ends()
		c.s.rest()
	})
}

// 16 000 characters are a record at once, and no chunk is ever cut.
func TestRecordsMergeTo16000Characters(t *testing.T) {
	inHouse(t, plan{}, func(h *house) {
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

// What is being merged is put on record before any other update, before a proxy's signal, and
// at the end of the prompt, so that the order is true.
func TestRecordsAreInOrder(t *testing.T) {
	inHouse(t, plan{}, func(h *house) {
		p := newProxy(h, "p1").link()
		c := p.begin("t1", "hi")
		c.says("m", "a")
		c.update(`{"sessionUpdate":"current_mode_update","currentModeId":"plan"}`)
		c.says("m", "b")
		p.say(signal(c.run, `{"type":"text","text":"[agent:stderr] x"}`))
		c.says("m", "c")
		p.say(signal(c.run, `{"type":"text","text":"[agent:stderr] y\n"}`))
		p.say(&acp.BranchCreated{RunID: c.run, Branch: "feature"})
		c.says("m", "d")
		c.ends()
		c.s.rest()
		h.recorded(c.prompt,
			merged("m", "a"),
			`acp acp.update.received {"type":"session_update","session":"S1","update":{"sessionUpdate":"current_mode_update","currentModeId":"plan"}}`,
			merged("m", "bc"),
			`proxy acp.update.received {"text":"[agent:stderr] x\ny\n","type":"text"}`,
			`proxy branch_created {"run_id":"`+c.run+`","branch":"feature"}`,
			merged("m", "d"),
			`acp acp.update.received {"type":"prompt_result","ok":true,"stopReason":"end_turn"}`,
		)
	})
}

// acp_exit is on record as sandbox.acp_exit, and in the instance's row.
func TestExitIsOnRecord(t *testing.T) {
	inHouse(t, plan{}, func(h *house) {
		p := newProxy(h, "p1").link()
		c := p.begin("t1", "hi")
		p.say(signal(c.run, `{"type":"transport_connected","instance_name":"i","at":"now"}`))
		p.say(signal(c.run, `{"type":"init_result","ok":false,"exitCode":3,"error":"boom"}`))
		p.say(signal(c.run, `{"type":"sandbox_instance_status","instance_name":"i","provider":"bwrap","runtime":"runsc","status":"running","last_seen_at":"now","last_error":"slow"}`))
		c.says("m", "a")
		code := 7
		p.say(exitOf(c.run, &code))
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

// What a prompt said while its Turn was parked, cancelled or unread is on record too.
func TestRecordsOfWhatNobodyReads(t *testing.T) {
	inHouse(t, plan{}, func(h *house) {
		p := newProxy(h, "p1").link()
		c := p.begin("t1", "hi")
		h.settle()
		h.cancel("t1")
		c.s.rest()
		want[*acp.SessionCancel](p)
		c.says("m", "late")
		p.say(c.stopped())
		h.recorded(c.prompt, merged("m", "late"), `acp acp.update.received {"type":"prompt_result","ok":true,"stopReason":"cancelled"}`)
	})
}

// init.env is in no row of the database.
func TestEnvIsNeverKept(t *testing.T) {
	secret := "s3cr3t-0f-the-agent"
	agents := map[string]acpgateway.AgentConfig{"dev": {Env: map[string]string{"API_KEY": secret}}}
	inHouse(t, plan{agents: agents}, func(h *house) {
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

// /ws/client hears acp.prompt_update and event_added once what they tell of is kept.
func TestHints(t *testing.T) {
	inHouse(t, plan{}, func(h *house) {
		p := newProxy(h, "p1").link()
		watch := h.hub.Subscribe(hints.Wanted{In: store.As(h.who), Proxies: true})
		defer watch.Close()
		c := p.begin("t1", "hi")
		c.says("m", "a")
		p.say(signal(c.run, `{"type":"init_step","stage":"x","status":"start"}`))
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
