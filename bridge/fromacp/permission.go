package fromacp

import (
	"encoding/json"
	"strconv"

	"aqueduct/acpgateway/acp"
)

// Question is what an agent asks permission for. It shows what the agent stated; that it
// then does just this is the agent's promise, not ours.
type Question struct {
	Key        string // the agent's request id, unique in one life of one agent only
	SessionID  string // the agent's
	ToolCallID string // ours, of the call it is about
	Tool       string
	Kind       string // ACP's kind of tool: read, edit, execute, …
	Title      string
	Args       json.RawMessage // an object
	Options    []Option
}

// Option is one answer. Its ID is ours; Upstream is what the agent wants to hear.
type Option struct {
	ID       string
	Label    string
	Kind     string
	Upstream string
}

// ByKind is the first option of a kind; several may share one.
func (q *Question) ByKind(kind string) (Option, bool) {
	for _, o := range q.Options {
		if o.Kind == kind {
			return o, true
		}
	}
	return Option{}, false
}

// ByID is the option with an id of ours.
func (q *Question) ByID(id string) (Option, bool) {
	for _, o := range q.Options {
		if o.ID == id {
			return o, true
		}
	}
	return Option{}, false
}

// Permission appends what a permission request means: the call it is about, told with
// its arguments, and the Question.
func (t *Translator) Permission(dst []Out, request json.RawMessage) []Out {
	p := acp.ReadPermission(request)
	if p.ToolCall.ID == "" {
		p.ToolCall.ID = t.fresh("asked") // a call nobody will hear of again
	}
	var own json.RawMessage // what the call has named so far
	if c := t.calls[p.ToolCall.ID]; c != nil && !c.startsAgain(p.ToolCall, frameAsk) {
		own = c.seen.RawInput
	}
	dst, c := t.upsert(t.closeSpeech(dst), p.ToolCall, frameAsk)
	known := c.seen
	known.Merge(p.ToolCall) // of a call that has ended nothing else is left
	c.asked, c.stated, c.diffs = true, nil, diffsOf(known)
	if !acp.EmptyInput(p.ToolCall.RawInput) || !acp.EmptyInput(own) {
		c.stated = statedOf(p.ToolCall.RawInput, own)
	}
	return append(dst, Out{Question: &Question{
		Key: string(p.RequestID), SessionID: p.SessionID, ToolCallID: c.id, Tool: shownTool(known), Kind: known.Kind,
		Title: titleOf(known), Args: t.askedArgs(p.ToolCall, c), Options: options(p.Options),
	}})
}

func titleOf(c acp.ToolCall) string {
	if c.Title != "" {
		return c.Title
	}
	return toolName(c)
}

// askedArgs are the request's own arguments, else the call's. Where there are none, what
// the request shows stands for them: gemini asks with a diff alone.
func (t *Translator) askedArgs(asked acp.ToolCall, c *call) json.RawMessage {
	switch {
	case !acp.EmptyInput(asked.RawInput):
		return arguments(asked.RawInput)
	case !acp.EmptyInput(c.seen.RawInput):
		return arguments(c.seen.RawInput)
	case len(asked.Content) > 0 || len(asked.Locations) > 0:
		return marshal(struct {
			Locations json.RawMessage `json:"locations"`
			Content   json.RawMessage `json:"content"`
		}{locations(asked), t.content(asked)})
	}
	return json.RawMessage("{}")
}

// options names each by its kind: the agent's own ids are its secret, and no two agents
// agree on them.
func options(offered []acp.Option) []Option {
	list := make([]Option, 0, len(offered))
	used := make(map[string]int, len(offered))
	for _, o := range offered {
		id := head(o.Kind, maxName)
		if id == "" {
			id = "option"
		}
		if used[id]++; used[id] > 1 {
			id += "#" + strconv.Itoa(used[id])
		}
		label := o.Name
		if label == "" {
			label = id
		}
		list = append(list, Option{ID: id, Label: label, Kind: o.Kind, Upstream: o.ID})
	}
	return list
}
