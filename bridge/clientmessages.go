package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	"aqueduct/agui"
	"aqueduct/store"
)

// A client's body may contain messages in the names of others. The stored transcript is authoritative, so in an existing
// thread they are not part of it. Some are used nevertheless, each marked as the client's:
//
//   - A new thread keeps the whole history (seedOf): greetings, imports, forks of another thread.
//   - An Agent that speaks AG-UI receives messages of the system and of the developer, for the Turn that the body begins or
//     answers. Such an Agent accepts them from any client. Any other Agent does not receive them: its operator writes its
//     instructions.
//   - An Agent that calls another is a client too, but not a person's: what it writes as the system or the developer
//     reaches no Agent.
//   - The Agent receives a call that the client made itself, with its result (findPairs), for that Turn.
//
// No such message is checked against a policy, answers a Question, or is a tool call of ours: those are rows, not messages.

// ClientKey is a member of a message's metadata. FromClient is its value if a client wrote the message in the name of
// another.
const (
	ClientKey  = "aqueduct.from"
	FromClient = "client"
	// ownIDsKey is the member of metadata in which the log keeps an Agent's own ids; package aguiagent writes it. A client
	// must not choose the ids that an Agent treats as its own.
	ownIDsKey = "aqueduct"
)

// IsClients reports whether metadata marks a message as the client's.
func IsClients(metadata json.RawMessage) bool {
	var members map[string]json.RawMessage
	return json.Unmarshal(metadata, &members) == nil && string(members[ClientKey]) == `"`+FromClient+`"`
}

// ofClient marks a message, with its calls, as the client's.
func ofClient(m agui.Message) agui.Message {
	m.Metadata = markedMetadata(m.Metadata, true)
	m.ToolCalls = slices.Clone(m.ToolCalls)
	for i := range m.ToolCalls {
		m.ToolCalls[i].Metadata = markedMetadata(m.ToolCalls[i].Metadata, false)
	}
	return m
}

func markedMetadata(metadata json.RawMessage, mark bool) json.RawMessage {
	members := make(map[string]json.RawMessage)
	_ = json.Unmarshal(metadata, &members) // an object, as agui.DecodeInput verified, or nothing
	delete(members, ownIDsKey)
	if mark {
		members[ClientKey] = mustJSON(FromClient)
	}
	if len(members) == 0 {
		return nil
	}
	return mustJSON(members)
}

// clientMessages sorts such messages of a request.
type clientMessages struct {
	*thread
	agents *Directory
}

// loadNew sorts the messages for a new thread.
func (c clientMessages) loadNew() {
	c.fresh = usersOf(c.req.Messages, nil)
	c.seed = seedOf(c.req.Messages)
	if c.req.parent == nil { // an Agent reads no notes
		c.dropped = c.droppedOf(false)
	}
}

// seedOf returns the history that begins a new thread. Ids are unique in a thread: of two messages with one id the second
// gets another, so that neither is lost.
func seedOf(messages []agui.Message) (seed []agui.Message) {
	taken := make(map[string]bool, len(messages))
	for _, m := range messages {
		switch m.Role {
		case agui.RoleUser:
		case agui.RoleAssistant, agui.RoleTool, agui.RoleReasoning:
			m = ofClient(m)
		default:
			continue
		}
		if taken[m.ID] {
			m.ID = newID()
		}
		taken[m.ID] = true
		seed = append(seed, m)
	}
	return seed
}

// promptOf returns the part of a seed that is the prompt: the messages after the last one that the client wrote in the name
// of another.
func promptOf(begins []agui.Message) []agui.Message {
	for i := range slices.Backward(begins) {
		if IsClients(begins[i].Metadata) {
			return begins[i+1:]
		}
	}
	return begins
}

// maxPairs bounds the calls of a client that are looked up while the Session is locked; of more, the newest count.
const maxPairs = 64

