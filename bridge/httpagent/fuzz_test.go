package httpagent

import (
	"bytes"
	"testing"

	"aqueduct/agui"
	"aqueduct/bridge"
)

// FuzzTranslate: whatever frames an agent sends, what reaches the log is a legal stream.
func FuzzTranslate(f *testing.F) {
	f.Add([]byte("event: delta\ndata: {\"text\":\"x\"}\n\nevent: thought\ndata: {\"text\":\"y\"}\n\nevent: done\ndata: {}\n\n"))
	f.Add([]byte("event: tool_call\ndata: {\"id\":\"a\",\"name\":\"n\",\"args\":{}}\n\nevent: tool_result\ndata: {\"id\":\"a\",\"content\":1}\n\n"))
	f.Add([]byte("event: step\ndata: {\"name\":\"s\",\"status\":\"started\"}\n\nevent: step\ndata: {\"name\":\"s\",\"status\":\"started\"}\n\n"))
	f.Add([]byte("event: state\ndata: {\"state\":\"step_finished\",\"detail\":{\"name\":\"s\"}}\n\nevent: activity\ndata: {\"type\":\"t\",\"content\":{}}\n\n"))
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
	reader   agui.Grammar
}

func newPlay(t *testing.T) *play {
	p := &play{t: t, tr: newTranslator("turn")}
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

// event admits one event; one that cannot be made legal ends the Run.
func (p *play) event(ev agui.Event) bool {
	admitted, err := p.producer.Admit(nil, ev)
	if err != nil {
		p.end()
		return false
	}
	for _, e := range admitted {
		kept, err := agui.Decode(e.AppendJSON(nil))
		if err == nil {
			err = p.reader.Check(kept)
		}
		if err != nil {
			p.t.Fatalf("%s: %v", e.AppendJSON(nil), err)
		}
	}
	return true
}

func (p *play) end() {
	admitted, err := p.producer.Admit(nil, &agui.RunError{Message: "end", Code: bridge.CodeInternal})
	if err != nil {
		p.t.Fatal(err)
	}
	for _, e := range admitted {
		if err := p.reader.Check(e); err != nil {
			p.t.Fatalf("%s: %v", e.AppendJSON(nil), err)
		}
	}
}
