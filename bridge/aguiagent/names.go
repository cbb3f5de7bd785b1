// This file gives ids: from the agent's to ours, by hashes in the space of the Turn or of the run, so that one id of
// the agent becomes one of ours however often it comes; only a tool call that begins anew gets another (newCall).
// What the agent called something travels in the metadata of our event, from which history.go takes it back.

package aguiagent

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"aqueduct/agui"
	"aqueduct/bridge"
)

// names gives what the agent names the ids that it has in our log.
//
// Some agents use the same ids in every run (msg-1, call_0), so an id of a message counts within one run of the agent only,
// and a tool call that begins under an id that the log has already is another call. Activities and subagents go on from one
// run of a Turn to the next under one id.
//
// What an id is made of:
//
//	message, reasoning, result    the agent's run, and the agent's id
//	activity, subagent            the Turn, and the agent's id
//	tool call                     the Turn and the call's key; where that is taken, the run as well
//	question (interrupt)          the Turn, the run, and the agent's id
type names struct {
	agent    string // whose ids are kept with this name; "" for the thread's own agent
	turnID   string
	turn     uuid.UUID         // the space of what goes on from run to run
	run      uuid.UUID         // the space of one run
	messages map[string]string // by the agent's id; of the history, then of this run
	calls    map[string]string // the newest of each, by key
	taken    map[string]bool   // our ids of calls, those of the history
	thoughts map[string]bool   // reasoning messages of this run, by the agent's id
	results  map[string]bool   // results of this run, by the agent's id
	begun    map[string]bool   // text messages of this run, by the agent's id
	aliases  map[alias]string  // messages that a snapshot gave another id

	functions agui.FunctionNames // the names of the tools at the agent
}

// alias is another id that a snapshot gave a message. For a result it includes the key of its call.
type alias struct{ role, call, id string }

// newNames makes the names of one run. A Turn's id is a UUID; one of any other form gets a space of its own all the
// same.
func newNames(turnID, runID string) names {
	turn, err := uuid.Parse(turnID)
	if err != nil {
		turn = uuid.NewSHA1(uuid.NameSpaceOID, []byte(turnID))
	}
	return names{
		turnID: turnID, turn: turn, run: uuid.NewSHA1(turn, []byte("run:"+runID)),
		messages: make(map[string]string), calls: make(map[string]string), taken: make(map[string]bool), thoughts: make(map[string]bool),
		results: make(map[string]bool), begun: make(map[string]bool), aliases: make(map[alias]string),
	}
}

// newMessage is the id of a message that this run begins, or goes on with.
func (n *names) newMessage(theirs string) string {
	id, ok := n.aliases[alias{agui.RoleAssistant, "", theirs}]
	if !ok {
		id = uuid.NewSHA1(n.run, []byte("message:"+theirs)).String()
	}
	n.messages[theirs] = id
	return id
}

// message is the id of a message that something refers to. A message that only has calls begins with the first of them.
func (n *names) message(theirs string) string {
	if id, ok := n.messages[theirs]; ok {
		return id
	}
	return n.newMessage(theirs)
}

// reasoning is the id of a reasoning message and of the span around it. Some agents give a thought and the answer that
// follows from it the same id, so it has a space of its own.
func (n *names) reasoning(theirs string) string {
	if id, ok := n.aliases[alias{agui.RoleReasoning, "", theirs}]; ok {
		return id
	}
	return uuid.NewSHA1(n.run, []byte("reasoning:"+theirs)).String()
}

// result is the id of the message that a result becomes. Some agents give it the id of the message that made the call.
func (n *names) result(call, theirs string) string {
	if id, ok := n.aliases[alias{agui.RoleTool, call, theirs}]; ok {
		return id
	}
	return uuid.NewSHA1(n.run, []byte("result:"+call+":"+theirs)).String()
}

// newCall is the id of a tool call that begins. The first of a Turn under its id has the one that the tool proxy derives,
// where the agent has us execute it (bridge.ToolCallID).
func (n *names) newCall(theirs string) string {
	id := bridge.ToolCallID(n.turnID, theirs)
	if n.taken[id] {
		id = bridge.ToolCallID(n.turnID, n.run.String()+":"+theirs)
	}
	n.calls[theirs] = id
	return id
}

// call is the id of the newest call under the agent's id.
func (n *names) call(theirs string) string {
	if id, ok := n.calls[theirs]; ok {
		return id
	}
	return bridge.ToolCallID(n.turnID, theirs)
}

// question is the id of the Question that an interrupt of this run becomes.
func (n *names) question(theirs string) string {
	return bridge.ToolCallID(n.turnID, n.run.String()+":interrupt:"+theirs)
}

func (n *names) activity(theirs string) string {
	return uuid.NewSHA1(n.turn, []byte("activity:"+theirs)).String()
}

// subagent is "" for the run's own agent.
func (n *names) subagent(theirs string) string {
	if theirs == "" {
		return ""
	}
	return uuid.NewSHA1(n.turn, []byte("subagent:"+theirs)).String()
}

// ownKey is the member of metadata under which a message or a call of the log carries the agent's own id of it.
const ownKey = "aqueduct"

// own holds the agent's own ids, in metadata. The ids of a call include the id of its message, if only calls show that
// message.
type own struct {
	MessageID  string `json:"messageId,omitempty"`
	ToolCallID string `json:"toolCallId,omitempty"`
	Agent      string `json:"agent,omitempty"` // the agent with these ids; "" for the thread's own agent
	// Again counts messages to which the agent gave one id in a run: the second has 2.
	Again int `json:"again,omitempty"`
	// Forgotten is set on a message that the agent's own memory does not have, according to its snapshot.
	Forgotten bool `json:"forgotten,omitempty"`
}

// ownMessage returns the own ids of a message.
func (n *names) ownMessage(key string) own {
	ids := own{MessageID: ownID(key), Agent: n.agent}
	if _, use, again := strings.Cut(key, keyMark); again {
		ids.Again, _ = strconv.Atoi(use) // of keyOf's writing
	}
	return ids
}

// key returns the key of the message.
func (ids own) key() string { return keyOf(ids.MessageID, ids.Again) }

// annotate adds the agent's own ids to metadata of its events. What the agent has under the same key is replaced.
func annotate(metadata json.RawMessage, ids any) json.RawMessage {
	mine, _ := json.Marshal(ids) // strings always encode
	return withMember(metadata, ownKey, mine)
}

// restore takes out of metadata what was put there of the agent's: its own ids, the kind of an encrypted value, and members
// that is not known.
func restore(metadata json.RawMessage) (ids own, kind string, rest json.RawMessage) {
	members := make(map[string]json.RawMessage)
	if json.Unmarshal(metadata, &members) != nil {
		return own{}, "", metadata
	}
	if json.Unmarshal(members[ownKey], &ids) != nil {
		ids = own{}
	}
	if json.Unmarshal(members[kindKey], &kind) != nil {
		kind = ""
	}
	whole := len(members)
	for _, key := range []string{ownKey, kindKey, membersKey} {
		delete(members, key)
	}
	switch len(members) {
	case whole:
		return ids, kind, metadata
	case 0:
		return ids, kind, nil
	}
	rest, _ = json.Marshal(members) // members that were decoded encode
	return ids, kind, rest
}

// lane puts an event of a subagent into our name for it.
func (n *names) lane(s agui.Sub) agui.Sub {
	s.SubagentRunID = n.subagent(s.SubagentRunID)
	return s
}
