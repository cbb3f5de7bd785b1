package bridge

import "aqueduct/agui"

// continuations knows the messages that the end of a Run closed while their upstream, which is held,
// still writes them. What it adds to one afterwards is a message of its own in the next Run:
// the transcript has its earlier text under the first id, and ahead of what was asked.
//
// Only text and reasoning are carried. A tool call that the end of a Run closed has its arguments as far as they came;
// its result comes under its own id whenever it does.
type continuations struct {
	closed map[started]agui.Event // how each was started
	now    map[started]string     // the upstream's id → that in the newest Run
	// resumed is of a Turn that was taken up after a restart between two Runs: what its upstream had begun before is
	// not known, so that a message it goes on with without a start is begun anew. seen is what it has begun since.
	resumed bool
	seen    map[started]bool
}

// started is a message, or a span of reasoning, by what starts it.
type started struct {
	by agui.Type
	id string
}

// remember takes what a Run left unfinished.
// Each is kept by the event that started it, because its role and its name are needed to start it anew. Where nothing
// is left open the maps stay nil, and on costs one look.
func (c *continuations) remember(unfinished []agui.Event) {
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

// apply is an event of the upstream's as it may follow: with the start of what it goes on with
// before it, or not at all if it ends what is closed.
// The event is copied where its id changes: the upstream may keep the one it gave.
func (c *continuations) apply(ev agui.Event) []agui.Event {
	c.adoptUnseen(ev)
	switch e := ev.(type) { // of a call that an earlier process began, and whose Run has ended
	case *agui.ToolCallArgs:
		if c.resumed && !c.seen[started{agui.TypeToolCallStart, e.ToolCallID}] {
			return nil
		}
	case *agui.ToolCallEnd:
		if c.resumed && !c.seen[started{agui.TypeToolCallStart, e.ToolCallID}] {
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

// adoptUnseen has a message count as closed that the upstream goes on with although it never began it here.
func (c *continuations) adoptUnseen(ev agui.Event) {
	if !c.resumed {
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
		is, first = started{agui.TypeTextMessageStart, e.MessageID}, &agui.TextMessageStart{Sub: e.Sub, MessageID: e.MessageID, Role: agui.RoleAssistant}
	case *agui.TextMessageEnd:
		is, first = started{agui.TypeTextMessageStart, e.MessageID}, &agui.TextMessageStart{Sub: e.Sub, MessageID: e.MessageID, Role: agui.RoleAssistant}
	case *agui.ReasoningMessageContent:
		is, first = started{agui.TypeReasoningMessageStart, e.MessageID}, &agui.ReasoningMessageStart{Sub: e.Sub, MessageID: e.MessageID}
	case *agui.ReasoningMessageEnd:
		is, first = started{agui.TypeReasoningMessageStart, e.MessageID}, &agui.ReasoningMessageStart{Sub: e.Sub, MessageID: e.MessageID}
	case *agui.ReasoningEnd:
		is, first = started{agui.TypeReasoningStart, e.MessageID}, &agui.ReasoningStart{Sub: e.Sub, MessageID: e.MessageID}
	}
	if first != nil && !c.seen[is] {
		c.begun(is)
		c.remember([]agui.Event{first})
	}
}

// begun notes that this process has seen the start of a message.
func (c *continuations) begun(is started) {
	if c.seen == nil {
		c.seen = make(map[started]bool)
	}
	c.seen[is] = true
}

// open starts a message anew if it is closed, and puts the id it has by now.
// A span of reasoning and the message in it are started together, under one new id, as AG-UI wants both: the span
// alone shows nothing.
func (c *continuations) open(start agui.Type, id *string) []agui.Event {
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
func (c *continuations) end(start agui.Type, id *string, ev agui.Event) []agui.Event {
	is := c.current(start, *id)
	delete(c.now, started{start, *id})
	if _, closed := c.closed[is]; closed {
		delete(c.closed, is)
		return nil
	}
	*id = is.id
	return []agui.Event{ev}
}

// current is the id under which a message stands in the newest Run; the upstream's own where it was never carried.
func (c *continuations) current(start agui.Type, id string) started {
	if now, ok := c.now[started{start, id}]; ok {
		id = now
	}
	return started{start, id}
}
