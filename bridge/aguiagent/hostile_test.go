package aguiagent

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"aqueduct/bridge"
)

// TestInterruptWithADeepSchema: what an agent nests in the schema of an answer costs no more than reading it.
func TestInterruptWithADeepSchema(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat(`{"anyOf":[`, 4000) + `{"x":"` + strings.Repeat("x", 1<<20) + `"}` + strings.Repeat(`]}`, 4000)
	tr := newTranslator(newNames("turn", "run"), "run", nil, nil)
	began := time.Now()
	_, err := tr.Translate(nil, []byte(`{"type":"RUN_FINISHED","threadId":"t","runId":"r","outcome":{"type":"interrupt","interrupts":[{"id":"i","reason":"x","responseSchema":`+deep+`}]}}`))
	if took := time.Since(began); err != nil || took > 2*time.Second {
		t.Errorf("it took %s, %v", took, err)
	}
	for depth, want := range map[int]bool{0: true, 3: true} {
		schema := strings.Repeat(`{"oneOf":[{"type":"null"},`, depth) + `{"properties":{"approved":{}}}` + strings.Repeat(`]}`, depth)
		if takesApproval(json.RawMessage(schema)) != want {
			t.Errorf("depth %d: %t", depth, !want)
		}
	}
}

// TestEndsThatAreNone: what an agent counts in ends that were none is bounded.
func TestEndsThatAreNone(t *testing.T) {
	t.Parallel()
	tr := newTranslator(newNames("turn", "run"), "run", nil, nil)
	send := func(event string) (out []bridge.Output) {
		out, err := tr.Translate(nil, []byte(event))
		if err != nil {
			t.Fatalf("%s: %v", event, err)
		}
		return out
	}
	send(`{"type":"TOOL_CALL_START","toolCallId":"c","toolCallName":"own"}`)
	send(`{"type":"TOOL_CALL_END","toolCallId":"c"}`)
	for i := range 10000 {
		send(fmt.Sprintf(`{"type":"RUN_FINISHED","threadId":"t","runId":"r","usage":[{"model":"m%d","inputTokens":1}]}`, i))
	}
	if len(tr.usage) > bridge.MostUsage {
		t.Errorf("%d counts are kept", len(tr.usage))
	}
}

// TestManyCallsInOneMessage: the cost of calls and messages grows with their number, whether they stream or stand in snapshots.
func TestManyCallsInOneMessage(t *testing.T) {
	t.Parallel()
	const calls = 20_000
	took := func(what string, events func(send func(string))) {
		tr := newTranslator(newNames("turn", "run"), "run", nil, nil)
		began := time.Now()
		events(func(event string) {
			if _, err := tr.Translate(nil, []byte(event)); err != nil {
				t.Fatal(err)
			}
		})
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("%s: %s", what, took)
		}
	}
	took("a snapshot", func(send func(string)) {
		var list []string
		for i := range calls {
			list = append(list, fmt.Sprintf(`{"id":"c%d","type":"function","function":{"name":"own","arguments":"{}"},"encryptedValue":"e"}`, i))
		}
		send(`{"type":"MESSAGES_SNAPSHOT","messages":[{"id":"m","role":"assistant","toolCalls":[` + strings.Join(list, ",") + `]}]}`)
	})
	took("a stream", func(send func(string)) {
		for i := range calls {
			send(fmt.Sprintf(`{"type":"TOOL_CALL_START","toolCallId":"c%d","toolCallName":"own","parentMessageId":"m"}`, i))
			send(fmt.Sprintf(`{"type":"TOOL_CALL_END","toolCallId":"c%d"}`, i))
		}
		send(`{"type":"RUN_FINISHED","threadId":"t","runId":"r","outcome":{"type":"success","pendingToolCallIds":["c1"]}}`)
	})
	took("snapshots of messages", func(send func(string)) {
		var list []string
		for i := range calls {
			list = append(list, fmt.Sprintf(`{"id":"m%d","role":"assistant","content":"x%d"}`, i, i))
		}
		send(`{"type":"MESSAGES_SNAPSHOT","messages":[` + strings.Join(list, ",") + `]}`)
		send(`{"type":"MESSAGES_SNAPSHOT","messages":[` + strings.Join(list, ",") + `]}`)
	})
	took("snapshots of a long message", func(send func(string)) {
		piece := strings.Repeat("x", 1<<20)
		for range 32 {
			send(`{"type":"TEXT_MESSAGE_CHUNK","messageId":"long","delta":"` + piece + `"}`)
		}
		for range 2000 {
			send(`{"type":"MESSAGES_SNAPSHOT","messages":[{"id":"u","role":"user","content":"hi"}]}`)
		}
		send(`{"type":"MESSAGES_SNAPSHOT","messages":[` + strings.Repeat(`{"id":"long","role":"assistant","content":"x"},`, calls) + `{"id":"u","role":"user","content":"hi"}]}`)
	})
}
