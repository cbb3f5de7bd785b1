package translate

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"aqueduct/acpgateway/wire"
	"aqueduct/agui"
	"aqueduct/bridge/approval"
)

// Question is what an agent asks a person for: a permission or input. Here its frame becomes the Request that the engine keeps
// and shows (bridge/ask.go, questionshow.go); the agent's own ids of the options stay on this side.
//
// It shows what the agent stated; that it then does
// just this is the agent's promise, not ours. The Request has no UpstreamID and no Folder: those are the gateway's.
type Question struct {
	approval.Request
	Key       string // the agent's request id, unique in one life of one agent only
	SessionID string // the agent's
	// Answers are the ids that the agent expects, by our ids of the options.
	Answers map[string]string
}

// questions turns an agent's requests into Questions.
type questions struct {
	ids    *ids
	speech *speech
	calls  *calls
}

// permission appends what a permission request means: the call it is about, with
// its arguments, and the Question.
//
// The frame names the call it is about, often with other members than the updates before it: the two are merged into
// what the person is shown. The call's arguments are emitted before the Question, so that the chat shows what is asked
// about.
func (qs *questions) permission(dst []Out, request json.RawMessage) []Out {
	p := wire.ReadPermission(request)
	// The contract lets a request leave the id out.
	if p.ToolCall.ID == "" {
		p.ToolCall.ID = qs.ids.fresh("asked") // no later frame can name this call
	}
	var own json.RawMessage // what the call has named so far
	if c := qs.calls.byID[p.ToolCall.ID]; c != nil && !c.startsAgain(p.ToolCall, frameAsk) {
		own = c.seen.RawInput
	}
	dst, c := qs.calls.upsert(qs.speech.close(dst), p.ToolCall, frameAsk)
	known := c.seen
	known.Merge(p.ToolCall) // of a call that has ended nothing else is left
	c.asked, c.stated, c.diffs = true, nil, diffsOf(known)
	if !wire.EmptyInput(p.ToolCall.RawInput) || !wire.EmptyInput(own) {
		c.stated = statedOf(p.ToolCall.RawInput, own)
	}
	if len(p.Options) == 0 { // the gateway has declined it: there is nothing that could be chosen
		return append(dst, Out{Event: &agui.Custom{Name: "acp.permission_declined", Value: marshal(map[string]string{
			"title": titleOf(known), "tool": shownTool(known), "reason": "The agent asked and offered nothing to choose.",
		})}})
	}
	offered, answers := options(p.Options)
	return append(dst, Out{Question: &Question{
		Request: approval.Request{
			Kind: approval.AskPermission, Tool: shownTool(known), ToolKind: known.Kind, Title: titleOf(known),
			Args: qs.askedArgs(p.ToolCall, known, own), Options: offered,
		},
		Key: string(p.RequestID), SessionID: p.SessionID, Answers: answers,
	}})
}

func titleOf(c wire.ToolCall) string { return cmp.Or(c.Title, toolName(c)) }

// askedArgs are what a person decides about, and what its hash and a standing answer cover: the
// request's own arguments, else the call's, with the changes of files that they do not hold. Where
// there are no arguments, what is shown stands for them: gemini asks with a diff alone, codex with
// the path alone, for a call that has shown its diff before.
func (qs *questions) askedArgs(asked, known wire.ToolCall, own json.RawMessage) json.RawMessage {
	args := own
	if !wire.EmptyInput(asked.RawInput) {
		args = withPlace(asked.RawInput, own)
	}
	switch {
	case !wire.EmptyInput(args):
		return qs.withChanges(arguments(args), known)
	case len(known.Content) > 0 || len(known.Locations) > 0:
		return marshal(struct {
			Paths     []string        `json:"paths"`
			Locations json.RawMessage `json:"locations"`
			Content   json.RawMessage `json:"content"`
		}{pathsOf(known), locations(known), qs.shownContent(known, anyContent)})
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
func (qs *questions) withChanges(args json.RawMessage, known wire.ToolCall) json.RawMessage {
	fields, _ := decodeExact(args).(map[string]any)
	if diffsOf(known) == nil || holdsChanges(fields, known) {
		return args
	}
	// The arguments keep their bytes, and with them what a policy or a person knows them by; the changes go behind.
	name := "changes"
	for fields[name] != nil {
		name = "_" + name
	}
	args = append(bytes.TrimSuffix(bytes.Clone(args), []byte{'}'}), ',')
	if len(fields) == 0 {
		args = json.RawMessage{'{'}
	}
	args = append(agui.AppendString(args, name), ':')
	return append(append(args, qs.shownContent(known, onlyDiffs)...), '}')
}

// holdsChanges reports whether arguments hold all that the diffs beside them would change.
// An edit with old and new text in its arguments shows all it does; one that names only a path does not, and gets the
// diff beside it.
func holdsChanges(fields map[string]any, known wire.ToolCall) bool {
	for _, piece := range known.Content {
		if piece.Type != wire.ToolContentDiff {
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
func pathsOf(c wire.ToolCall) []string {
	paths := make([]string, 0, len(c.Locations))
	for _, l := range c.Locations {
		paths = append(paths, l.Path)
	}
	for _, piece := range c.Content {
		if piece.Type == wire.ToolContentDiff {
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

func anyContent(p wire.ToolContent) bool { return p.Type != wire.ToolContentTerminal }
func onlyDiffs(p wire.ToolContent) bool  { return p.Type == wire.ToolContentDiff }

// shownContent is what a question shows of a call's content. Terminals are named anew each time and change nothing. What
// is not shown counts by its hash: of one piece, or of all from the maxPieces-th on.
func (qs *questions) shownContent(c wire.ToolCall, wanted func(wire.ToolContent) bool) json.RawMessage {
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
			list = append(list, qs.ids.scrub(p.Raw))
			continue
		}
		sum := sha256.Sum256(p.Raw)
		list = append(list, cut(p, maxPicture/64, hex.EncodeToString(sum[:])))
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
// For instance an agent's "proceed_always" of kind allow_always is offered as "allow_always", and a second of the same
// kind as "allow_always#2".
func options(offered []wire.Option) (list []approval.Option, answers map[string]string) {
	answers = make(map[string]string, len(offered))
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
		list = append(list, approval.Option{ID: id, Label: label, Kind: o.Kind})
		answers[id] = o.ID
	}
	return list, answers
}
