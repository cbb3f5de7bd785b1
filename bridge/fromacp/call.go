package fromacp

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"

	"aqueduct/acpgateway/acp"
	"aqueduct/agui"
	"aqueduct/internal/jsonequal"
)

// call is a use of a tool: an upsert by the agent's id out of tool_call,
// tool_call_update and permission requests. Any of the three may be the first: gemini
// and qwen never send tool_call.
type call struct {
	id      string // ours
	use     int    // the nth call the agent gave this id
	seen    acp.ToolCall
	shown   picture
	said    bool            // TOOL_CALL_ARGS and END are out
	args    json.RawMessage // as they were told; dropped at the end
	asked   bool            // a person was asked about it
	stated  *stated         // what of its arguments; nil when the question had none
	diffs   json.RawMessage // and the changes it showed
	changed bool            // since then it said something else, which was flagged
	ended   bool            // has its result
	hidden  bool            // a repetition of what the log has
	over    bool            // the repetition has come to its end
	outputs []string        // of terminals, for the result; bounded
	taken   bool            // over from a snapshot: its arguments may have to begin it again

	diffPrint []byte // of diffs, from a snapshot, which does not have them
}

// frame says which of the three a ToolCall came in.
type frame uint8

const (
	frameNew frame = iota
	frameUpdate
	frameAsk
)

// maxUnsaid is how many calls may wait for their arguments; the grammar keeps each of
// them open.
const maxUnsaid = 256

func (t *Translator) toolCall(dst []Out, u acp.Update) []Out {
	news, from := u.ToolCall(), frameUpdate
	if u.Variant == acp.ToolCallNew {
		from = frameNew
	}
	if news.ID == "" {
		return t.unknown(dst, u)
	}
	dst, _ = t.upsert(dst, news, from)
	return dst
}

func (t *Translator) upsert(dst []Out, news acp.ToolCall, from frame) ([]Out, *call) {
	c := t.calls[news.ID]
	if c == nil || c.startsAgain(news, from) {
		c = t.newCall(news, c, from)
	}
	if from == frameAsk {
		c.asked = true
		news.RawInput = c.askedInput(news.RawInput)
	}
	if !c.hidden {
		dst = t.tell(dst, c, news, from)
	}
	c.seen.Merge(news)
	c.over = c.over || acp.Ended(news.Status)
	if c.ended {
		c.forget()
	}
	return t.sayOldest(dst), c
}

// tell emits what one frame changes. seen is still what was before it.
func (t *Translator) tell(dst []Out, c *call, news acp.ToolCall, from frame) []Out {
	next := c.seen
	next.Merge(news)
	fresh := c.seen.ID == ""
	dst = t.makeRoom(dst, fresh || acp.Ended(news.Status) && !c.ended)
	if fresh {
		c.seen.ID, next.ID = news.ID, news.ID
		dst = event(dst, &agui.ToolCallStart{ToolCallID: c.id, ToolCallName: shownTool(next), ParentMessageID: t.speech.parent})
	}
	if !c.said && (from == frameAsk || acp.Ended(next.Status) || len(news.Terminals) > 0 && !acp.EmptyInput(next.RawInput)) {
		dst = t.sayArgs(t.closeSpeech(dst), c, next.RawInput)
	}
	if fresh {
		dst = t.showCall(dst, c, next)
	} else {
		dst = t.redrawCall(dst, c, news)
	}
	dst = t.showTerminals(dst, c, news.Terminals)
	if from != frameAsk {
		dst = t.compareAsked(dst, c, news)
	}
	if acp.Ended(next.Status) && !c.ended {
		c.seen = next
		dst = t.endCall(dst, c, resultText(next, c.outputs))
	}
	return dst
}

// makeRoom: a call that begins or ends stands between two messages. What merely redraws
// it does not interrupt one, unless nothing but order tells messages apart.
func (t *Translator) makeRoom(dst []Out, between bool) []Out {
	if between {
		return t.closeSpeech(dst)
	}
	return t.closeNameless(dst)
}

// startsAgain tells a new call from late news of one that has ended: some models number
// their calls anew in every answer.
func (c *call) startsAgain(news acp.ToolCall, from frame) bool {
	done := c.ended && (!c.hidden || c.over)
	return done && from != frameUpdate && !acp.Ended(news.Status)
}

