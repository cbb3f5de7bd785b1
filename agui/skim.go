// This file reads inputs that are too large to hold. Official clients send the whole history with
// each message, pictures included; what the server needs of known messages is their ids. The
// alternative, a limit of the body, would end a thread once its history has grown beyond it.

package agui

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// Skim reads a RunAgentInput that may be far larger than what is new in it: official clients send the whole history with
// each message, its pictures included. It gives the input without the content of messages that the thread has, and holds
// no more than Held bytes meanwhile. Members may come in any order: while the thread's id has not been read, the oldest
// messages are let go of, and whether they were known is asked at the end.
type Skim struct {
	// Held bounds the input that is given, and so what is new in it.
	Held int
	// Messages bounds how many there may be: of each at least the id is held.
	Messages int
	// ThreadID is the thread of an input that names none.
	ThreadID string
	// Known reports which messages a thread has, by their ids. It is called a few times at most, between reads.
	Known func(threadID string, ids []string) (map[string]bool, error)
}

// TooLargeError reports that there is more new in an input than Skim may hold.
type TooLargeError struct {
	Limit int
	Unit  string // bytes or messages
}

// Error implements error.
func (e *TooLargeError) Error() string {
	return fmt.Sprintf("agui: more than %d new %s", e.Limit, e.Unit)
}

const (
	// skimBuffer is what is read at once.
	skimBuffer = 64 << 10
	// skimKept is the size up to which a known message keeps its content as long as there is room: it is not worth less
	// than what takes its place.
	skimKept = 4 << 10
	// skimStub is about what a message without its content takes.
	skimStub = 256
	// skimID bounds the members that every message is asked for.
	skimID = 4 << 10
	// skimWord bounds a number or a literal.
	skimWord = 4 << 10

	userRole = `"user"`
)

// Read reads to the end. An input that is no object, or is not JSON, is given as it is as far as it fits, for
// [CheckJSON] to say what is wrong: what is given must pass it in any case.
func (s Skim) Read(r io.Reader) ([]byte, error) {
	k := &skimmer{Skim: s, in: bufio.NewReaderSize(r, skimBuffer)}
	if c, err := k.peek(); err != nil || c != '{' {
		return k.plain(err)
	}
	if err := k.object(k.member); err != nil {
		return nil, err
	}
	if _, err := k.peek(); !errors.Is(err, io.EOF) {
		return nil, firstError(err, wrong("more than one JSON value"))
	}
	if k.thread == "" {
		k.thread = s.ThreadID
	}
	if err := k.settle(); err != nil {
		return nil, err
	}
	if n := len(k.messages); n > 0 && k.messages[n-1].raw == nil && k.messages[n-1].role == userRole {
		return nil, k.tooLarge() // without its content it would pass for an edit that leaves nothing
	}
	return k.input(), nil
}

// skimmer is one input being read. It lives for one Read. Its lexer is in skim_lexer.go.
type skimmer struct {
	Skim
	in       *bufio.Reader
	scratch  skimSink // the element being read
	head     []byte   // the members other than messages, each behind a comma
	thread   string
	messages []skimmed
	listed   bool // there was a list of messages
	// forgotten is up to where messages were let go of before the thread was known: the large ones, and all.
	forgotten [2]int
	size      int // of all that is held
	spaces    int // that were read over between values
}

// skimmed is one message.
type skimmed struct {
	raw                  []byte // nil when the content was let go of
	id, role, toolCallID string // quoted, as they came
	asked, known         bool
}

// plain gives what is no object.
func (k *skimmer) plain(err error) ([]byte, error) {
	if errors.Is(err, io.EOF) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(io.LimitReader(k.in, int64(k.Held)+1))
	if err == nil && len(body) > k.Held {
		err = k.tooLarge()
	}
	return body, err
}

// tooLarge is the error for what is new and does not fit.
func (k *skimmer) tooLarge() error { return &TooLargeError{Limit: k.Held, Unit: "bytes"} }

