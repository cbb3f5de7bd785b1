package bridge

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"slices"

	"aqueduct/agui"
	"aqueduct/store"
)

// branch is what a new Turn continues when it is not the newest one: the request says a message again (regenerate), or
// another one in its place (edit).
type branch struct {
	from  string // the Turn it continues; "" for the thread's beginning
	older bool   // from may not be on the current branch
	// again are messages of the Turn that is replaced, which begin the new one too.
	again []store.Message
	// edited is the message whose content has changed under its old id.
	edited *agui.Message
	// agent answers: the one that the message was for. "" where another message has come in its place.
	agent string
	// regenerate says that nothing is new: where somebody tails what runs, such a request is a join.
	regenerate bool
}

// findBranch recognizes a regenerate and an edit by what the body leaves out. A body without history is an append:
// clients that send only what is new must never roll back a thread.
func (in *intake) findBranch(ctx context.Context, known map[string]bool) error {
	if in.req.JoinOnly || !in.exists || len(in.req.Answers) > 0 || len(toolAnswers(in.req.Messages, known)) > 0 ||
		in.active != nil && in.active.Status.Paused() {
		return nil
	}
	if len(in.fresh) == 0 {
		return in.findRegenerate(ctx, known)
	}
	if in.req.Unnamed {
		return in.findRepeat(ctx)
	}
	first := slices.IndexFunc(in.req.Messages, func(m agui.Message) bool { return m.ID == in.fresh[0].ID })
	if slices.ContainsFunc(in.req.Messages[first:], func(m agui.Message) bool { return known[m.ID] }) {
		return nil
	}
	return in.findEdit(ctx, lastSaid(in.req.Messages[:first]), known)
}

// lastSaid is the last message that every client sends back; nil when there is none.
func lastSaid(messages []agui.Message) *agui.Message {
	for i := range slices.Backward(messages) {
		switch messages[i].Role {
		case agui.RoleUser, agui.RoleAssistant, agui.RoleTool:
			return &messages[i]
		}
	}
	return nil
}

// findEdit is for a new message behind one that is known. It is an edit when a user's message stands behind that one
// already, or an answer that the client has had and left out.
func (in *intake) findEdit(ctx context.Context, before *agui.Message, known map[string]bool) error {
	if before == nil || !known[before.ID] {
		return nil
	}
	p, err := in.tx.MessagePlace(ctx, store.System(), in.session.ID, before.ID)
	if errors.Is(err, store.ErrNotFound) || err == nil && p.TurnID == "" {
		return nil
	}
	if err != nil {
		return err
	}
	input := p.Role == agui.RoleUser && !p.Output
	switch {
	case p.Replaced, p.NewestInput > p.ID:
	case input && p.Followed && !in.undelivered(p.TurnID):
	default:
		return nil
	}
	if !input {
		in.branch = &branch{from: p.TurnID, older: p.Replaced}
		return nil
	}
	return in.branchAt(ctx, p, func(m store.Message) bool { return m.ID <= p.ID })
}

// branchAt is a branch in which a Turn is said again, with some of its messages.
func (in *intake) branchAt(ctx context.Context, p store.MessagePlace, again func(store.Message) bool) error {
	from, err := in.tx.TurnBefore(ctx, store.System(), p.TurnID)
	if err != nil {
		return err
	}
	inputs, err := in.tx.InputsOfTurn(ctx, store.System(), in.session.ID, p.TurnID)
	if err != nil {
		return err
	}
	in.branch = &branch{from: from, older: p.Replaced}
	for _, m := range inputs {
		if again(m) {
			in.branch.again = append(in.branch.again, m)
		}
	}
	return nil
}

// undelivered reports that no response of this replica, where the Turn's client was, has given any of its messages or
// its end. The client that comes back has lost its connection.
func (in *intake) undelivered(turnID string) bool {
	spoke, over, known := in.s.tails.sent(turnID)
	return known && !spoke && !over
}

