package translate_test

import (
	"encoding/json"
	"testing"

	"aqueduct/acpgateway/translate"
)

func BenchmarkChunk(b *testing.B) {
	tr := translate.New(translate.Config{})
	chunk := json.RawMessage(`{"sessionUpdate":"agent_message_chunk","messageId":"msg_0123456789","content":{"type":"text","text":"some words of an answer "}}`)
	var dst []translate.Out
	b.ReportAllocs()
	for b.Loop() {
		dst = tr.Update(dst[:0], chunk)
	}
}
