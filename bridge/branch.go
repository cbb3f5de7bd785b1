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

// branch is what a new Turn continues when it is not the newest one: the request repeats a message (regenerate), or
// another one in its place (edit).
// A nil branch continues the newest Turn; all methods take one.
type branch struct {
	from  string // the Turn it continues; "" for the thread's beginning
	older bool   // from may not be on the current branch
	// again are messages of the Turn that is replaced, which begin the new one too.
	again []store.Message
	// edited is the message whose content has changed under its old id.
	edited *agui.Message
	// agent answers: the one that the message was for. "" where another message has come in its place.
	agent string
	// regenerate means that nothing is new: where a response tails what runs, such a request is a join.
	regenerate bool
}

// branchFinder finds out whether a request continues the newest Turn of its thread or branches off before it.
//
// AG-UI has no message for "regenerate" or "edit": a client sends the history as it wants it to be, and what is left
// out or changed tells what is meant. Being wrong in one direction rolls back a conversation, in the other it only
// appends, so every doubt is an append.
type branchFinder struct {
	*thread
	tails  *tails
	agents *Directory

	branch *branch // what was found; nil: the newest Turn is continued
}

// find recognizes a regenerate and an edit by what the body leaves out. A body without history is an append:
// clients that send only what is new must never roll back a thread.
// find looks for no branch on a join, in a new thread, in a body that answers, and while a person is asked. A message then
// belongs to the Turn that asks. Open calls of a page's tools do not prevent a branch (leaves).
func (f *branchFinder) find(ctx context.Context) error {
	if f.req.JoinOnly || !f.exists || len(f.req.Answers) > 0 || len(f.toolAnswers()) > 0 {
		return nil
	}
	if f.active != nil && f.active.Status.Paused() {
		open, err := f.tx.OpenToolCalls(ctx, store.System(), f.session.ID)
		if err != nil || !leaves(open) {
			return err
		}
	}
	if len(f.fresh) == 0 {
		return f.findRegenerate(ctx)
	}
	if f.req.Unnamed {
		return f.findRepeat(ctx)
	}
	first := slices.IndexFunc(f.req.Messages, func(m agui.Message) bool { return m.ID == f.fresh[0].ID })
	if slices.ContainsFunc(f.req.Messages[first:], func(m agui.Message) bool { return f.known[m.ID] }) {
		return nil
	}
	return f.findEdit(ctx, lastSaid(f.req.Messages[:first]))
}

// lastSaid is the last message that every client sends back; nil when there is none.
// System and developer messages are left out: a client need not send them back, so they show nothing about where it stands.
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
// The message before the new one tells where the client stands. If it is the newest, the request is an append; if a
// user's message of ours stands behind it that the client left out, the client has gone back to it.
func (f *branchFinder) findEdit(ctx context.Context, before *agui.Message) error {
	if before == nil || !f.known[before.ID] {
		return nil
	}
	p, err := f.tx.MessagePlace(ctx, store.System(), f.session.ID, before.ID)
	if errors.Is(err, store.ErrNotFound) || err == nil && p.TurnID == "" {
		return nil
	}
	if err != nil {
		return err
	}
	input := !p.Output && p.RunID == p.TurnID // it began its Turn: a Turn's id is its first Run's
	switch {
	// The client stands on an older branch, or left out a later prompt of the current one.
	case p.Replaced, p.NewestInput > p.ID:
	// It stands at a prompt whose answer was delivered, and left the answer out. A client that lost its connection
	// before the answer looks the same but for the delivery, and only goes on.
	case input && p.Followed && !f.undelivered(p.TurnID):
	default:
		return nil
	}
	// Behind an answer the branch begins after that answer's Turn. Behind a prompt it begins before the prompt's Turn
	// and repeats its messages up to the one that the client has.
	if !input {
		f.branch = &branch{from: p.TurnID, older: p.Replaced}
		return nil
	}
	return f.branchAt(ctx, p, func(m store.Message) bool { return m.ID <= p.ID })
}

// branchAt is a branch in which a Turn is repeated, with some of its messages.
func (f *branchFinder) branchAt(ctx context.Context, p store.MessagePlace, again func(store.Message) bool) error {
	from, err := f.tx.TurnBefore(ctx, store.System(), p.TurnID)
	if err != nil {
		return err
	}
	inputs, err := f.tx.InputsOfTurn(ctx, store.System(), f.session.ID, p.TurnID)
	if err != nil {
		return err
	}
	f.branch = &branch{from: from, older: p.Replaced}
	for _, m := range inputs {
		if again(m) {
			f.branch.again = append(f.branch.again, m)
		}
	}
	return nil
}

// undelivered reports that no response of this replica, where the Turn's client was, has given any of its messages or
// its end. The client that comes back has lost its connection.
func (f *branchFinder) undelivered(turnID string) bool {
	spoke, over, known := f.tails.sent(turnID)
	return known && !spoke && !over
}

