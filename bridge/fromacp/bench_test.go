package fromacp_test

import (
	"encoding/json"
	"testing"

	"aqueduct/bridge/fromacp"
)

func BenchmarkChunk(b *testing.B) {
	tr := fromacp.New(fromacp.Config{})
	chunk := json.RawMessage(`{"sessionUpdate":"agent_message_chunk","messageId":"msg_0123456789","content":{"type":"text","text":"some words of an answer "}}`)
	var dst []fromacp.Out
	b.ReportAllocs()
	for b.Loop() {
		dst = tr.Update(dst[:0], chunk)
	}
}