// findRegenerate is for a body that ends in a user's message we know. One with a thought behind that message has part of
// the answer: its client comes back.
func (in *intake) findRegenerate(ctx context.Context, known map[string]bool) error {
	if len(in.req.Messages) == 0 {
		return nil
	}
	last := &in.req.Messages[len(in.req.Messages)-1]
	if last.Role != agui.RoleUser || !known[last.ID] {
		return nil
	}
	p, err := in.tx.MessagePlace(ctx, store.System(), in.session.ID, last.ID)
	if errors.Is(err, store.ErrNotFound) || err == nil && (p.TurnID == "" || p.Role != agui.RoleUser || p.Output) {
		return nil
	}
	if err != nil {
		return err
	}
	before, err := decodeMessage(p.Message)
	if err != nil {
		return err
	}
	if !sameContent(before.Content, last.Content) && !sameContent(asJoined(p.Message, before), last.Content) {
		if err := in.branchAt(ctx, p, func(m store.Message) bool { return m.ID < p.ID }); err != nil {
			return err
		}
		in.branch.edited, in.fresh = last, []agui.Message{*last}
		return in.sameAgent(ctx, p)
	}
	again, err := in.saysAgain(ctx, p)
	if err != nil || !again {
		return err
	}
	return in.regenerate(ctx, p)
}

func (in *intake) regenerate(ctx context.Context, p store.MessagePlace) error {
	err := in.branchAt(ctx, p, func(m store.Message) bool { return m.ID <= p.ID })
	if err != nil {
		return err
	}
	in.branch.regenerate = true
	return in.sameAgent(ctx, p)
}

// sameAgent has the Agent answer that answered before, where it is still there: a client that does not name one means it.
func (in *intake) sameAgent(ctx context.Context, p store.MessagePlace) error {
	turn, err := in.tx.Turn(ctx, store.System(), p.TurnID)
	if err == nil && in.s.cfg.Agents.agent(turn.AgentID) != nil {
		in.branch.agent = turn.AgentID
	}
	return err
}

// saysAgain tells a regenerate from a client that lost its connection and comes back with what it had. While the Turn
// runs, such a client joins, unless it has had an answer that it leaves out; once the Turn is over it regenerates,
// unless nothing of the Turn ever reached a client.
func (in *intake) saysAgain(ctx context.Context, p store.MessagePlace) (bool, error) {
	turn, err := in.tx.Turn(ctx, store.System(), p.TurnID)
	if err != nil {
		return false, err
	}
	spoke, _, _ := in.s.tails.sent(turn.ID)
	switch {
	case turn.Status == store.TurnQueued:
		return false, nil
	case !turn.Status.Terminal():
		return spoke, nil
	}
	newest := !p.Replaced && p.NewestInput <= p.ID
	return !newest || turn.Status == store.TurnCancelled || !in.undelivered(turn.ID), nil
}

// findRepeat is for a page that names none of its messages: what the newest Turn was asked, said again, is how a
// TDesign page regenerates.
func (in *intake) findRepeat(ctx context.Context) error {
	if in.req.Repeat == RepeatNever {
		return nil
	}
	last, err := in.tx.LastRun(ctx, store.System(), in.session.ID)
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	inputs, err := in.tx.InputsOfTurn(ctx, store.System(), in.session.ID, last.TurnID)
	if err != nil || len(inputs) == 0 {
		return err
	}
	newest := inputs[len(inputs)-1]
	said, err := decodeMessage(newest)
	if err != nil || said.Role != agui.RoleUser || !sameContent(said.Content, in.fresh[0].Content) {
		return err
	}
	p, err := in.tx.MessagePlace(ctx, store.System(), in.session.ID, newest.ExternalID)
	if err != nil || p.ID != newest.ID || p.Replaced || p.NewestInput > p.ID {
		return err
	}
	if err := in.regenerate(ctx, p); err != nil {
		return err
	}
	in.branch.regenerate = false // it is refused as any message is: the page does not join by it
	in.fresh = nil
	return nil
}

