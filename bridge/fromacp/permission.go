package fromacp

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"aqueduct/acpgateway/acp"
	"aqueduct/agui"
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
	Input      bool            // it wants input, and not a permission
	Schema     json.RawMessage // of the input; nil for any
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
	if len(p.Options) == 0 { // the gateway has declined it: there is nothing that could be chosen
		return append(dst, Out{Event: &agui.Custom{Name: "acp.permission_declined", Value: marshal(map[string]string{
			"title": titleOf(known), "tool": shownTool(known), "reason": "The agent asked and offered nothing to choose.",
		})}})
	}
	return append(dst, Out{Question: &Question{
		Key: string(p.RequestID), SessionID: p.SessionID, ToolCallID: c.id, Tool: shownTool(known), Kind: known.Kind,
		Title: titleOf(known), Args: t.askedArgs(p.ToolCall, known, own), Options: options(p.Options),
	}})
}

func titleOf(c acp.ToolCall) string {
	if c.Title != "" {
		return c.Title
	}
	return toolName(c)
}

// askedArgs are what a person decides about, and what its hash and a standing answer cover: the
// request's own arguments, else the call's, with the changes of files that they do not hold. Where
// there are no arguments, what is shown stands for them: gemini asks with a diff alone, codex with
// the path alone, for a call that has shown its diff before.
func (t *Translator) askedArgs(asked, known acp.ToolCall, own json.RawMessage) json.RawMessage {
	args := own
	if !acp.EmptyInput(asked.RawInput) {
		args = withPlace(asked.RawInput, own)
	}
	switch {
	case !acp.EmptyInput(args):
		return t.withChanges(arguments(args), known)
	case len(known.Content) > 0 || len(known.Locations) > 0:
		return marshal(struct {
			Paths     []string        `json:"paths"`
			Locations json.RawMessage `json:"locations"`
			Content   json.RawMessage `json:"content"`
		}{pathsOf(known), locations(known), t.shownContent(known, anyContent)})
	}
	return json.RawMessage("{}")
}

// withPlace adds the directory that a call has named to a request that does not name one: the same
// command elsewhere is another.
func withPlace(asked, own json.RawMessage) json.RawMessage {
	states, _ := decodeExact(asked).(map[string]any)
	named, _ := decodeExact(own).(map[string]any)
	if states == nil || indexOf(membersOf(asked), "cwd") >= 0 || indexOf(membersOf(asked), "command") < 0 {
		return asked
	}
	for name, value := range named {
		if usualKey(plainKey(name)) == "cwd" && states[name] == nil {
			states[name] = value
			return marshal(states)
		}
	}
	return asked
}

// withChanges adds the diffs that a question shows and its arguments do not hold.
func (t *Translator) withChanges(args json.RawMessage, known acp.ToolCall) json.RawMessage {
	fields, _ := decodeExact(args).(map[string]any)
	if diffsOf(known) == nil || holdsChanges(fields, known) {
		return args
	}
	name := "changes"
	for fields[name] != nil {
		name = "_" + name
	}
	args = append(bytes.TrimSuffix(bytes.Clone(args), []byte{'}'}), ',')
	if len(fields) == 0 {
		args = json.RawMessage{'{'}
	}
	args = append(agui.AppendString(args, name), ':')
	return append(append(args, t.shownContent(known, onlyDiffs)...), '}')
}

// holdsChanges reports whether arguments hold all that the diffs beside them would change.
func holdsChanges(fields map[string]any, known acp.ToolCall) bool {
	for _, piece := range known.Content {
		if piece.Type != acp.ToolContentDiff {
			continue
		}
		held := false
		for name, value := range fields {
			text, _ := value.(string)
			name = plainKey(name)
			held = held || text != "" && (name == "diff" || name == "patch" || piece.NewText != "" && strings.Contains(text, piece.NewText))
		}
		if !held {
			return false
		}
	}
	return true
}

// pathsOf are the files that a call names or shows a change of, each once, by the longer of two
// names.
func pathsOf(c acp.ToolCall) []string {
	paths := make([]string, 0, len(c.Locations))
	for _, l := range c.Locations {
		paths = append(paths, l.Path)
	}
	for _, piece := range c.Content {
		if piece.Type == acp.ToolContentDiff {
			paths = append(paths, piece.Path)
		}
	}
	slices.Sort(paths)
	paths = slices.Compact(paths)
	return slices.DeleteFunc(slices.Clone(paths), func(short string) bool {
		return slices.ContainsFunc(paths, func(path string) bool { return path != short && endsWith(path, short) })
	})
}

// maxAsked bounds the content in a question's arguments, in bytes; what is longer is shown by its
// beginning and its hash, so that another is another.
const maxAsked = 256 << 10

func anyContent(p acp.ToolContent) bool { return p.Type != acp.ToolContentTerminal }
func onlyDiffs(p acp.ToolContent) bool  { return p.Type == acp.ToolContentDiff }

// shownContent is what a question shows of a call's content. Terminals are named anew each time
// and change nothing.
func (t *Translator) shownContent(c acp.ToolCall, wanted func(acp.ToolContent) bool) json.RawMessage {
	list := make([]json.RawMessage, 0, len(c.Content))
	size, rest := 0, sha256.New()
	for _, p := range c.Content {
		if !wanted(p) {
			continue
		}
		if len(list) >= maxPieces {
			rest.Write(p.Raw)
			continue
		}
		if size += len(p.Raw); size <= maxAsked && len(p.Raw) <= maxPicture {
			list = append(list, t.scrub(p.Raw))
			continue
		}
		sum := sha256.Sum256(p.Raw)
		list = append(list, marshal(struct {
			Type    string `json:"type"`
			Path    string `json:"path,omitempty"`
			OldText string `json:"oldText,omitempty"`
			NewText string `json:"newText,omitempty"`
			Text    string `json:"text,omitempty"`
			Cut     bool   `json:"cut"`
			Bytes   int    `json:"bytes"`
			SHA256  string `json:"sha256"`
		}{
			p.Type, p.Path, head(old(p), maxPicture/64), head(p.NewText, maxPicture/64), head(p.Block.Words(), maxPicture/64),
			true, len(p.Raw), hex.EncodeToString(sum[:]),
		}))
	}
	if len(list) == maxPieces {
		list = append(list, marshal(struct {
			Type   string `json:"type"`
			SHA256 string `json:"sha256"`
		}{"cut", hex.EncodeToString(rest.Sum(nil))}))
	}
	return marshal(list)
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
		if label == "" && o.Kind == "" {
			label = o.ID // which alone may say what it does
		}
		if label == "" {
			label = id
		}
		list = append(list, Option{ID: id, Label: label, Kind: o.Kind, Upstream: o.ID})
	}
	return list
}
