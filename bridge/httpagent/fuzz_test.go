package httpagent

import (
	"bytes"
	"testing"

	"aqueduct/agui"
	"aqueduct/agui/aguitest"
	"aqueduct/bridge"
)

// FuzzTranslate: whatever frames an agent sends, what reaches the log is a legal stream.
func FuzzTranslate(f *testing.F) {
	f.Add([]byte("event: delta\ndata: {\"text\":\"x\"}\n\nevent: thought\ndata: {\"text\":\"y\"}\n\nevent: done\ndata: {}\n\n"))
	f.Add([]byte("event: tool_call\ndata: {\"id\":\"a\",\"name\":\"n\",\"args\":{}}\n\nevent: tool_result\ndata: {\"id\":\"a\",\"content\":1}\n\n"))
	f.Add([]byte("event: step\ndata: {\"name\":\"s\",\"status\":\"started\"}\n\nevent: step\ndata: {\"name\":\"s\",\"status\":\"started\"}\n\n"))
	f.Add([]byte("event: state\ndata: {\"state\":\"step_finished\",\"detail\":{\"name\":\"s\"}}\n\nevent: activity\ndata: {\"type\":\"t\",\"content\":{}}\n\n"))
	f.Add([]byte("event: activity\ndata: {\"id\":\"a\",\"type\":\"t\",\"content\":{},\"patch\":null}\n\nevent: activity\ndata: {\"id\":\"a\",\"type\":\"t\",\"patch\":[{\"op\":\"add\",\"path\":\"/x~3\",\"value\":1}]}\n\nevent: tool_call\ndata: {\"id\":\"a\",\"name\":\"n\",\"args\":null}\n\n"))
	f.Add([]byte("event: delta\ndata: {\"text\":\"\\ud83d\"}\n\nevent: delta\ndata: {\"text\":\"\\ude00\\ud83d\"}\n\nevent: thought\ndata: {\"text\":\"\\ude00\"}\n\nevent: state_delta\ndata: {\"delta\":[{\"op\":\"test\",\"path\":\"/x\",\"value\":null}]}\n\n"))
	f.Fuzz(func(t *testing.T, stream []byte) {
		reader := newFrameReader(bytes.NewReader(stream), 1<<16)
		play := newPlay(t)
		for {
			frames, err := reader.next()
			for _, fr := range frames {
				if !play.frame(fr) {
					return
				}
			}
			if err != nil {
				play.end()
				return
			}
		}
	})
}

// play is a Run written as the bridge writes it, checked by a strict reader.
type play struct {
	t        *testing.T
	tr       *translator
	producer agui.Grammar
	reader   *aguitest.Reader
	halves   agui.Halves
}

func newPlay(t *testing.T) *play {
	p := &play{t: t, tr: newTranslator("turn", newID), reader: aguitest.New()}
	p.event(&agui.RunStarted{ThreadID: "t", RunID: "r"})
	return p
}

// frame takes one frame; false ends the Run, as an error of the upstream's does.
func (p *play) frame(f frame) bool {
	outputs, err := p.tr.translate(nil, f)
	for _, o := range outputs {
		if o.Event != nil && !p.event(o.Event) {
			return false
		}
	}
	if err != nil || p.tr.ended {
		p.end()
		return false
	}
	return true
}

// event admits one event; one that cannot be made legal ends the Run. A patch that does not
// fit is left out, as the bridge leaves it out.
func (p *play) event(ev agui.Event) bool {
	for _, whole := range p.halves.Join(nil, ev) {
		if !p.reader.Fits(whole) {
			continue
		}
		admitted, err := p.producer.Admit(nil, whole)
		if err != nil {
			p.end()
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
