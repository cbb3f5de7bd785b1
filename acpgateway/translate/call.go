package translate

import (
	"cmp"
	"encoding/json"
	"slices"

	"aqueduct/acpgateway/wire"
	"aqueduct/agui"
	"aqueduct/bridge/approval"
)

// call is a use of a tool: an upsert by the agent's id out of tool_call,
// tool_call_update and permission requests. Any of the three may be the first: gemini
// and qwen never send tool_call.
//
// Its life in the log: TOOL_CALL_START when it is first seen, ARGS and END once the arguments are known (at the latest
// when a person is asked or the call ends), an ACTIVITY "acp.tool" that is drawn and redrawn, TOOL_CALL_RESULT at its
// end. ACP may send the arguments before, with, or after the start, in parts, or not at all.
type call struct {
	id       string // ours
	use      int    // the nth call the agent gave this id
	seen     wire.ToolCall
	shown    picture
	argsSent bool            // TOOL_CALL_ARGS and END are out
	args     json.RawMessage // as they were emitted; dropped at the end
	asked    bool            // a person was asked about it
	stated   *stated         // what of its arguments; nil when the question had none
	diffs    json.RawMessage // and the changes it showed
	changed  bool            // since then it named other arguments, which was flagged
	ended    bool            // has its result
	hidden   bool            // a repetition of what the log has
	over     bool            // the repetition has come to its end
	outputs  []string        // of terminals, for the result; bounded
	resumed  bool            // over from a snapshot: its arguments may have to begin it again

	diffPrint []byte // of diffs, from a snapshot, which does not have them
}

// calls are the Session's tool calls. It asks speech to end what is being written before a call begins or
// ends, because the log shows them in order.
type calls struct {
	ids        *ids
	replay     *replay
	speech     *speech
	activities activities

	byID map[string]*call // by the agent's id, the newest of that id
	open []*call          // without a result, in the order they began
}

// frame is which of the three a ToolCall came in.
type frame uint8

const (
	frameNew frame = iota
	frameUpdate
	frameAsk
)

// maxUnsaid is how many calls may wait for their arguments; the grammar keeps each of
// them open.
const maxUnsaid = 256

// update takes a tool_call or a tool_call_update. False when it names no call.
func (cs *calls) update(dst []Out, u wire.Update) ([]Out, bool) {
	news, from := u.ToolCall(), frameUpdate
	if u.Variant == wire.ToolCallNew {
		from = frameNew
	}
	if news.ID == "" {
		return dst, false
	}
	dst, _ = cs.upsert(dst, news, from)
	return dst, true
}

// upsert finds the call that a frame is about, or begins it, and merges the frame into what is known of it. A frame of a
// call that is repeated history emits nothing.
func (cs *calls) upsert(dst []Out, news wire.ToolCall, from frame) ([]Out, *call) {
	c := cs.byID[news.ID]
	if c == nil || c.startsAgain(news, from) {
		c = cs.begin(news, c, from)
	}
	if from == frameAsk {
		c.asked = true
		news.RawInput = c.askedInput(news.RawInput)
	}
	if !c.hidden {
		dst = cs.emitChanges(dst, c, news, from)
	}
	c.seen.Merge(news)
	c.over = c.over || wire.Ended(news.Status)
	if c.ended {
		c.forget()
	}
	return cs.emitOldestArgs(dst), c
}

// emitChanges emits what one frame changes. seen is still what was before it.
// The order within one frame is fixed: start, arguments, picture, terminals, the flag for changed arguments, result. A
// client that gets the events one by one must never see a result before its arguments.
func (cs *calls) emitChanges(dst []Out, c *call, news wire.ToolCall, from frame) []Out {
	next := c.seen
	next.Merge(news)
	fresh := c.seen.ID == ""
	dst = cs.interruptSpeech(dst, fresh || wire.Ended(news.Status) && !c.ended)
	// The id alone is merged now: what else is known of the call stays what was before the frame, to compare with.
	if fresh {
		c.seen.ID, next.ID = news.ID, news.ID
		dst = event(dst, &agui.ToolCallStart{ToolCallID: c.id, ToolCallName: shownTool(next), ParentMessageID: cs.speech.parent})
	}
	if !c.argsSent && (from == frameAsk || wire.Ended(next.Status) || len(news.Terminals) > 0 && !wire.EmptyInput(next.RawInput)) {
		dst = c.emitArgs(cs.speech.close(dst), next.RawInput)
	}
	if fresh {
		dst = cs.activities.show(dst, c, next)
	} else {
		dst = cs.activities.update(dst, c, news)
	}
	dst = cs.activities.terminals(dst, c, news.Terminals)
	if from != frameAsk {
		dst = c.compareAsked(dst, news)
	}
	if wire.Ended(next.Status) && !c.ended {
		c.seen = next
		dst = cs.end(dst, c, resultText(next, c.outputs))
	}
	return dst
}

