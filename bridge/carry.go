package bridge

import (
	"context"

	"aqueduct/agui"
)

// carry knows the messages that the end of a Run closed while their upstream, which is held,
// still writes them. What it adds to one afterwards is a message of its own in the next Run:
// the transcript has what it said before under the first id, and ahead of what was asked.
type carry struct {
	closed map[started]agui.Event // how each was started
	now    map[started]string     // the upstream's id → that in the newest Run
	// strange is of a Turn that was taken up after a restart between two Runs: what its upstream had begun before is
	// not known, so that a message it goes on with without a start is begun anew. seen is what it has begun since.
	strange bool
	seen    map[started]bool
}

// started is a message, or a span of reasoning, by what starts it.
type started struct {
	by agui.Type
	id string
}

// over takes what a Run left unfinished.
func (c *carry) over(unfinished []agui.Event) {
	if len(unfinished) > 0 && c.closed == nil {
		c.closed, c.now = make(map[started]agui.Event), make(map[started]string)
	}
	for _, ev := range unfinished {
		switch e := ev.(type) {
		case *agui.TextMessageStart:
			c.closed[started{e.EventType(), e.MessageID}] = e
		case *agui.ReasoningMessageStart:
			c.closed[started{e.EventType(), e.MessageID}] = e
		case *agui.ReasoningStart:
			c.closed[started{e.EventType(), e.MessageID}] = e
		}
	}
}

// on is an event of the upstream's as it may follow: with the start of what it goes on with
// before it, or not at all if it ends what is closed.
func (c *carry) on(ev agui.Event) []agui.Event {
	c.meet(ev)
	switch e := ev.(type) { // of a call that an earlier process began, and whose Run has ended
	case *agui.ToolCallArgs:
		if c.strange && !c.seen[started{agui.TypeToolCallStart, e.ToolCallID}] {
			return nil
		}
	case *agui.ToolCallEnd:
		if c.strange && !c.seen[started{agui.TypeToolCallStart, e.ToolCallID}] {
			return nil
		}
	}
	if c.closed == nil {
		return []agui.Event{ev}
	}
	switch e := ev.(type) {
	case *agui.TextMessageContent:
		more := *e
		return append(c.open(agui.TypeTextMessageStart, &more.MessageID), &more)
	case *agui.ReasoningMessageContent:
		more := *e
		return append(c.open(agui.TypeReasoningMessageStart, &more.MessageID), &more)
	case *agui.TextMessageEnd:
		end := *e
		return c.end(agui.TypeTextMessageStart, &end.MessageID, &end)
	case *agui.ReasoningMessageEnd:
		end := *e
		return c.end(agui.TypeReasoningMessageStart, &end.MessageID, &end)
	case *agui.ReasoningEnd:
		end := *e
		return c.end(agui.TypeReasoningStart, &end.MessageID, &end)
	}
	return []agui.Event{ev}
}

// meet has a message count as closed that the upstream goes on with although it never began it here.
func (c *carry) meet(ev agui.Event) {
	if !c.strange {
		return
	}
	is, first := started{}, agui.Event(nil)
	switch e := ev.(type) {
	case *agui.TextMessageStart:
		c.begun(started{e.EventType(), e.MessageID})
	case *agui.ReasoningMessageStart:
		c.begun(started{e.EventType(), e.MessageID})
	case *agui.ReasoningStart:
		c.begun(started{e.EventType(), e.MessageID})
	case *agui.ToolCallStart:
		c.begun(started{e.EventType(), e.ToolCallID})
	case *agui.TextMessageContent:
		is, first = started{agui.TypeTextMessageStart, e.MessageID}, &agui.TextMessageStart{Sub: e.Sub, MessageID: e.MessageID, Role: "assistant"}
	case *agui.TextMessageEnd:
		is, first = started{agui.TypeTextMessageStart, e.MessageID}, &agui.TextMessageStart{Sub: e.Sub, MessageID: e.MessageID, Role: "assistant"}
	case *agui.ReasoningMessageContent:
		is, first = started{agui.TypeReasoningMessageStart, e.MessageID}, &agui.ReasoningMessageStart{Sub: e.Sub, MessageID: e.MessageID}
	case *agui.ReasoningMessageEnd:
		is, first = started{agui.TypeReasoningMessageStart, e.MessageID}, &agui.ReasoningMessageStart{Sub: e.Sub, MessageID: e.MessageID}
	case *agui.ReasoningEnd:
		is, first = started{agui.TypeReasoningStart, e.MessageID}, &agui.ReasoningStart{Sub: e.Sub, MessageID: e.MessageID}
	}
	if first != nil && !c.seen[is] {
		c.begun(is)
		c.over([]agui.Event{first})
	}
}

func (c *carry) begun(is started) {
	if c.seen == nil {
		c.seen = make(map[started]bool)
	}
	c.seen[is] = true
}

// open starts a message anew if it is closed, and puts the id it has by now.
func (c *carry) open(start agui.Type, id *string) []agui.Event {
	theirs, is := started{start, *id}, c.current(start, *id)
	first, closed := c.closed[is]
	if *id = is.id; !closed {
		return nil
	}
	delete(c.closed, is)
	*id = newID()
	c.now[theirs] = *id
	switch e := first.(type) {
	case *agui.TextMessageStart:
		again := *e
		again.MessageID = *id
		return []agui.Event{&again}
	case *agui.ReasoningMessageStart:
		span := started{agui.TypeReasoningStart, theirs.id}
		delete(c.closed, c.current(span.by, span.id))
		c.now[span] = *id
		return []agui.Event{&agui.ReasoningStart{Sub: e.Sub, MessageID: *id}, &agui.ReasoningMessageStart{Sub: e.Sub, MessageID: *id}}
	}
	return nil
}

// end is the end of a message, unless it is closed already.
func (c *carry) end(start agui.Type, id *string, ev agui.Event) []agui.Event {
	is := c.current(start, *id)
	delete(c.now, started{start, *id})
	if _, closed := c.closed[is]; closed {
		delete(c.closed, is)
		return nil
	}
	*id = is.id
	return []agui.Event{ev}
}

func (c *carry) current(start agui.Type, id string) started {
	if now, ok := c.now[started{start, id}]; ok {
		id = now
	}
	return started{start, id}
}

// emit puts an event of the upstream's into the open Run: characters that were cut in two
// joined, under the id a continued message has by now, and an activity verified.
func (t *turn) emit(ctx context.Context, ev agui.Event) error {
	if t.repeats(ev) {
		return nil
	}
	if err := t.run.recallActivity(ctx, ev); err != nil {
		return err
	}
	for _, whole := range t.halves.Join(nil, ev) {
		for _, shown := range t.masking.on(whole) {
			for _, ev := range t.carry.on(t.named(shown)) {
				for _, ev := range t.run.verifyActivity(ev) {
					if err := t.run.emit(ev); err != nil {
						return err
					}
				}
			}
		}
	}
	return nil
}

// emitMasked ends the text of a Turn that ends while something of it is held back.
func (t *turn) emitMasked() {
	for _, left := range t.masking.rest() {
		for _, ev := range t.carry.on(t.named(left)) {
			if t.run.emit(ev) != nil {
				return // its message has ended
			}
		}
	}
}

// emitHalves ends the text of a Run that ends between the halves of a character.
func (t *turn) emitHalves() {
	for _, lone := range t.halves.Flush(nil) {
		for _, ev := range t.carry.on(lone) {
			if t.run.emit(ev) != nil {
				return // the delta that began the character was illegal too: nothing is lost
			}
		}
	}
}