// member takes one member of the input. A second list of messages is held as it is, and refused with every key that is
// there twice.
func (k *skimmer) member(key []byte) error {
	name := string(unquotedKey(key))
	c, err := k.peek()
	switch {
	case err != nil:
		return eof(err)
	case name == "messages" && c == '[' && !k.listed:
		k.listed = true
		err = k.array(k.message)
	default:
		err = k.other(name, key)
	}
	if err != nil {
		return within(name, err)
	}
	return nil
}

// other holds a member as it is.
func (k *skimmer) other(name string, key []byte) error {
	before := len(k.head)
	value := skimSink{b: append(append(append(k.head, ','), key...), ':'), max: k.Held}
	from := len(value.b)
	if err := k.value(&value, 1); err != nil {
		return err
	}
	if value.over {
		return k.tooLarge()
	}
	k.head = value.b
	k.size += len(k.head) - before
	if raw := k.head[from:]; name == "threadId" && raw[0] == '"' {
		k.thread = unquote(raw)
	}
	return k.fit()
}

// input is what was read, without what was let go of.
func (k *skimmer) input() []byte {
	body := make([]byte, 0, k.size+skimStub)
	body = append(body, '{')
	if k.listed {
		body = append(body, `"messages":[`...)
		for i := range k.messages {
			if i > 0 {
				body = append(body, ',')
			}
			body = k.messages[i].append(body)
		}
		body = append(body, ']')
	}
	head := k.head
	if len(head) > 0 && !k.listed {
		head = head[1:]
	}
	return append(append(body, head...), '}')
}

// append appends the message, or what is left of it: enough to be found by its id, and to be read as a message.
func (m *skimmed) append(dst []byte) []byte {
	if m.raw != nil {
		return append(dst, m.raw...)
	}
	dst = append(append(dst, `{"id":`...), m.id...)
	dst = append(append(dst, `,"role":`...), m.role...)
	if m.toolCallID != "" {
		dst = append(append(dst, `,"toolCallId":`...), m.toolCallID...)
	}
	if m.role == `"activity"` {
		return append(dst, `,"activityType":"skipped","content":{}}`...)
	}
	return append(dst, `,"content":""}`...)
}

// message takes one element of messages.
func (k *skimmer) message() error {
	if len(k.messages) == k.Messages {
		return &TooLargeError{Limit: k.Messages, Unit: "messages"}
	}
	var m skimmed
	whole := &k.scratch
	whole.reset(k.Held)
	if c, err := k.peek(); err != nil || c != '{' { // not a message: the decoder reports it
		if err = firstError(eof(err), k.value(whole, 2)); err != nil {
			return err
		}
		return k.add(skimmed{raw: bytes.Clone(whole.b), asked: true})
	}
	whole.add('{')
	err := k.object(func(key []byte) error {
		if len(whole.b) > 1 {
			whole.add(',')
		}
		whole.write(key)
		whole.add(':')
		switch string(unquotedKey(key)) {
		case "id":
			return k.short(&m.id, whole)
		case "role":
			return k.short(&m.role, whole)
		case "toolCallId":
			return k.short(&m.toolCallID, whole)
		}
		return k.value(whole, 3)
	})
	if err != nil {
		return err
	}
	whole.add('}')
	switch {
	case !whole.over:
		m.raw = bytes.Clone(whole.b)
	case m.id == "" || m.role == "":
		return k.tooLarge()
	}
	return k.add(m)
}

// short reads a member that is needed though the message may be let go of.
func (k *skimmer) short(into *string, whole *skimSink) error {
	value := skimSink{max: skimID}
	if err := k.value(&value, 3); err != nil {
		return err
	}
	if value.over || *into != "" {
		return wrong("an id or role is too long, or given twice")
	}
	*into = string(value.b)
	whole.write(value.b)
	return nil
}

// add holds a message, and makes room for it when that is needed.
func (k *skimmer) add(m skimmed) error {
	k.messages = append(k.messages, m)
	k.size += len(m.raw) + skimStub
	return k.fit()
}