// findPairs finds the calls that the client made itself in an existing thread. Such a call is in an unknown message of an
// assistant, and the same body has the results of all calls of that message. While a Run is open it finds none, because the
// messages of that Run are unknown as well.
func (c clientMessages) findPairs(ctx context.Context) error {
	results := make(map[string]bool)
	var calls []string
	for _, m := range slices.Backward(c.req.Messages) {
		switch {
		case c.known[m.ID]:
		case m.Role == agui.RoleTool:
			results[m.ToolCallID] = true
		case m.Role == agui.RoleAssistant && len(m.ToolCalls) > 0 && len(calls)+len(m.ToolCalls) <= maxPairs:
			if !slices.ContainsFunc(m.ToolCalls, func(call agui.ToolCall) bool { return !results[call.ID] }) {
				for _, call := range m.ToolCalls {
					calls = append(calls, call.ID)
				}
			}
		}
	}
	if len(calls) == 0 {
		return nil
	}
	last, err := c.tx.LastRun(ctx, store.System(), c.session.ID)
	if err != nil && !errors.Is(err, store.ErrNotFound) || last.Status == store.RunRunning {
		return err
	}
	c.pairs = make(map[string]bool, len(calls))
	for _, id := range calls {
		call, err := c.tx.ToolCall(ctx, store.System(), id)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return err
		}
		c.pairs[id] = call.SessionID != c.session.ID
	}
	return nil
}

// addedMessage is a client's message that is given to the Agent but is not part of the thread.
type addedMessage struct {
	Message agui.Message `json:"message"`
	// After and Before are the ids of the messages of the thread before and after it; "" for none.
	After  string `json:"after,omitempty"`
	Before string `json:"before,omitempty"`
}

// added returns the messages of the request that are given to the Agent for this Turn only.
func (c clientMessages) added() (added []addedMessage) {
	if c.req.parent != nil {
		return nil
	}
	after, waits := "", 0 // of those from waits on the next message of the thread is not known yet
	for _, m := range c.req.Messages {
		if c.adds(m) {
			added = append(added, addedMessage{Message: ofClient(m), After: after})
			continue
		}
		if c.known[m.ID] || m.Role == agui.RoleUser || !c.exists {
			for ; waits < len(added); waits++ {
				added[waits].Before = m.ID
			}
			after = m.ID
		}
	}
	return added
}

// adds reports whether a message is given to the Agent and not kept.
func (c clientMessages) adds(m agui.Message) bool {
	switch {
	case c.known[m.ID]:
		return false
	case isInstruction(m):
		return true
	case m.Role == agui.RoleTool:
		return c.pairs[m.ToolCallID]
	case m.Role == agui.RoleAssistant && len(m.ToolCalls) > 0:
		return !slices.ContainsFunc(m.ToolCalls, func(call agui.ToolCall) bool { return !c.pairs[call.ID] })
	}
	return false
}

func isInstruction(m agui.Message) bool {
	return m.Role == agui.RoleSystem || m.Role == agui.RoleDeveloper
}

// withAdded inserts a client's messages into a transcript. Instructions from before the whole thread come first, even if the
// beginning of the thread is cut off. A call that the transcript already has is not inserted again.
func withAdded(transcript []agui.Message, added []addedMessage, instructions bool) []agui.Message {
	calls := make(map[string]bool)
	for i := range transcript {
		for _, c := range transcript[i].ToolCalls {
			calls[c.ID] = true
		}
	}
	put := make(map[string]int) // how many follow a message already, by its id; "" is the beginning
	for _, a := range added {
		m := a.Message
		switch {
		case isInstruction(m) && !instructions, calls[m.ToolCallID],
			slices.ContainsFunc(m.ToolCalls, func(c agui.ToolCall) bool { return calls[c.ID] }):
			continue
		case isInstruction(m) && a.After == "":
			transcript = slices.Insert(transcript, put[""], m)
		default:
			transcript = slices.Insert(transcript, placeOf(transcript, a, put[a.After]), m)
		}
		put[a.After]++
	}
	return agui.OrderResults(transcript)
}

// placeOf returns the index for a message in a transcript: after the message that it followed and the put ones inserted
// there. Otherwise it is before the message that it preceded, or at the end.
func placeOf(transcript []agui.Message, a addedMessage, put int) int {
	at := func(id string) int {
		return slices.IndexFunc(transcript, func(m agui.Message) bool { return id != "" && m.ID == id })
	}
	if i := at(a.After); i >= 0 {
		return i + 1 + put
	}
	if i := at(a.Before); i >= 0 {
		return i
	}
	return len(transcript)
}
