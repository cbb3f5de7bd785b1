package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"aqueduct/agui"
	"aqueduct/internal/fault"
	"aqueduct/store"
)

// A client sends its whole state with every POST, changed or not. Its copy becomes the base of the Run, key by key: a
// key that it changed since the state it last got is taken, and one that it did not change must not undo what an Agent,
// or another tab, wrote meanwhile. Which state it last got its messages tell: the newest Run that one of them belongs
// to. A key that it does not send is left as it is, because a page that has just been opened sends {}; it clears a key
// by null.

// clientState is what a POST holds of the state; kept on the Run that it names until that begins.
type clientState struct {
	// Held is the hash of the Session's state when the client has just that; State is then not kept.
	Held  string          `json:"held,omitempty"`
	State json.RawMessage `json:"state,omitempty"`
	// Run is the newest Run that the client has a message of; "" when it knows of none.
	Run string `json:"run,omitempty"`
	// Answer is the hash of the newest message of an assistant the client has. It tells whether the client has seen
	// Run to its end, or had stopped reading before.
	Answer string `json:"answer,omitempty"`
}

// checkState refuses a state that could not be kept. It removes a conversation from it, because the thread has that as
// messages.
func (req *ChatRequest) checkState() error {
	req.State = agui.WithoutTranscript(req.State)
	_, err := agui.NewStateDoc(req.State)
	if errors.Is(err, agui.ErrStateTooLarge) {
		message := "The state is larger than 256 KiB."
		if keys := agui.TooLargeKeys(req.State); len(keys) > 0 {
			message += " These keys are too large: " + strings.Join(keys[:min(len(keys), namedKeys)], ", ") + "."
		}
		return fault.New(CodeStateTooLarge, message)
	}
	return err
}

// clientState reads what the request holds of the state of the Session that it found.
// It is nil for a client without a state, and only a hash for one whose state is the kept one. Any other is kept
// whole, with what shows how far the client has read.
func (th *thread) clientState(ctx context.Context) (*clientState, error) {
	if isEmptyObject(th.req.State) {
		return nil, nil
	}
	if held := valueHash(th.session.State); valueHash(th.req.State) == held {
		return &clientState{Held: held}, nil
	}
	c := &clientState{State: th.req.State}
	if !th.exists {
		return c, nil
	}
	ids := idsOf(th.req.Messages)
	var err error
	c.Run, err = th.tx.NewestRunOf(ctx, store.System(), th.session.ID, ids[max(0, len(ids)-maxHistoryTail):])
	for _, m := range slices.Backward(th.req.Messages) {
		if m.Role == agui.RoleAssistant {
			c.Answer = answerHash(m)
			break
		}
	}
	return c, err
}

// maxHistoryTail is how many of the newest messages in a client's history are looked at for the newest Run.
// The newest Run is that of the last messages, so a body of thousands of ids need not be asked for as a whole.
const maxHistoryTail = 256

// answerHash tells whether two messages of an assistant say the same.
func answerHash(m agui.Message) string {
	calls := make([]string, 0, len(m.ToolCalls))
	for _, call := range m.ToolCalls {
		calls = append(calls, call.ID, call.Function.Arguments)
	}
	return valueHash(mustJSON([]any{m.ID, m.Content.String(), calls}))
}

// withoutClient is a profile for a Run that the client did not post: the state it sent was for another.
func withoutClient(profile []byte) []byte {
	var p Profile
	if json.Unmarshal(profile, &p) != nil || p.Client == nil {
		return profile
	}
	p.Client = nil
	return mustJSON(p)
}
