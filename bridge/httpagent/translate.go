package httpagent

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"aqueduct/agui"
	"aqueduct/bridge"
	"aqueduct/internal/jsontext"
	"aqueduct/internal/strictjson"
)

// Names of the frames an agent may send: the platform contract's four, then ours.
const (
	frameDelta         = "delta"
	frameState         = "state"
	frameDone          = "done"
	frameError         = "error"
	frameThought       = "thought"
	frameToolCall      = "tool_call"
	frameToolCallStart = "tool_call_start"
	frameToolCallArgs  = "tool_call_args"
	frameToolCallEnd   = "tool_call_end"
	frameToolResult    = "tool_result"
	frameStateSnapshot = "state_snapshot"
	frameStateDelta    = "state_delta"
	frameActivity      = "activity"
	frameStep          = "step"
	frameCustom        = "custom"
	frameAsk           = "ask"
	frameClientTool    = "call_client_tool"
)

// translator turns frames into AG-UI events and Questions. It does no I/O and reads no clock; new ids come from newID, and
// ids that stand for an id of the agent are derived from that, so they are the same in every invoke of a Turn.
//
// Frames and what they become, by file: translate.go text and reasoning, translate_events.go state, calls, activities,
// steps and custom events, translate_ends.go questions and the end.
type translator struct {
	turnID    string
	namespace uuid.UUID // of the Turn, for ids derived from the agent's
	newID     func() string
	ended     bool

	// At most one of text and reasoning is open. "" is none.
	text      string // id of the open text message
	reasoning string // id of the open reasoning
	parent    string // newest text message, the parent of tool calls
	calls     callIDs

	names agui.FunctionNames // the names of the tools at the agent
}

// newTranslator makes a translator for one invoke of a Turn. newID makes the ids of messages. A Turn's id that is no
// UUID is hashed into one, so that derived ids have one form.
func newTranslator(turnID string, newID func() string) *translator {
	namespace, err := uuid.Parse(turnID)
	if err != nil {
		namespace = uuid.NewSHA1(uuid.NameSpaceOID, []byte(turnID))
	}
	t := &translator{turnID: turnID, namespace: namespace, newID: newID}
	t.calls = callIDs{turnID: turnID, derive: t.id, begun: make(map[string]int), answered: make(map[string]int)}
	return t
}

// translate appends what one frame means. An error is of the frame, and the translator must not be used after it.
// Text and reasoning come before the other kinds, because they alone leave an open message open.
func (t *translator) translate(dst []bridge.Output, f frame) ([]bridge.Output, error) {
	switch f.event {
	case frameDelta:
		return t.delta(dst, f.data)
	case frameThought:
		return t.thought(dst, f.data)
	}
	dst = t.closeSpoken(dst)
	switch f.event {
	case frameDone:
		return t.done(dst, f.data)
	case frameError:
		return t.error(dst, f.data)
	case frameState:
		return t.state(dst, f.data)
	case frameToolCall:
		return t.toolCall(dst, f.data)
	case frameToolCallStart, frameToolCallArgs, frameToolCallEnd:
		return t.toolCallPart(dst, f)
	case frameToolResult:
		return t.toolResult(dst, f.data)
	case frameStateSnapshot:
		return t.stateSnapshot(dst, f.data)
	case frameStateDelta:
		return t.stateDelta(dst, f.data)
	case frameActivity:
		return t.activity(dst, f.data)
	case frameStep:
		return t.step(dst, f.data)
	case frameCustom:
		return t.custom(dst, f.data)
	case frameAsk:
		return t.ask(dst, f.data)
	case frameClientTool:
		return t.clientTool(dst, f.data)
	}
	return t.unknown(dst, f)
}

// over implements meaning.
func (t *translator) over() bool { return t.ended }

// ends implements meaning: done or error is the last frame of every answer.
func (t *translator) ends(dst []bridge.Output) []bridge.Output { return dst }

// id derives the id in the log from one of the agent: equal ids give equal ids, in every invoke of the Turn.
func (t *translator) id(upstream string) string {
	return uuid.NewSHA1(t.namespace, []byte(upstream)).String()
}

// newID makes a UUID of version 7, which sorts by its time.
func newID() string { return uuid.Must(uuid.NewV7()).String() }

func event(dst []bridge.Output, events ...agui.Event) []bridge.Output {
	for _, ev := range events {
		dst = append(dst, bridge.Output{Event: ev})
	}
	return dst
}

// decode reads a frame's data, which must be a JSON object.
func decode(name string, data []byte, v any) error {
	if strictjson.TooMany(data, strictjson.MostFrameValues) {
		return fmt.Errorf("frame %s: more than %d values", name, strictjson.MostFrameValues)
	}
	if err := json.Unmarshal(data, v); err != nil {
		return fmt.Errorf("frame %s: %w", name, err)
	}
	return nil
}

// missing is the error of a frame without a member that its kind needs.
func missing(frame, member string) error { return &missingError{frame, member} }

// missingError names a missing member; malformed copies it to the trace.
type missingError struct{ frame, member string }

// Error implements error.
func (e *missingError) Error() string { return "frame " + e.frame + ": " + e.member + " is missing" }

