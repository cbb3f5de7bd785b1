package bridge

import "aqueduct/agui"

// carry knows the messages that the end of a Run closed while their upstream, which is held,
// still writes them. What it adds to one afterwards is a message of its own in the next Run:
// the transcript has what it said before under the first id, and ahead of what was asked.
type carry struct {
	closed map[started]agui.Event // how each was started
	now    map[started]string     // the upstream's id → that in the newest Run
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

// emit puts an event of the upstream's into the open Run.
func (t *turn) emit(ev agui.Event) error {
	for _, ev := range t.carry.on(ev) {
		if err := t.run.emit(ev); err != nil {
			return err
		}
	}
	return nil
}
