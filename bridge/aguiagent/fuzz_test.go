package aguiagent

import (
	"bytes"
	"testing"

	"aqueduct/agui"
	"aqueduct/agui/aguitest"
	"aqueduct/bridge"
)

// FuzzTranslate: whatever events an agent sends, what reaches the log is a legal stream, and no id of the agent's is in it.
func FuzzTranslate(f *testing.F) {
	f.Add([]byte(`{"type":"TEXT_MESSAGE_CHUNK","messageId":"m","delta":"a"}` + "\n" + `{"type":"TOOL_CALL_CHUNK","toolCallId":"c","toolCallName":"page","delta":"{}"}` + "\n" + `{"type":"RUN_FINISHED"}`))
	f.Add([]byte(`{"type":"TOOL_CALL_START","toolCallId":"c","toolCallName":"own"}` + "\n" + `{"type":"RUN_FINISHED"}` + "\n" + `{"type":"TOOL_CALL_RESULT","messageId":"c","toolCallId":"c","content":"x"}` + "\n" + `{"type":"RUN_STARTED"}` + "\n[DONE]"))
	f.Add([]byte(`{"type":"MESSAGES_SNAPSHOT","messages":[{"id":"a","role":"assistant","toolCalls":[{"id":"d","type":"function","function":{"name":"own","arguments":""}}]},{"id":"b","role":"tool","toolCallId":"d","content":"x"},{"id":"r","role":"reasoning","content":"t","encryptedValue":"e"}]}` + "\n" + `{"type":"SUBAGENT_STARTED","subagentRunId":"s","name":"n"}` + "\n" + `{"type":"TEXT_MESSAGE_START","messageId":"m","subagentRunId":"s"}` + "\n" + `{"type":"NEW_IN_1_1","x":1}`))
	f.Add([]byte(`{"type":"RUN_FINISHED","outcome":{"type":"interrupt","interrupts":[{"id":"i","reason":"tool_call","toolCallId":"given"},{"id":"j","reason":"x","responseSchema":{"oneOf":[{"properties":{"approved":{}}}]}}]}}`))
	f.Fuzz(func(t *testing.T, stream []byte) {
		history := []agui.Message{{ID: "given-m", Role: agui.RoleAssistant, ToolCalls: []agui.ToolCall{{ID: "given", Function: agui.FunctionCall{Name: "own", Arguments: "{}"}}}}}
		tr := newTranslator(newNames("turn", "run"), "run", history, []agui.Tool{{Name: "page"}})
		p := &play{t: t, reader: aguitest.New()}
		p.event(&agui.RunStarted{ThreadID: "t", RunID: "r"})
		for data := range bytes.Lines(stream) {
			outputs, err := tr.Translate(nil, bytes.TrimSuffix(data, []byte("\n")))
			if !p.outputs(outputs) || err != nil || tr.Ended() {
				break
			}
		}
		p.outputs(tr.End(nil))
		p.end()
	})
}

// play is a Run written as the bridge writes it, checked by a strict reader.
type play struct {
	t        *testing.T
	producer agui.Grammar
	reader   *aguitest.Reader
	halves   agui.Halves
}

// outputs takes what the agent's events mean; false ends the Run, as an event that cannot be made legal does.
func (p *play) outputs(outputs []bridge.Output) bool {
	for _, o := range outputs {
		if q := o.Question; q != nil && (q.CallID == "" || parseAsked(q.UpstreamID).String() != q.UpstreamID) {
			p.t.Fatalf("a question %+v", q)
		}
		if o.Event != nil && !p.event(o.Event) {
			return false
		}
	}
	return true
}

func (p *play) event(ev agui.Event) bool {
	for _, whole := range p.halves.Join(nil, ev) {
		if !p.reader.Fits(whole) { // the bridge leaves a patch out that does not apply
			continue
		}
		admitted, err := p.producer.Admit(nil, whole)
		if err != nil {
			return false
		}
		p.read(admitted)
	}
	return true
}

func (p *play) read(admitted []agui.Event) {
	for _, e := range admitted {
		if err := p.reader.Read(e.AppendJSON(nil)); err != nil {
			p.t.Fatalf("%s: %v", e.AppendJSON(nil), err)
		}
	}
}

func (p *play) end() {
	admitted, err := p.producer.Admit(nil, &agui.RunError{Message: "end", Code: bridge.CodeInternal})
	if err != nil {
		p.t.Fatal(err)
	}
	p.read(admitted)
	if p.reader.Terminals() != 1 {
		p.t.Fatalf("%d terminal events", p.reader.Terminals())
	}
}