// findRegenerate is for a body that ends in a user's message we know. One with a thought behind that message has part of
// the answer: its client comes back.
func (f *branchFinder) findRegenerate(ctx context.Context) error {
	if len(f.req.Messages) == 0 {
		return nil
	}
	last := &f.req.Messages[len(f.req.Messages)-1]
	if last.Role != agui.RoleUser || !f.known[last.ID] {
		return nil
	}
	p, err := f.tx.MessagePlace(ctx, store.System(), f.session.ID, last.ID)
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
		if err := f.branchAt(ctx, p, func(m store.Message) bool { return m.ID < p.ID }); err != nil {
			return err
		}
		f.branch.edited, f.fresh = last, []agui.Message{*last}
		return f.sameAgent(ctx, p)
	}
	again, err := f.saysAgain(ctx, p)
	if err != nil || !again {
		return err
	}
	return f.regenerate(ctx, p)
}

// regenerate is the branch for the same prompt once more: the message stays as it is and begins the new Turn too.
func (f *branchFinder) regenerate(ctx context.Context, p store.MessagePlace) error {
	err := f.branchAt(ctx, p, func(m store.Message) bool { return m.ID <= p.ID })
	if err != nil {
		return err
	}
	f.branch.regenerate = true
	return f.sameAgent(ctx, p)
}

// sameAgent has the Agent answer that answered before, where it is still there: a client that does not name one means it.
func (f *branchFinder) sameAgent(ctx context.Context, p store.MessagePlace) error {
	turn, err := f.tx.Turn(ctx, store.System(), p.TurnID)
	if err == nil && f.agents.agent(f.session.Tenant, turn.AgentID) != nil {
		f.branch.agent = turn.AgentID
	}
	return err
}

// saysAgain tells a regenerate from a client that lost its connection and comes back with what it had. While the Turn
// runs, such a client joins, unless it has had an answer that it leaves out; once the Turn is over it regenerates,
// unless nothing of the Turn ever reached a client.
//
// It asks what responses of this replica have sent of the Turn. Where they were another replica's, nothing is known,
// and the older rule decides: a Turn that is over is regenerated.
func (f *branchFinder) saysAgain(ctx context.Context, p store.MessagePlace) (bool, error) {
	turn, err := f.tx.Turn(ctx, store.System(), p.TurnID)
	if err != nil {
		return false, err
	}
	spoke, _, _ := f.tails.sent(turn.ID)
	switch {
	case turn.Status == store.TurnQueued:
		return false, nil
	case !turn.Status.Terminal():
		return spoke, nil
	}
	// Over and not the newest prompt: the client went back to it. Cancelled: the client stopped it and means to ask
	// again. Else the prompt is asked again only if something of the Turn was delivered.
	newest := !p.Replaced && p.NewestInput <= p.ID
	return !newest || turn.Status == store.TurnCancelled || !f.undelivered(turn.ID), nil
}

// findRepeat is for a page that names none of its messages: what the newest Turn was asked, sent again, is how a
// TDesign page regenerates.
func (f *branchFinder) findRepeat(ctx context.Context) error {
	if f.req.Repeat == RepeatNever {
		return nil
	}
	last, err := f.tx.LastRun(ctx, store.System(), f.session.ID)
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	inputs, err := f.tx.InputsOfTurn(ctx, store.System(), f.session.ID, last.TurnID)
	if err != nil || len(inputs) == 0 {
		return err
	}
	newest := inputs[len(inputs)-1]
	said, err := decodeMessage(newest)
	if err != nil || said.Role != agui.RoleUser || !sameContent(said.Content, f.fresh[0].Content) {
		return err
	}
	// The place shows whether the prompt still ends the current branch: a later one, of a Turn that is queued, means
	// that the page has gone on.
	p, err := f.tx.MessagePlace(ctx, store.System(), f.session.ID, newest.ExternalID)
	if err != nil || p.ID != newest.ID || p.Replaced || p.NewestInput > p.ID {
		return err
	}
	if err := f.regenerate(ctx, p); err != nil {
		return err
	}
	f.branch.regenerate = false // it is refused as any message is: the page does not join by it
	f.fresh = nil
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
			} else if _, sum, ok := attachmentOf(p.Source); ok && sum != "" {
				key = sum
			}
		}
		all = append(all, key)
	}
	return all
}

// begin makes the branch current and repeats the messages that begin it.
func (b *branch) begin(ctx context.Context, tx store.Tx, sessionID, runID string) error {
	if b == nil {
		return nil
	}
	if err := tx.SwitchBranch(ctx, sessionID, b.from, b.older); err != nil {
		return err
	}
	for _, m := range b.again {
		m.ID, m.RunID = newID(), runID
		if err := tx.InsertMessage(ctx, m); err != nil {
			return err
		}
		repeated, err := decodeMessage(m)
		if err != nil {
			return err
		}
		if err := tx.InsertRecord(ctx, inputRecord(sessionID, runID, repeated)); err != nil {
			return err
		}
	}
	return nil
}

// addressed is whom the message is for that is repeated or edited.
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

// parentRun is AG-UI's parentRunId of a Run that continues the branch: that of the last Run before it.
func (b *branch) parentRun(ctx context.Context, tx store.Tx) (string, error) {
	if b == nil || b.from == "" {
		return "", nil
	}
	runs, err := tx.RunsOfTurn(ctx, store.System(), b.from)
	if err != nil || len(runs) == 0 {
		return "", err
	}
	return runs[len(runs)-1].ExternalID, nil
}