// interruptSpeech: a call that begins or ends stands between two messages. What merely redraws
// it does not interrupt one, unless nothing but order tells messages apart.
func (cs *calls) interruptSpeech(dst []Out, between bool) []Out {
	if between {
		return cs.speech.close(dst)
	}
	return cs.speech.closeNameless(dst)
}

// startsAgain tells a new call from late news of one that has ended: some models number
// their calls anew in every answer.
// For instance "call_1" in each answer of a model that numbers from one.
func (c *call) startsAgain(news wire.ToolCall, from frame) bool {
	done := c.ended && (!c.hidden || c.over)
	return done && from != frameUpdate && !wire.Ended(news.Status)
}

// begin makes the call that a frame is the first of; before is the last one under the agent's id, if any. The id may
// have been used before: by an earlier call, by a process before a restart, or by history that the log has. Each use
// gets an id of its own, by an ordinal behind the agent's id, until one is free.
func (cs *calls) begin(news wire.ToolCall, before *call, from frame) *call {
	upstream, c := news.ID, &call{}
	// Agents that give replayed calls new ids repeat name and arguments.
	same := func(known KnownCall) bool {
		return known.Name == shownTool(news) && sameJSON(json.RawMessage(known.Args), arguments(news.RawInput))
	}
	if before != nil {
		c.use = before.use + 1
	}
	c.id = cs.ids.id("call", ordinal(upstream, c.use))
	switch from {
	case frameAsk: // a replay repeats no request for permission
	case frameUpdate:
		c.over = cs.ids.before.has(c.id)
		c.hidden = c.over || cs.replay.call(c.id, same) || cs.replay.has(c.id)
	default:
		c.hidden = !cs.ids.before.has(c.id) && cs.replay.call(c.id, same)
	}
	for !c.hidden && (cs.replay.has(c.id) || cs.ids.before.has(c.id)) {
		c.use++
		c.id = cs.ids.id("call", ordinal(upstream, c.use))
	}
	cs.byID[upstream], cs.ids.calls[upstream] = c, c.id
	if c.hidden { // it has its result in the log, and is never open
		c.ended = true
		return c
	}
	cs.open = append(cs.open, c)
	cs.ids.give(c.id)
	return c
}

// end gives a call its one result.
func (cs *calls) end(dst []Out, c *call, text string) []Out {
	if !c.argsSent {
		dst = c.emitArgs(dst, c.seen.RawInput)
	}
	dst = c.completeArgs(dst)
	c.ended = true
	cs.open = slices.DeleteFunc(cs.open, func(o *call) bool { return o == c })
	return event(dst, &agui.ToolCallResult{
		MessageID: cs.ids.id("result", c.id), ToolCallID: c.id, Role: agui.RoleTool, Content: agui.Text(text),
	})
}

// forget drops what an ended call no longer needs.
// A Session may have thousands of calls with large results; of one that has ended only its id is needed, for late
// frames.
func (c *call) forget() {
	c.seen = wire.ToolCall{ID: c.seen.ID}
	c.shown.content, c.args, c.stated, c.diffs, c.diffPrint, c.outputs = "", nil, nil, nil, nil, nil
}

// toolName is the tool's name, else the kind of thing it does.
func toolName(c wire.ToolCall) string {
	return head(cmp.Or(c.Name, c.Kind, "other"), maxName)
}

// shownTool keeps this server's names for its own tools and cards.
func shownTool(c wire.ToolCall) string { return approval.AgentsTool(toolName(c)) }
