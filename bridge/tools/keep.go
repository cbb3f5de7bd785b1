package tools

import (
	"context"
	"crypto/sha256"
	"slices"
	"time"

	"github.com/google/uuid"

	"aqueduct/store"
)

// Keeping is what one commit keeps of a call: that it runs, or how it ended.
type Keeping struct {
	Call  store.ToolCall // as the Move leaves it
	Move  store.Move     // a TakeToolCall or a ToolCallMove
	Trace []store.Move   // RecordOf: what is on record of the call if the Move takes effect
	Asked bool           // a person was asked: the chat shows the call as a permission
}

// Kept is what became of it.
type Kept struct {
	Lost  bool // the Move was
	Shown bool // the chat shows it, by the same commit
}

// Keeper keeps a call together with the events that show it in its Turn's chat, where the Turn is driven on this replica;
// elsewhere it keeps the row alone, and the Session's owner shows what it finds in the rows.
type Keeper func(ctx context.Context, k Keeping) (Kept, error)

// showAfter is how long a call runs that only its row tells of, before the Session's owner is asked to show it. One that
// is quicker is shown together with its result.
const showAfter = 50 * time.Millisecond

// keep keeps a call, with its events where that is possible.
func (s *Service) keep(ctx context.Context, k Keeping) (Kept, error) {
	if s.keeper != nil {
		return s.keeper(ctx, k)
	}
	lost, err := s.cfg.Keep(ctx, k.Call.SessionID, append([]store.Move{k.Move}, k.Trace...), nil)
	return Kept{Lost: slices.Contains(lost, 0)}, err
}

// CallID is the id of a call for which its agent has an id of its own: the same for the same in one Turn, so that a call
// which the agent shows by its own frames and also has us run is one call in the chat. It has the time of the Turn, as
// every id of ours has that of its row: lists are in their order.
func CallID(turnID, agentsID string) string {
	sum := sha256.Sum256([]byte("tool_call\x00" + turnID + "\x00" + agentsID))
	var id uuid.UUID
	copy(id[:], sum[:])
	if turn, err := uuid.Parse(turnID); err == nil {
		copy(id[:6], turn[:6]) // UUIDv7: milliseconds
	}
	id[6], id[8] = id[6]&0x0f|0x70, id[8]&0x3f|0x80
	return id.String()
}