// delta is a piece of the answer's text.
// {"text":"Hel"} becomes TEXT_MESSAGE_CONTENT, with START before the first; any other frame ends the message, because
// HTTP agents name no messages.
func (t *translator) delta(dst []bridge.Output, data []byte) ([]bridge.Output, error) {
	text, err := textOf(frameDelta, data)
	if err != nil || text == "" {
		return dst, err
	}
	if t.text == "" {
		dst = t.closeReasoning(dst)
		t.text = t.newID()
		t.parent = t.text
		dst = event(dst, &agui.TextMessageStart{MessageID: t.text, Role: agui.RoleAssistant})
	}
	return event(dst, &agui.TextMessageContent{MessageID: t.text, Delta: text}), nil
}

// thought is a piece of reasoning.
// {"text":"…"} becomes REASONING_MESSAGE_CONTENT within REASONING_START and END.
func (t *translator) thought(dst []bridge.Output, data []byte) ([]bridge.Output, error) {
	text, err := textOf(frameThought, data)
	if err != nil || text == "" {
		return dst, err
	}
	if t.reasoning == "" {
		dst = t.closeText(dst)
		t.reasoning = t.newID()
		dst = event(dst, &agui.ReasoningStart{MessageID: t.reasoning},
			&agui.ReasoningMessageStart{MessageID: t.reasoning})
	}
	return event(dst, &agui.ReasoningMessageContent{MessageID: t.reasoning, Delta: text}), nil
}

// textOf reads {"text": …}. Most frames are this one, so the plain form is read without
// reflection.
func textOf(name string, data []byte) (string, error) {
	if text, ok := plainText(data); ok {
		return text, nil
	}
	var body struct {
		Text *jsontext.Fragment `json:"text"`
	}
	if err := decode(name, data, &body); err != nil {
		return "", err
	}
	if body.Text == nil {
		return "", missing(name, "text")
	}
	return string(*body.Text), nil
}

// plainText reads a frame of only {"text":"…"} with the short escapes. It returns false for anything else, which
// encoding/json then reads.
func plainText(data []byte) (string, bool) {
	const begin, end = `{"text":"`, `"}`
	if len(data) < len(begin)+len(end) || string(data[:len(begin)]) != begin || string(data[len(data)-len(end):]) != end {
		return "", false
	}
	inside := data[len(begin) : len(data)-len(end)]
	special := bytes.IndexAny(inside, "\"\\")
	if special < 0 { // nothing is escaped
		return string(inside), utf8.Valid(inside) && !hasControl(inside)
	}
	var text strings.Builder
	text.Grow(len(inside))
	for special >= 0 {
		if inside[special] == '"' || special+1 == len(inside) { // the text ended here, and another member follows
			return "", false
		}
		c, ok := unescape(inside[special+1])
		if !ok { // \u and the rarer ones
			return "", false
		}
		text.Write(inside[:special])
		text.WriteByte(c)
		inside = inside[special+2:]
		special = bytes.IndexAny(inside, "\"\\")
	}
	text.Write(inside)
	return text.String(), utf8.Valid(data) && !hasControl(data)
}

// unescape is what a short escape stands for.
func unescape(c byte) (byte, bool) {
	switch c {
	case '"', '\\', '/':
		return c, true
	case 'n':
		return '\n', true
	case 't':
		return '\t', true
	case 'r':
		return '\r', true
	}
	return 0, false
}

// hasControl finds what JSON does not allow inside a string.
func hasControl(s []byte) bool {
	for _, c := range s {
		if c < ' ' {
			return true
		}
	}
	return false
}

// closeSpoken ends the open message: after any other frame a new message begins.
func (t *translator) closeSpoken(dst []bridge.Output) []bridge.Output {
	return t.closeText(t.closeReasoning(dst))
}

// closeText ends the text message, if one is open. parent stays: calls that follow still hang under it.
func (t *translator) closeText(dst []bridge.Output) []bridge.Output {
	if t.text == "" {
		return dst
	}
	id := t.text
	t.text = ""
	return event(dst, &agui.TextMessageEnd{MessageID: id})
}

// closeReasoning ends the reasoning, if it is open: its message, and the block around it.
func (t *translator) closeReasoning(dst []bridge.Output) []bridge.Output {
	if t.reasoning == "" {
		return dst
	}
	id := t.reasoning
	t.reasoning = ""
	return event(dst, &agui.ReasoningMessageEnd{MessageID: id}, &agui.ReasoningEnd{MessageID: id})
}

// unknown passes a frame with an unknown name on as a CUSTOM event, so that a page may use it.
// For example event: progress with data {"done":3} becomes CUSTOM {"name":"agent.progress","value":{"done":3}}.
func (t *translator) unknown(dst []bridge.Output, f frame) ([]bridge.Output, error) {
	if !json.Valid(f.data) {
		return dst, fmt.Errorf("frame %q: data is not JSON", f.event)
	}
	name := cmp.Or(f.event, "message") // the name that SSE gives an event without one
	// The data is copied, because it lies in the reader's buffer.
	return event(dst, &agui.Custom{Name: "agent." + name, Value: bytes.Clone(f.data)}), nil
}

// seconds is a span as agents give it.
func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