func (t *Translator) newCall(news acp.ToolCall, before *call, from frame) *call {
	upstream, c := news.ID, &call{}
	same := func(known KnownCall) bool {
		return known.Name == shownTool(news) && sameJSON(json.RawMessage(known.Args), arguments(news.RawInput))
	}
	if before != nil {
		c.use = before.use + 1
	}
	c.id = t.id("call", ordinal(upstream, c.use))
	switch from {
	case frameAsk: // nobody asks again for what was allowed
	case frameUpdate:
		c.over = t.before.has(c.id)
		c.hidden = c.over || t.replay.call(c.id, same) || t.replay.has(c.id)
	default:
		c.hidden = !t.before.has(c.id) && t.replay.call(c.id, same)
	}
	for !c.hidden && (t.replay.has(c.id) || t.before.has(c.id)) {
		c.use++
		c.id = t.id("call", ordinal(upstream, c.use))
	}
	t.calls[upstream] = c
	if c.hidden {
		c.ended = true
		return c
	}
	t.open = append(t.open, c)
	t.give(c.id)
	return c
}

// Arguments come in parts: opencode first names the directory, then the command. ARGS cannot be
// taken back, so they are told when a person is asked, when the call is over or shows output, when the agent has
// been quiet about it for a while, and when the Run may end.

// Working reports whether a tool call has no result yet: then it may be the tool that says nothing.
func (t *Translator) Working() bool { return len(t.open) > 0 }

// Unsaid reports whether a call runs whose arguments are not told yet.
func (t *Translator) Unsaid() bool {
	for _, c := range t.open {
		if c.runsUnsaid() {
			return true
		}
	}
	return false
}

// SayArguments tells the arguments of the calls that run, as far as they are known: the agent
// has been quiet about them.
func (t *Translator) SayArguments(dst []Out) []Out {
	for _, c := range t.open {
		if c.runsUnsaid() {
			dst = t.sayArgs(dst, c, c.seen.RawInput)
		}
	}
	return dst
}

func (c *call) runsUnsaid() bool {
	return !c.said && c.seen.Status == acp.StatusInProgress && !acp.EmptyInput(c.seen.RawInput)
}

// askedInput is what a request for permission makes of a call's arguments: all that it holds, when
// the call has named no more than where and why so far, or nothing else than it holds. Otherwise
// nothing: opencode also asks with other arguments than it calls with.
func (c *call) askedInput(asked json.RawMessage) json.RawMessage {
	if acp.EmptyInput(c.seen.RawInput) {
		return asked
	}
	named, _ := decodeExact(c.seen.RawInput).(map[string]any)
	states, _ := decodeExact(asked).(map[string]any)
	if len(named) == 0 || len(states) == 0 {
		return nil
	}
	for name, value := range named {
		other, there := states[name]
		switch {
		case there && jsonequal.Values(other, value):
		case !there && (usualKey(plainKey(name)) == "cwd" || explains(plainKey(name))):
			states[name] = value
		default:
			return nil
		}
	}
	return marshal(states)
}

func (t *Translator) sayArgs(dst []Out, c *call, input json.RawMessage) []Out {
	c.said, c.args = true, arguments(input)
	if c.taken { // the Run that began it may have closed it
		return event(dst, &agui.ToolCallChunk{ToolCallID: c.id, ToolCallName: shownTool(c.seen), Delta: string(c.args)}, &agui.ToolCallEnd{ToolCallID: c.id})
	}
	return event(dst, &agui.ToolCallArgs{ToolCallID: c.id, Delta: string(c.args)}, &agui.ToolCallEnd{ToolCallID: c.id})
}

// arguments are always a JSON object, because clients read them as one.
func arguments(input json.RawMessage) json.RawMessage {
	var b bytes.Buffer
	switch {
	case acp.EmptyInput(input) || json.Compact(&b, input) != nil:
		return json.RawMessage("{}")
	case b.Bytes()[0] != '{':
		return json.RawMessage(`{"input":` + b.String() + `}`)
	}
	return b.Bytes()
}

// compareAsked flags what contradicts that which a person was asked about.
func (t *Translator) compareAsked(dst []Out, c *call, news acp.ToolCall) []Out {
	if !c.asked || c.changed || c.ended {
		return dst
	}
	var shown, now json.RawMessage
	switch {
	case !acp.EmptyInput(news.RawInput) && c.stated != nil && c.stated.contradicts(arguments(news.RawInput)):
		shown, now = c.args, arguments(news.RawInput)
	case !acp.Ended(news.Status) && c.otherDiffs(diffsOf(news)): // a result may show the change in another way
		shown, now = c.diffs, diffsOf(news)
	default:
		return dst
	}
	c.changed = true
	return event(dst, &agui.Custom{Name: "acp.arguments_changed", Value: marshal(struct {
		ToolCallID string          `json:"toolCallId"`
		Asked      bool            `json:"asked"`
		Shown      json.RawMessage `json:"shown"`
		Now        json.RawMessage `json:"now"`
	}{c.id, true, shown, now})})
}

