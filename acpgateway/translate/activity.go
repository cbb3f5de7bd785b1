package translate

import (
	"encoding/json"

	"aqueduct/acpgateway/wire"
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

// picture is what the activity shows now, so that only changes are sent. After a restart it is the snapshot's: lists
// are not in that, so the first frame that names one sends it once more.
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

// activities draws the activity beside every tool call. What it has drawn is in the call.
type activities struct{ ids *ids }

// show draws the activity, once, with every member it will ever have.
func (a *activities) show(dst []Out, c *call, seen wire.ToolCall) []Out {
	c.shown = picture{
		title: seen.Title, kind: seen.Kind, status: seen.Status,
		locations: string(locations(seen)), content: string(a.content(seen)), terminals: map[string]bool{},
	}
	return event(dst, &agui.ActivitySnapshot{MessageID: a.ids.id("activity", c.id), ActivityType: ActivityTool, Content: marshal(struct {
		ToolCallID string          `json:"toolCallId"`
		Title      string          `json:"title"`
		Kind       string          `json:"kind"`
		Status     string          `json:"status"`
		Locations  json.RawMessage `json:"locations"`
		Content    json.RawMessage `json:"content"`
		Terminals  struct{}        `json:"terminals"`
	}{c.id, seen.Title, seen.Kind, seen.Status, json.RawMessage(c.shown.locations), json.RawMessage(c.shown.content), struct{}{}})})
}

// update sends the members a frame changes. Lists are replaced whole, as ACP sends them; a text that a frame leaves out
// stays.
func (a *activities) update(dst []Out, c *call, news wire.ToolCall) []Out {
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
		list("/content", &c.shown.content, a.content(news))
	}
	return a.patch(dst, c, ops)
}

// patch sends operations on a call's activity, if there are any.
func (a *activities) patch(dst []Out, c *call, ops []operation) []Out {
	if len(ops) == 0 {
		return dst
	}
	return event(dst, &agui.ActivityDelta{MessageID: a.ids.id("activity", c.id), ActivityType: ActivityTool, Patch: marshal(ops)})
}

func locations(c wire.ToolCall) json.RawMessage {
	if len(c.Locations) == 0 {
		return json.RawMessage("[]")
	}
	return marshal(c.Locations)
}

// content is a call's content with our ids in it, bounded.
func (a *activities) content(c wire.ToolCall) json.RawMessage {
	out := []byte{'['}
	for i, piece := range c.Content {
		if i > 0 {
			out = append(out, ',')
		}
		if i == maxPieces {
			out = append(out, `{"type":"cut"}`...)
			break
		}
		out = append(out, a.piece(piece)...)
	}
	return append(out, ']')
}

// piece is one piece of content as it came, or what stands for it.
func (a *activities) piece(p wire.ToolContent) json.RawMessage {
	if len(p.Raw) <= maxPicture {
		return a.ids.scrub(p.Raw)
	}
	return cut(p, maxPicture/4, "")
}

// cut is what stands for a piece that is too large to be shown: the beginning of each of its texts, up to a size, how
// large it is, and its hash where that counts.
func cut(p wire.ToolContent, size int, sum string) json.RawMessage {
	return marshal(struct {
		Type    string `json:"type"`
		Path    string `json:"path,omitempty"`
		OldText string `json:"oldText,omitempty"`
		NewText string `json:"newText,omitempty"`
		Text    string `json:"text,omitempty"`
		Cut     bool   `json:"cut"`
		Bytes   int    `json:"bytes"`
		SHA256  string `json:"sha256,omitempty"`
	}{
		p.Type, p.Path, head(word(p.OldText), size), head(p.NewText, size), head(p.Block.Words(), size), true, len(p.Raw), sum,
	})
}
