package faults_test

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// doubling is a schema of under 2 KiB that grows with two to the number of levels.
func doubling(levels int) string {
	defs := make([]string, 0, levels+1)
	for i := range levels {
		defs = append(defs, fmt.Sprintf(`"l%d":{"anyOf":[{"$ref":"#/$defs/l%d"},{"$ref":"#/$defs/l%d"}]}`, i, i+1, i+1))
	}
	return fmt.Sprintf(`{"$ref":"#/$defs/l0","$defs":{%s,"l%d":{"type":"string"}}}`, strings.Join(defs, ","), levels)
}

// TestSchemaOfAnAgentFreezesNobody: questions whose schemas open a device, double, or make a value expensive end with a
// code of their own. Another user's chat goes on meanwhile, the memory stays, and SIGTERM ends the server.
func TestSchemaOfAnAgentFreezesNobody(t *testing.T) {
	databases(t, func(t *testing.T, database string) {
		h := newServerEnv(t, database)
		quiet := h.chatted(t, "quiet", 5)
		before := h.peak()
		nested := strings.Repeat("[", 60) + strings.Repeat("]", 60)
		attacks := []struct{ schema, value, event, answer string }{
			{`{"$ref":"file:///dev/ptmx"}`, `{}`, "schema_reference", ""},
			{doubling(20), `{}`, "schema_too_complex", ""},
			{doubling(24), `{}`, "schema_too_complex", ""},
			{`{"pattern":"((a{30}){30}){30}"}`, `"a"`, "schema_pattern", ""},
			{`{"anyOf":[{"items":{"$ref":"#"}},{"items":{"$ref":"#"}}]}`, nested, "", "value_too_complex"},
			{`{"type":"integer"}`, `1e999999999`, "", "invalid_answer"},
		}
		var attackers sync.WaitGroup
		for i := range 4 * len(attacks) {
			a, thread := attacks[i%len(attacks)], fmt.Sprintf("attack-%d", i)
			attackers.Go(func() { h.attack(t, thread, a.schema, a.value, a.event, a.answer) })
		}
		attacked := h.chatted(t, "busy", 20)
		attackers.Wait()
		h.chatted(t, "after", 2)
		grown := (h.peak() - before) >> 20
		t.Logf("a chat takes %v quiet and %v under attack; the peak of memory grew by %d MiB", quiet, attacked, grown)
		if grown > 150 {
			t.Errorf("the peak of memory grew by %d MiB", grown)
		}
		h.signal(syscall.SIGTERM)
		h.gone(30 * time.Second)
	})
}

// chatted has another user chat a few times, and gives the longest time of one.
func (h *serverEnv) chatted(t *testing.T, name string, times int) (longest time.Duration) {
	t.Helper()
	for i := range times {
		thread, begun := fmt.Sprintf("%s-%d", name, i), time.Now()
		in, err := h.chat(thread, thread+"-r", "count 5")
		if err != nil {
			t.Fatal(err)
		}
		for {
			e, err := in.next()
			if err != nil {
				t.Fatalf("%s: %v", thread, err)
			}
			if e.terminal() {
				break
			}
		}
		in.close()
		longest = max(longest, time.Since(begun))
	}
	return longest
}

// attack has the agent ask with a schema, and answers if it is asked.
func (h *serverEnv) attack(t *testing.T, thread, schema, value, wantEvent, wantAnswer string) {
	in, err := h.chat(thread, thread+"-r", "schema "+schema)
	if err != nil {
		t.Error(err)
		return
	}
	in.close()
	info, run := h.settled(t, thread)
	if wantEvent != "" {
		log := h.whole(t, thread, run.LastSeq)
		if all := fmt.Sprint(log); len(info.Questions) > 0 || !strings.Contains(all, wantEvent) || text(log) != "1 " {
			t.Errorf("%.60s: %d questions are open, want the code %s in\n%s", schema, len(info.Questions), wantEvent, all)
		}
		if len(info.Questions) == 0 {
			return
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	resp, err := h.do(ctx, "POST", "/api/approvals/"+info.Questions[0]+"/decision", []byte(`{"payload":`+value+`}`))
	if err != nil {
		t.Errorf("%.60s: the answer gets %v", schema, err)
		return
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body)
	if resp.StatusCode != 422 || !strings.Contains(string(body), wantAnswer) {
		t.Errorf("%.60s: the answer gets %d %s, want %s", schema, resp.StatusCode, body, wantAnswer)
	}
}
