package translate_test

import (
	"encoding/json"
	"testing"

	"aqueduct/acpgateway/translate"
	"aqueduct/acpgateway/wire"
	"aqueduct/agui"
)

// TestBlocksByPromptCapabilities: a part that an agent does not take is skipped and reported.
func TestBlocksByPromptCapabilities(t *testing.T) {
	t.Parallel()
	all := wire.PromptCapabilities{Image: true, Audio: true, EmbeddedContext: true}
	for _, c := range []struct {
		name, content   string
		caps            wire.PromptCapabilities
		blocks, skipped string
	}{
		{"text", `"hi"`, wire.PromptCapabilities{}, `[{"type":"text","text":"hi"}]`, `null`},
		{"nothing", `""`, all, `null`, `null`},
		{"image", `[{"type":"text","text":"see"},{"type":"image","source":{"type":"data","value":"QQ==","mimeType":"image/png"}}]`, all,
			`[{"type":"text","text":"see"},{"type":"image","data":"QQ==","mimeType":"image/png"}]`, `null`},
		{"image refused", `[{"type":"image","source":{"type":"data","value":"QQ==","mimeType":"image/png"}}]`, wire.PromptCapabilities{},
			`null`, `[{"index":0,"type":"image","reason":"the agent does not take image"}]`},
		{"audio", `[{"type":"audio","source":{"type":"data","value":"QQ==","mimeType":"audio/wav"}}]`, all,
			`[{"type":"audio","data":"QQ==","mimeType":"audio/wav"}]`, `null`},
		{"link", `[{"type":"document","source":{"type":"url","value":"https://x/a.pdf","mimeType":"application/pdf"},"metadata":{"filename":"a.pdf"}}]`, wire.PromptCapabilities{},
			`[{"type":"resource_link","mimeType":"application/pdf","uri":"https://x/a.pdf","name":"a.pdf"}]`, `null`},
		{"text document", `[{"type":"document","source":{"type":"data","value":"aGk=","mimeType":"text/plain"}}]`, all,
			`[{"type":"resource","resource":{"uri":"attachment:///0/document-1","mimeType":"text/plain","text":"hi"}}]`, `null`},
		{"binary document", `[{"type":"document","source":{"type":"data","value":"QQ==","mimeType":"application/pdf"}}]`, all,
			`[{"type":"resource","resource":{"uri":"attachment:///0/document-1","mimeType":"application/pdf","blob":"QQ=="}}]`, `null`},
		{"a provider's file", `[{"type":"image","source":{"type":"file","value":"f1"}}]`, all,
			`null`, `[{"index":0,"type":"image","reason":"a file of a provider's cannot be read by the agent"}]`},
		{"unknown", `[{"type":"hologram","x":1}]`, all, `null`, `[{"index":0,"type":"hologram","reason":"a part of this type is not known"}]`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var content agui.Content
			if err := json.Unmarshal([]byte(c.content), &content); err != nil {
				t.Fatal(err)
			}
			blocks, skipped := translate.Blocks(agui.Message{Role: agui.RoleUser, Content: content}, c.caps)
			if got, _ := json.Marshal(blocks); string(got) != c.blocks {
				t.Errorf("blocks\ngot  %s\nwant %s", got, c.blocks)
			}
			if got, _ := json.Marshal(skipped); string(got) != c.skipped {
				t.Errorf("skipped\ngot  %s\nwant %s", got, c.skipped)
			}
			if len(skipped) > 0 && translate.Notice(skipped).EventType() != agui.TypeCustom {
				t.Error("no notice")
			}
		})
	}
}
