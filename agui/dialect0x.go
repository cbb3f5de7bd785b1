// This file serves clients from before 1.0. Their zod schemas reject a whole event for one member of
// the wrong kind, and some end the stream then, so every value that 1.0 has added is removed or
// rewritten here.

package agui

import "bytes"

// NewV0 is the dialect for peers from before 1.0, which send no protocolVersion.
// Their parsers refuse what 1.0 has added, so it is left out or put in their
// terms; everything else passes as the same bytes, not even decoded.
func NewV0() Dialect { return v0{} }

type v0 struct{}

// An event that cannot be decoded is sent as it is. It was valid when it was written, so a newer
// replica must have written it, during an update of the installation.
func (v0) AppendFrames(dst []byte, id int64, event []byte) []byte {
	if !newerThanV0(event) {
		return AppendFrame(dst, id, event)
	}
	ev, err := Decode(event)
	if err != nil {
		return AppendFrame(dst, id, event)
	}
	return AppendFrame(dst, id, inV0(ev).AppendJSON(nil))
}

// newerThanV0 reports whether an event may hold what 0.x refuses, at the price of
// a look at its type.
func newerThanV0(event []byte) bool {
	switch TypeOf(event) {
	case TypeRunStarted:
		return bytes.Contains(event, []byte(`"input":{`))
	case TypeRunFinished:
		return bytes.Contains(event, []byte(`"outcome":{`))
	case TypeToolCallResult:
		return bytes.Contains(event, []byte(`"content":[`))
	case TypeMessagesSnapshot:
		return true
	}
	return false
}

// inV0 changes the event in place: it was decoded for this frame alone.
func inV0(ev Event) Event {
	switch e := ev.(type) {
	case *RunStarted:
		e.Input = inputInV0(e.Input)
	case *RunFinished:
		e.Outcome = outcomeInV0(e.Outcome)
	case *ToolCallResult:
		e.Content = textOnly(e.Content)
	case *MessagesSnapshot:
		e.Messages = messagesInV0(e.Messages)
	}
	return ev
}

// inputInV0: the lists that 1.0 made optional are required in 0.x.
func inputInV0(in *RunAgentInput) *RunAgentInput {
	if in == nil {
		return nil
	}
	old := *in
	old.Messages = messagesInV0(in.Messages)
	if old.Tools == nil {
		old.Tools = []Tool{}
	}
	if old.Context == nil {
		old.Context = []Context{}
	}
	return &old
}

// outcomeInV0: 0.x knows success without pending calls, and interrupts. A
// cancelled run ends there without an outcome. So does one that leaves calls to
// the client, which are found by looking for calls without a result: assistant-ui
// takes a success as the end and never runs them.
func outcomeInV0(o *Outcome) *Outcome {
	switch {
	case o == nil:
		return nil
	case o.Type == OutcomeInterrupt:
		return o
	case o.Type == OutcomeSuccess && len(o.PendingToolCallIDs) == 0:
		return &Outcome{Type: OutcomeSuccess}
	}
	return nil
}

// messagesInV0 copies the list, because its messages may be shared with other readers of the input.
func messagesInV0(messages []Message) []Message {
	old := make([]Message, len(messages))
	for i, m := range messages {
		switch m.Role {
		case RoleTool:
			m.Content = textOnly(m.Content)
		case RoleUser:
			m.Content = partsInV0(m.Content)
		}
		old[i] = m
	}
	return old
}

// textOnly turns parts into a string: their text, or, if they have none, the
// parts themselves.
func textOnly(c Content) Content {
	if c.Parts == nil {
		return c
	}
	for i := range c.Parts {
		if c.Parts[i].Type == PartText {
			return Text(c.String())
		}
	}
	return Text(string(c.AppendJSON(nil)))
}

// partsInV0 leaves out the parts that 0.x has no words for: unknown types, and
// media a provider holds.
func partsInV0(c Content) Content {
	if c.Parts == nil {
		return c
	}
	kept := make([]ContentPart, 0, len(c.Parts))
	for _, p := range c.Parts {
		if p.Raw == nil && (p.Source == nil || p.Source.Type != SourceFile) {
			kept = append(kept, p)
		}
	}
	return Content{Parts: kept}
}
