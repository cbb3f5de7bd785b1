package bridge

import (
	"slices"

	"github.com/google/uuid"

	"aqueduct/agui"
	"aqueduct/store"
)

// A thread has an Agent of its own, the one that its first prompt was for. A prompt may be addressed to another: that
// Turn, what it may do and what is asked in it, is the other's. Everybody gets the whole conversation, in which a message
// of another than the thread's own Agent has the name of who wrote it.

// InstanceID is what an Agent keeps anything for a Session under. Two Agents behind proxies need two: it is the run_id
// of /ws/agent.
// The second one is derived and not kept: every replica computes the same id for a Session and an Agent, before and
// after a restart.
func InstanceID(session store.Session, agentID string) string {
	if agentID == session.AgentID {
		return session.ID
	}
	of, err := uuid.Parse(session.ID)
	if err != nil {
		of = uuid.NameSpaceOID
	}
	return uuid.NewSHA1(of, []byte("agent:"+agentID)).String()
}

// nameSpeakers puts the thread's own Agent's name on its messages where another one's are among them, or another one is
// called: it would otherwise take them for its own.
func nameSpeakers(messages []agui.Message, own, called string) {
	mixed := own != called || slices.ContainsFunc(messages, func(m agui.Message) bool { return m.Role == agui.RoleAssistant && m.Name != "" })
	if !mixed {
		return
	}
	for i := range messages {
		if m := &messages[i]; m.Role == agui.RoleAssistant && m.Name == "" {
			m.Name = own
			m.Kept(nil) // it is not as it was kept
		}
	}
}