// otherDiffs reports changes other than those that a person was shown.
func (c *call) otherDiffs(now json.RawMessage) bool {
	switch {
	case now == nil:
		return false
	case c.diffs != nil:
		return !bytes.Equal(now, c.diffs)
	}
	return c.diffPrint != nil && !bytes.Equal(c.diffPrint, fingerprint(now))
}

// completeArgs tells the arguments of a call that ends with others than those that were told, and
// about which nobody was asked.
func (t *Translator) completeArgs(dst []Out, c *call) []Out {
	now := arguments(c.seen.RawInput)
	if c.asked || !c.said || c.args == nil || acp.EmptyInput(c.seen.RawInput) || sameJSON(now, c.args) {
		return dst
	}
	return event(dst, &agui.Custom{Name: "acp.arguments_completed", Value: marshal(struct {
		ToolCallID string          `json:"toolCallId"`
		Arguments  json.RawMessage `json:"arguments"`
	}{c.id, now})})
}

func sameJSON(a, b json.RawMessage) bool {
	if len(a) == 0 || len(b) == 0 {
		return false
	}
	return jsonequal.Texts(a, b)
}

func decodeExact(raw json.RawMessage) (v any) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	_ = d.Decode(&v) // of what was valid before
	return v
}

// endCall gives a call its one result.
func (t *Translator) endCall(dst []Out, c *call, text string) []Out {
	if !c.said {
		dst = t.sayArgs(dst, c, c.seen.RawInput)
	}
	dst = t.completeArgs(dst, c)
	c.ended = true
	for i := range t.open {
		if t.open[i] == c {
			t.open = append(t.open[:i], t.open[i+1:]...)
			break
		}
	}
	return event(dst, &agui.ToolCallResult{
		MessageID: t.id("result", c.id), ToolCallID: c.id, Role: agui.RoleTool, Content: agui.Text(text),
	})
}

// forget drops what an ended call no longer needs.
func (c *call) forget() {
	c.seen = acp.ToolCall{ID: c.seen.ID}
	c.shown.content, c.args, c.stated, c.diffs, c.diffPrint, c.outputs = "", nil, nil, nil, nil, nil
}

// sayOldest tells the arguments of the call that has waited longest when too many wait.
func (t *Translator) sayOldest(dst []Out) []Out {
	unsaid := 0
	var oldest *call
	for _, c := range t.open {
		if !c.said && c.seen.ID != "" {
			if unsaid++; oldest == nil {
				oldest = c
			}
		}
	}
	if unsaid <= maxUnsaid {
		return dst
	}
	return t.sayArgs(dst, oldest, oldest.seen.RawInput)
}

// resultText is what a call came to, in text.
func resultText(c acp.ToolCall, outputs []string) string {
	var b strings.Builder
	for _, piece := range c.Content {
		if words := piece.Block.Words(); piece.Type == acp.ToolContentBlock && words != "" {
			if b.Len() > 0 {
				b.WriteByte('\n')
			}
			b.WriteString(words)
		}
	}
	switch {
	case b.Len() > 0:
		return b.String()
	case len(outputs) > 0:
		return withExit(strings.Join(outputs, ""), c)
	case len(c.RawOutput) > 0:
		return rawText(c.RawOutput)
	}
	return c.Status
}

// withExit adds how a command ended, when that was not well. codex says it in rawOutput where the
// command shows no terminal.
func withExit(output string, c acp.ToolCall) string {
	var exit struct {
		Code int `json:"exit_code"`
	}
	if json.Unmarshal(c.RawOutput, &exit) != nil || exit.Code == 0 {
		return output
	}
	return strings.TrimRight(output, "\n") + "\n(exit code " + strconv.Itoa(exit.Code) + ")"
}

// rawText is a JSON string's text, or any other JSON as it is.
func rawText(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	var b bytes.Buffer
	if json.Compact(&b, raw) != nil {
		return string(raw)
	}
	return b.String()
}

// toolName is the tool's name, else the kind of thing it does.
func toolName(c acp.ToolCall) string {
	for _, name := range [...]string{c.Name, c.Kind} {
		if name != "" {
			return head(name, maxName)
		}
	}
	return "other"
}

// shownTool keeps the name of our permission card for our permission card.
func shownTool(c acp.ToolCall) string {
	if name := toolName(c); name != "request_permission" {
		return name
	}
	return "agent.request_permission"
}
