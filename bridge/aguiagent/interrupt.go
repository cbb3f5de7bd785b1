// This file converts an interrupt to a Question: its kind, and the content for the person who answers it.

package aguiagent

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"aqueduct/agui"
	"aqueduct/bridge/approval"
)

// Reasons of interrupts that ask for a yes or a no, and for an input (AG-UI, "Interrupts").
const (
	reasonCall    = "tool_call"
	reasonConfirm = "confirmation"
	reasonInput   = "input_required"
)

// interrupts converts the interrupts of one run to Questions. It shares the known calls and ids with the run's Translator.
type interrupts struct {
	names   *names
	call    func(key string) (agui.ToolCall, bool)
	pending *calls
	tools   map[string]bool   // of the client
	custom  []customInterrupt // those of CUSTOM on_interrupt
}

// question converts an interrupt to a Question. Some agents interrupt to have the client run its own tool. The Question is a
// permission if the interrupt states that (isPermission). Otherwise it is an input, whose answer is free without a schema.
func (s *interrupts) question(i agui.Interrupt) *approval.Request {
	call, isCall := s.callOf(i)
	if isCall && i.ToolCallID != "" && s.tools[call.Function.Name] && i.Reason != reasonCall {
		return s.clientTool(call)
	}
	name, args := statedTool(i.Metadata)
	if isCall {
		name, args = s.names.functions.Own(call.Function.Name), argsOf(call)
	}
	q := &approval.Request{
		CallID: s.names.question(i.ID), Kind: approval.AskPermission, Tool: cmp.Or(name, i.Reason), Args: args, ResponseSchema: i.ResponseSchema,
	}
	if !isPermission(i) {
		q.Kind, q.ToolName, q.Tool, q.Args = approval.AskInput, approval.InputTool, name, i.Metadata
	} else if args == nil && name == "" {
		q.Args = i.Metadata
	}
	if at, err := time.Parse(time.RFC3339, i.ExpiresAt); err == nil {
		q.ExpiresIn = max(time.Until(at), time.Millisecond)
	}
	q.Title = cmp.Or(i.Message, wordsIn(i.Metadata, depthOfWords), name, i.Reason)
	return q
}

// isOwn reports whether a call is of the agent's own tool.
func (s *interrupts) isOwn(callID string) bool {
	call, _ := s.call(callID)
	return !s.tools[call.Function.Name]
}

// clientTool makes a Question for a call of the client's tool. The log has the call already, under the id that the Question
// gets.
func (s *interrupts) clientTool(call agui.ToolCall) *approval.Request {
	return &approval.Request{
		CallID: s.names.call(call.ID), Kind: approval.AskClientTool, ToolName: s.names.functions.Own(call.Function.Name), Args: argsOf(call), Lasting: true,
	}
}

// isPermission reports whether an interrupt is answered by yes or no. That holds if its schema accepts yes or no. Without a
// schema it holds if the interrupt is about a tool call or a confirmation.
func isPermission(i agui.Interrupt) bool {
	if len(i.ResponseSchema) > 0 {
		_, ok := approval.OfferOf(i.ResponseSchema)
		return ok && i.Reason != reasonInput
	}
	var metadata struct {
		Approved json.RawMessage `json:"approved"`
	}
	_ = json.Unmarshal(i.Metadata, &metadata) // an object, as agui.Decode verified, or nothing
	return i.Reason != reasonInput && (i.ToolCallID != "" || i.Reason == reasonCall || i.Reason == reasonConfirm || metadata.Approved != nil)
}

// callOf returns the agent's call that an interrupt is about, if this run waits for its result. Some agents do not name the
// call: they have its id within the interrupt's (Strands: v1:before_tool_call:ID:…). Others name the hook that interrupted
// the one waiting call.
func (s *interrupts) callOf(i agui.Interrupt) (agui.ToolCall, bool) {
	id := i.ToolCallID
	if id == "" {
		id = s.callNamedIn(i)
	}
	call, known := s.call(id)
	return call, id != "" && known && s.pending.waits(id) // otherwise it is an earlier call of that id
}

func (s *interrupts) callNamedIn(i agui.Interrupt) string {
	parts := strings.Split(i.ID, ":")
	for _, id := range s.pending.open {
		if slices.Contains(parts, id) {
			return id
		}
	}
	var of struct {
		Hook string `json:"strandsName"`
	}
	_ = json.Unmarshal(i.Metadata, &of) // an object, as agui.Decode verified, or nothing
	own := slices.DeleteFunc(slices.Clone(s.pending.open), func(id string) bool { return !s.isOwn(id) })
	if of.Hook != "" && len(own) == 1 {
		return own[0]
	}
	return ""
}

// statedTool returns the tool and the arguments that an interrupt's metadata names. They are under a member of the
// framework's own (metadata.mastra.{toolName,args}), or at the top (metadata.{toolName,toolInput} of AgentScope). A hook's
// name (Strands) is returned for a tool that is not shown.
func statedTool(metadata json.RawMessage) (name string, args json.RawMessage) {
	var top map[string]json.RawMessage
	if json.Unmarshal(metadata, &top) != nil {
		return "", nil
	}
	if name, args = toolIn(top); name != "" {
		return name, args
	}
	for _, key := range []string{"action_request", "action_requests"} { // LangChain
		one := top[key]
		var several []json.RawMessage
		if json.Unmarshal(one, &several) == nil && len(several) == 1 {
			one = several[0]
		}
		if name = cmp.Or(text(memberOf(one, "name")), text(memberOf(one, "action"))); name != "" {
			return name, memberOf(one, "args")
		}
	}
	for _, key := range keysOf(top) {
		var within map[string]json.RawMessage
		if json.Unmarshal(top[key], &within) == nil {
			if name, args = toolIn(within); name != "" {
				return name, args
			}
		}
	}
	return text(top["strandsName"]), nil
}

// toolIn reads the spellings of a tool's name and of its arguments.
func toolIn(members map[string]json.RawMessage) (name string, args json.RawMessage) {
	for _, key := range []string{"toolName", "tool_name", "toolCallName"} {
		name = cmp.Or(name, text(members[key]))
	}
	for _, key := range []string{"args", "arguments", "toolInput", "tool_input", "input", "toolArgs", "tool_args"} {
		if args == nil && name != "" {
			args = members[key]
		}
	}
	return name, args
}

// depthOfWords is the depth to which the question's text is searched: metadata.mastra.suspendPayload.message.
const depthOfWords = 3

// wordsIn returns the text of a question from metadata or from the value of a CUSTOM on_interrupt; "" if it has none.
func wordsIn(raw json.RawMessage, depth int) string {
	var members map[string]json.RawMessage
	var elements []json.RawMessage
	switch {
	case depth == 0:
		return ""
	case json.Unmarshal(raw, &elements) == nil && len(elements) > 0:
		return wordsIn(elements[0], depth-1)
	case json.Unmarshal(raw, &members) != nil:
		return ""
	}
	for _, key := range []string{"message", "question", "prompt", "title", "description", "text"} {
		if words := text(members[key]); words != "" {
			return words
		}
	}
	for _, key := range keysOf(members) {
		if words := wordsIn(members[key], depth-1); words != "" && key != "args" {
			return words
		}
	}
	return ""
}

// keysOf returns the names of an object's members, in the same order on every replica.
func keysOf(members map[string]json.RawMessage) []string {
	keys := make([]string, 0, len(members))
	for key := range members {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// text returns a value that is text; "" for any other.
func text(raw json.RawMessage) (words string) {
	_ = json.Unmarshal(raw, &words) // a value of another type leaves it ""
	return words
}