// asJoined is a message's content as a join gives it: a large one is cut, and a client that joined sends back the rest.
func asJoined(row store.Message, m agui.Message) agui.Content {
	if len(row.Data) <= snapshotMessage {
		return m.Content
	}
	return shortened(m).Content
}

// sameContent compares what a person wrote, and of media what it is: the bytes, whether they come along or by our URL.
func sameContent(a, b agui.Content) bool {
	return a.String() == b.String() && slices.Equal(media(a), media(b))
}

func media(c agui.Content) (all []string) {
	for i := range c.Parts {
		p := &c.Parts[i]
		if p.Type == "text" {
			continue
		}
		key := p.Type
		if p.Source != nil {
			key = p.Source.Value
			if data, ok := p.Data(); ok {
				sum := sha256.Sum256(data)
				key = hex.EncodeToString(sum[:])
			} else if _, sum, ok := partOf(p.Source.Value); ok {
				key = sum
			}
		}
		all = append(all, key)
	}
	return all
}

// beginBranch makes the branch current and says again what begins it.
func (in *intake) beginBranch(ctx context.Context, runID string) error {
	b := in.branch
	if b == nil {
		return nil
	}
	if err := in.tx.SwitchBranch(ctx, in.session.ID, b.from, b.older); err != nil {
		return err
	}
	for _, m := range b.again {
		m.ID, m.RunID = newID(), runID
		if err := in.tx.InsertMessage(ctx, m); err != nil {
			return err
		}
		said, err := decodeMessage(m)
		if err != nil {
			return err
		}
		if err := in.tx.InsertRecord(ctx, inputRecord(in.session.ID, runID, said)); err != nil {
			return err
		}
	}
	return nil
}

// addressed is whom the message is for that is said again or edited.
func (b *branch) addressed() string {
	if b == nil {
		return ""
	}
	return b.agent
}

// branchedFrom is the Turn's part of it.
func (b *branch) branchedFrom() string {
	switch {
	case b == nil:
		return ""
	case b.from == "":
		return store.BranchedFromStart
	}
	return b.from
}

// parentRun is AG-UI's parentRunId: the client's, or the last Run of the Turn that a branch continues.
func (in *intake) parentRun(ctx context.Context) (string, error) {
	if in.req.ParentRunID != "" || in.branch == nil || in.branch.from == "" {
		return in.req.ParentRunID, nil
	}
	runs, err := in.tx.RunsOfTurn(ctx, store.System(), in.branch.from)
	if err != nil || len(runs) == 0 {
		return "", err
	}
	return runs[len(runs)-1].ExternalID, nil
}

// placeInputs puts what began a queued Turn behind what the Turns before it have said since, and leaves that out where
// this Turn began a branch without it.
func (t *turn) placeInputs(ctx context.Context) error {
	if !t.input.Queued && t.row.BranchedFrom == "" {
		return nil
	}
	t.s.m.pasts.drop(t.s.id)
	if !t.input.Queued {
		return nil
	}
	var inputs []store.Message
	err := patiently(ctx, func() (err error) {
		inputs, err = t.s.m.cfg.Store.InputsOfTurn(ctx, store.System(), t.s.id, t.row.ID)
		return err
	})
	if err != nil {
		return err
	}
	var moves []store.Move
	if from := t.row.BranchedFrom; from != "" {
		if from == store.BranchedFromStart {
			from = ""
		}
		moves = append(moves, store.ReplaceMessages{SessionID: t.s.id, AfterTurn: from, BeforeTurn: t.row.ID})
	}
	for _, m := range inputs {
		moves = append(moves, store.MoveMessage{ID: m.ID, NewID: newID()})
	}
	if len(moves) == 0 {
		return nil
	}
	_, err = t.s.log.Keep(ctx, entryOf(moves...))
	return err
}