// fit lets go of contents when too much is held.
func (k *skimmer) fit() error {
	if k.held() <= k.Held {
		return nil
	}
	if k.thread != "" {
		return k.settle()
	}
	// Clients add at the end, so the newest are the likeliest to be new; and what is small is let go of last, because it
	// makes little room.
	k.forgotten[0] = k.drop(k.forgotten[0], skimKept, k.Held, anyMessage)
	k.forgotten[1] = k.drop(k.forgotten[1], 0, k.Held, anyMessage)
	k.dropLast(anyMessage)
	if k.held() > k.Held {
		return k.tooLarge()
	}
	return nil
}

// settle asks which messages the thread has and lets go of those that are large. Every other one that something is taken
// from has to fit.
func (k *skimmer) settle() error {
	if err := k.ask(); err != nil {
		return err
	}
	known := func(m *skimmed) bool { return m.known }
	k.drop(0, skimKept, 0, known)
	if k.held() > k.Held {
		k.drop(0, 0, k.Held/2, known)
		k.drop(0, 0, k.Held/2, func(m *skimmed) bool { return m.asked && !m.matters() })
		k.dropLast(known)
	}
	if k.held() > k.Held {
		return k.tooLarge()
	}
	for i := range k.messages {
		if m := &k.messages[i]; m.raw == nil && !m.known && m.matters() {
			return k.tooLarge()
		}
	}
	return nil
}

// matters reports whether something is taken from a message that is new: only users' messages and tool results are;
// what a client claims that other roles wrote is ignored.
func (m *skimmed) matters() bool { return m.role == userRole || m.role == `"tool"` }

// anyMessage is for drop while the thread is not known: any message may turn out to be a known one.
func anyMessage(*skimmed) bool { return true }

// held is the size of what can be dropped or must fit: the stubs of messages do not count against
// the limit.
func (k *skimmer) held() int { return k.size - skimStub*len(k.messages) }

// ask asks about the messages that were not asked about before, unless all that was read is held and fits.
func (k *skimmer) ask() error {
	var ids []string
	var at []int
	all := k.held() <= k.Held
	for i := range k.messages {
		m := &k.messages[i]
		all = all && m.raw != nil
		if !m.asked && len(m.id) > 1 && m.id[0] == '"' {
			ids, at = append(ids, unquote([]byte(m.id))), append(at, i)
		}
	}
	if all || len(ids) == 0 || k.thread == "" {
		return nil
	}
	known, err := k.Known(k.thread, ids)
	if err != nil {
		return err
	}
	for n, i := range at {
		k.messages[i].asked, k.messages[i].known = true, known[ids[n]]
	}
	return nil
}

// drop lets go of the contents of messages that may go and are larger than least, the oldest first, from one on and until
// at most enough is held. It returns where it stopped.
func (k *skimmer) drop(from, least, enough int, may func(*skimmed) bool) int {
	end := len(k.messages)
	if end > 0 && k.messages[end-1].role == userRole {
		end-- // see dropLast
	}
	for ; from < end && k.held() > enough; from++ {
		if m := &k.messages[from]; len(m.raw) > least && m.id != "" && m.role != "" && may(m) {
			k.size -= len(m.raw)
			m.raw = nil
		}
	}
	return from
}

// dropLast drops the newest message when nothing else makes room. Only the content of a user's message at the end of an input
// shows whether it repeats or edits a known one; while more messages follow, it is one of many.
func (k *skimmer) dropLast(may func(*skimmed) bool) {
	if n := len(k.messages); n > 0 && k.held() > k.Held {
		if m := &k.messages[n-1]; m.raw != nil && m.id != "" && m.role != "" && may(m) {
			k.size -= len(m.raw)
			m.raw = nil
		}
	}
}

// eof makes the end of a body that was cut what it is.
func eof(err error) error {
	if err != nil && errors.Is(err, io.EOF) {
		return wrong("unexpected end of JSON")
	}
	return err
}
