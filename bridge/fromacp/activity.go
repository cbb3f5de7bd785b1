package fromacp

import (
	"encoding/json"

	"aqueduct/acpgateway/acp"
	"aqueduct/agui"
)

// ActivityTool is the type of the activity beside every tool call: its title, its state,
// the files it touches, the changes it makes, its terminals.
const ActivityTool = "acp.tool"

// maxPicture bounds what an activity shows of one piece of content, in bytes; the frame
// itself is kept as a record.
const maxPicture = 64 << 10

// maxPieces bounds how many pieces are shown.
const maxPieces = 64

// picture is what the activity shows now, so that only changes are sent.
type picture struct {
	title, kind, status string
	locations, content  string
	terminals           map[string]bool // by our ids
}

// operation is one of a JSON Patch. Only what official clients and TDesign understand
// alike is used: replace of a member that is there, add of a member to an object that is
// there, add at the end of an array.
type operation struct {
	Op    string          `json:"op"`
	Path  string          `json:"path"`
	Value json.RawMessage `json:"value"`
}

// showCall draws the activity, once, with every member it will ever have.
func (t *Translator) showCall(dst []Out, c *call, seen acp.ToolCall) []Out {
	c.shown = picture{
		title: seen.Title, kind: seen.Kind, status: seen.Status,
		locations: string(locations(seen)), content: string(t.content(seen)), terminals: map[string]bool{},
	}
	return event(dst, &agui.ActivitySnapshot{MessageID: t.id("activity", c.id), ActivityType: ActivityTool, Content: marshal(struct {
		ToolCallID string          `json:"toolCallId"`
		Title      string          `json:"title"`
		Kind       string          `json:"kind"`
		Status     string          `json:"status"`
		Locations  json.RawMessage `json:"locations"`
		Content    json.RawMessage `json:"content"`
		Terminals  struct{}        `json:"terminals"`
	}{c.id, seen.Title, seen.Kind, seen.Status, json.RawMessage(c.shown.locations), json.RawMessage(c.shown.content), struct{}{}})})
}

// redrawCall sends the members a frame changes.
func (t *Translator) redrawCall(dst []Out, c *call, news acp.ToolCall) []Out {
	var ops []operation
	text := func(path string, was *string, now string) {
		if now != "" && now != *was {
			*was = now
			ops = append(ops, operation{"replace", path, marshal(now)})
		}
	}
	list := func(path string, was *string, now json.RawMessage) {
		if string(now) != *was {
			*was = string(now)
			ops = append(ops, operation{"replace", path, now})
		}
	}
	text("/title", &c.shown.title, news.Title)
	text("/kind", &c.shown.kind, news.Kind)
	text("/status", &c.shown.status, news.Status)
	if news.Locations != nil {
		list("/locations", &c.shown.locations, locations(news))
	}
	if news.Content != nil {
		list("/content", &c.shown.content, t.content(news))
	}
	return t.redraw(dst, c, ops)
}

func (t *Translator) redraw(dst []Out, c *call, ops []operation) []Out {
	if len(ops) == 0 {
		return dst
	}
	return event(dst, &agui.ActivityDelta{MessageID: t.id("activity", c.id), ActivityType: ActivityTool, Patch: marshal(ops)})
}

func locations(c acp.ToolCall) json.RawMessage {
	if len(c.Locations) == 0 {
		return json.RawMessage("[]")
	}
	return marshal(c.Locations)
}

// content is a call's content with our ids in it, bounded.
func (t *Translator) content(c acp.ToolCall) json.RawMessage {
	out := []byte{'['}
	for i, piece := range c.Content {
		if i > 0 {
			out = append(out, ',')
		}
		if i == maxPieces {
			out = append(out, `{"type":"cut"}`...)
			break
		}
		out = append(out, t.piece(piece)...)
	}
	return append(out, ']')
}

func (t *Translator) piece(p acp.ToolContent) json.RawMessage {
	if len(p.Raw) <= maxPicture {
		return t.scrub(p.Raw)
	}
	return marshal(struct {
		Type    string `json:"type"`
		Path    string `json:"path,omitempty"`
		OldText string `json:"oldText,omitempty"`
		NewText string `json:"newText,omitempty"`
		Text    string `json:"text,omitempty"`
		Cut     bool   `json:"cut"`
		Bytes   int    `json:"bytes"`
	}{
		p.Type, p.Path, head(old(p), maxPicture/4), head(p.NewText, maxPicture/4), head(p.Block.Words(), maxPicture/4), true, len(p.Raw),
	})
}

func old(p acp.ToolContent) string {
	if p.OldText == nil {
		return ""
	}
	return *p.OldText
}
