package aguiagent

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"aqueduct/bridge"
	"aqueduct/internal/costtest"
)

// TestInterruptWithADeepSchema: what an agent nests in the schema of an answer costs no more than reading it.
func TestInterruptWithADeepSchema(t *testing.T) {
	costtest.Grows(t, "a nested schema", 1000, func(depth int) {
		deep := strings.Repeat(`{"anyOf":[`, depth) + `{"x":"` + strings.Repeat("x", depth<<8) + `"}` + strings.Repeat(`]}`, depth)
		tr := newTranslator(newNames("turn", "run"), "run", nil, nil)
		_, err := tr.Translate(nil, []byte(`{"type":"RUN_FINISHED","threadId":"t","runId":"r","outcome":{"type":"interrupt","interrupts":[{"id":"i","reason":"x","responseSchema":`+deep+`}]}}`))
		if err != nil {
			t.Error(err)
		}
	})
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
	for what, events := range map[string]func(n int, send func(string)){
		"a snapshot": func(n int, send func(string)) {
			send(snapshot(n, `{"id":"c%d","type":"function","function":{"name":"own","arguments":"{}"},"encryptedValue":"e"}`,
				`{"type":"MESSAGES_SNAPSHOT","messages":[{"id":"m","role":"assistant","toolCalls":[`, `]}]}`))
		},
		"a stream": func(n int, send func(string)) {
			for i := range n {
				send(fmt.Sprintf(`{"type":"TOOL_CALL_START","toolCallId":"c%d","toolCallName":"own","parentMessageId":"m"}`, i))
				send(fmt.Sprintf(`{"type":"TOOL_CALL_END","toolCallId":"c%d"}`, i))
			}
			send(`{"type":"RUN_FINISHED","threadId":"t","runId":"r","outcome":{"type":"success","pendingToolCallIds":["c1"]}}`)
		},
		"snapshots of messages": func(n int, send func(string)) {
			for range 2 {
				send(snapshot(n, `{"id":"m%[1]d","role":"assistant","content":"x%[1]d"}`, `{"type":"MESSAGES_SNAPSHOT","messages":[`, `]}`))
			}
		},
	} {
		costtest.Grows(t, what, 2000, func(n int) {
			tr := newTranslator(newNames("turn", "run"), "run", nil, nil)
			events(n, func(event string) {
				if _, err := tr.Translate(nil, []byte(event)); err != nil {
					t.Fatal(err)
				}
			})
		})
	}
}

// snapshot is an event that lists n of what form makes of their numbers.
func snapshot(n int, form, before, behind string) string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf(form, i)
	}
	return before + strings.Join(list, ",") + behind
}

// TestSnapshotsBesideALongMessage: a snapshot costs what stands in it, however long a message is that was sent before.
func TestSnapshotsBesideALongMessage(t *testing.T) {
	piece := strings.Repeat("x", 1<<20)
	snapshots := func(pieces int) func() time.Duration {
		return func() time.Duration {
			tr := newTranslator(newNames("turn", "run"), "run", nil, nil)
			send := func(event string) {
				if _, err := tr.Translate(nil, []byte(event)); err != nil {
					t.Fatal(err)
				}
			}
			for range pieces {
				send(`{"type":"TEXT_MESSAGE_CHUNK","messageId":"long","delta":"` + piece + `"}`)
			}
			began := time.Now()
			for range 1000 {
				send(`{"type":"MESSAGES_SNAPSHOT","messages":[{"id":"u","role":"user","content":"hi"}]}`)
			}
			send(snapshot(40_000, `{"id":"long","role":"assistant","content":"x","name":"%d"}`, `{"type":"MESSAGES_SNAPSHOT","messages":[`, `]}`))
			return time.Since(began)
		}
	}
	costtest.AtMost(t, "with 32 MiB before", 8, snapshots(32), snapshots(1))
}
