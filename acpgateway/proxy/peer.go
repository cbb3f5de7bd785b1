package proxy

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"unicode"

	"aqueduct/acpgateway/wire"
	"aqueduct/internal/strictjson"
)

// errAgentClosed ends every call to an agent that is gone.
var errAgentClosed = errors.New("agent closed")

// inbound is what a peer does with what comes in. All are called on its reader.
// They must not block for long: the reader takes no other line meanwhile, and with it no response that a prompt waits
// for.
type inbound struct {
	notification func(method string, params json.RawMessage)
	// request may do what has to keep its place among the notifications; what it returns
	// then runs on a goroutine of its own, so that an open request holds nothing up.
	request func(method string, params json.RawMessage) func(context.Context) (any, error)
	trouble func(error)  // a line that cannot be used
	console func(string) // a line that was written for a person: gemini prints where to log in
}

// peer speaks JSON-RPC in lines. Its reader is one goroutine: notifications keep their
// order, and a response is delivered only after all that came before it.
//
// ACP is JSON-RPC 2.0 over the agent's standard streams, one message a line, in both directions at once. Each side
// numbers its own requests, so an id of the agent's has no relation to ours. A peer ends with its process: read
// returns when the output ends, and fail then ends the calls that got no response.
type peer struct {
	in   inbound
	ctx  context.Context
	stop context.CancelFunc
	wg   sync.WaitGroup // requests being answered

	writing sync.Mutex
	w       io.Writer
	limit   int            // of a line
	codes   *regexp.Regexp // that steer a terminal

	mu      sync.Mutex
	last    int64
	pending map[wire.ID]*call
	open    map[wire.ID]context.CancelFunc
	err     error
}

// newPeer makes a peer that writes to w. Nothing is read before read is called, so the owner can finish itself first.
// The expression takes out what moves a cursor or sets a color or a title: CSI and OSC sequences and the short
// escapes.
func newPeer(ctx context.Context, w io.Writer, in inbound) *peer {
	ctx, stop := context.WithCancel(ctx)
	return &peer{
		in: in, ctx: ctx, stop: stop, w: w, limit: lineBytes, pending: map[wire.ID]*call{}, open: map[wire.ID]context.CancelFunc{},
		codes: regexp.MustCompile(`\x1b(?:\[[0-9;:<=>?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_78=>])`),
	}
}

// call is a request of ours that waits for its response.
// then runs on the reader before any later line is taken. A prompt's end is noted that way, so that an update behind
// the response is not counted as the prompt's.
type call struct {
	id   wire.ID
	peer *peer
	then func() // on the reader, before it goes on
	done chan struct{}
	raw  json.RawMessage
	err  error
}

// begin sends a request.
// The call is listed before it is written, because the response may come before write returns.
func (p *peer) begin(method string, params any, then func()) (*call, error) {
	raw, err := json.Marshal(params)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	if p.err != nil {
		p.mu.Unlock()
		return nil, p.err
	}
	p.last++
	c := &call{id: wire.ID(strconv.FormatInt(p.last, 10)), peer: p, then: then, done: make(chan struct{})}
	p.pending[c.id] = c
	p.mu.Unlock()
	if err := p.write(wire.Message{ID: c.id, Method: method, Params: raw}); err != nil {
		// The pipe is broken: the process is going, and its end tells why.
		return c, nil
	}
	return c, nil
}

// wait returns the result.
// A caller that gives up takes its entry out; a late response is then dropped.
func (c *call) wait(ctx context.Context) (json.RawMessage, error) {
	select {
	case <-c.done:
		return c.raw, c.err
	case <-ctx.Done():
		c.peer.mu.Lock()
		delete(c.peer.pending, c.id)
		c.peer.mu.Unlock()
		return nil, context.Cause(ctx)
	}
}

// call sends a request and reads its result into out.
func (p *peer) call(ctx context.Context, method string, params, out any, then func()) error {
	c, err := p.begin(method, params, then)
	if err != nil {
		return err
	}
	raw, err := c.wait(ctx)
	if err != nil {
		return err
	}
	if out == nil || len(raw) == 0 || string(raw) == "null" {
		return nil
	}
	if err := json.Unmarshal(raw, out); err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	return nil
}

// notify sends a notification.
func (p *peer) notify(method string, params any) error {
	raw, err := json.Marshal(params)
	if err != nil {
		return err
	}
	return p.write(wire.Message{Method: method, Params: raw})
}

// One lock around the whole line, or two messages would mix.
// The reader's goroutine never calls it. A write blocks while the agent does not read its input, and an agent may not
// read while it waits for us to take its output: each would wait for the other.
func (p *peer) write(m wire.Message) error {
	m.JSONRPC = "2.0"
	line, err := json.Marshal(m)
	if err != nil {
		return err
	}
	p.writing.Lock()
	defer p.writing.Unlock()
	_, err = p.w.Write(append(line, '\n'))
	return err
}

// read takes lines until there are no more. It ends requests under way; calls of ours are
// ended by fail, when it is known how the process ended.
// A line that is too long is skipped and answered; it does not end the agent, whose next lines are good.
func (p *peer) read(r io.Reader) {
	lines := newLineReader(r, p.limit)
	for {
		line, err := lines.next()
		if errors.Is(err, errLine) {
			p.tooLong(line)
			continue
		}
		if len(bytes.TrimSpace(line)) > 0 {
			p.take(line)
		}
		if err != nil {
			break
		}
	}
	p.stop()
	p.wg.Wait()
}

// fail ends every call.
// Calls that begin later fail by the same error, so none waits for a process that is gone.
func (p *peer) fail(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.err = err
	for id, c := range p.pending {
		delete(p.pending, id)
		c.err = err
		close(c.done)
	}
}

// take decides by its members what a line is. An id without a method is a response, both together are a request, a
// method alone is a notification. $/cancel_request is the one notification that the peer answers itself, because only
// it knows which requests are open.
func (p *peer) take(line []byte) {
	if strictjson.TooMany(line, strictjson.MostFrameValues) {
		p.in.trouble(wire.ErrTooMany)
		return
	}
	var m wire.Message
	if err := json.Unmarshal(line, &m); err != nil {
		p.unparsed(line)
		return
	}
	switch {
	case m.IsResponse():
		p.deliver(&m)
	case m.IsRequest():
		p.answer(&m)
	case m.Method == wire.MethodCancelRequest:
		p.cancelRequest(m.Params)
	case m.Method != "":
		p.in.notification(m.Method, m.Params)
	}
}

// unparsed takes a line that is no message.
// Agents that are started without a login print an address to open, or a stack trace, where messages belong. People
// need to see it, so it goes to the chat as the agent's console.
func (p *peer) unparsed(line []byte) {
	if text := p.readable(line); text != "" && text[0] != '{' {
		p.in.console(text)
		return
	}
	p.in.trouble(fmt.Errorf("a line of the agent is no message: %.80q", line))
}

// readable is a line without what steers a terminal, not longer than a line of a console.
func (p *peer) readable(line []byte) string {
	// The cut comes first, so that a line of megabytes is not searched for codes.
	text := p.codes.ReplaceAllString(strings.ToValidUTF8(string(line[:min(len(line), consoleLine)]), "\uFFFD"), "")
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\t' {
			return -1
		}
		return r
	}, text))
}

// deliver ends the call that a response is for. then runs before done is closed and before the reader takes the next
// line, and without the lock, since it may take other locks.
func (p *peer) deliver(m *wire.Message) {
	p.mu.Lock()
	c := p.pending[m.ID]
	delete(p.pending, m.ID)
	p.mu.Unlock()
	if c == nil {
		return // the caller has given up
	}
	if c.then != nil {
		c.then()
	}
	c.raw = m.Result
	if m.Error != nil {
		c.err = m.Error
	}
	close(c.done)
}

// The number of open requests is bounded, since each holds a goroutine: an agent that asks in a loop is refused, and
// the chat shows why. An id that is in use must not be taken twice, or the first answer would go out for both.
func (p *peer) answer(m *wire.Message) {
	ctx, cancel := context.WithCancel(p.ctx)
	p.mu.Lock()
	_, twice := p.open[m.ID]
	full := len(p.open) >= controls
	if !twice && !full {
		p.open[m.ID] = cancel
	}
	p.mu.Unlock()
	if twice { // an answer would be taken for that of the other
		cancel()
		p.in.trouble(fmt.Errorf("the agent's request %s was dropped: its id is in use", m.ID))
		return
	}
	if full {
		cancel()
		p.in.trouble(fmt.Errorf("the agent's request %s was refused: too many are open", m.ID))
		p.refuse(m.ID, &wire.Error{Code: wire.CodeInternal, Message: "too many requests are open"})
		return
	}
	work := p.in.request(m.Method, m.Params)
	id := m.ID
	p.wg.Go(func() {
		result, err := work(ctx)
		// The request's own context has ended and the peer's has not: the agent took the request back
		// ($/cancel_request), and has to get this code for it.
		if ctx.Err() != nil && p.ctx.Err() == nil {
			err = &wire.Error{Code: wire.CodeCancelled, Message: "cancelled"}
		}
		p.mu.Lock()
		// Before the answer is written: an agent may use the id again as soon as it has read that.
		delete(p.open, id)
		p.mu.Unlock()
		cancel()
		_ = p.write(response(id, result, err)) // a closed pipe is reported by the end of the process
	})
}

// response is the answer to a request. A result that cannot be marshaled becomes an error: the agent would wait for an
// answer that is not sent. An error keeps its JSON-RPC code where it has one.
func response(id wire.ID, result any, err error) wire.Message {
	if err == nil {
		raw, bad := json.Marshal(result)
		if bad == nil {
			return wire.Message{ID: id, Result: raw}
		}
		err = bad
	}
	var e *wire.Error
	if !errors.As(err, &e) {
		e = &wire.Error{Code: wire.CodeInternal, Message: err.Error()}
	}
	return wire.Message{ID: id, Error: e}
}

// This is $/cancel_request: the agent gives a question of its own up.
func (p *peer) cancelRequest(params json.RawMessage) {
	var w wire.CancelRequestParams
	if json.Unmarshal(params, &w) != nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if cancel := p.open[w.RequestID]; cancel != nil {
		cancel()
	}
}

// tooLong answers for a message that was not read, as far as its beginning tells what it was:
// a caller waits for it.
// Without an answer the agent would wait for it for ever.
func (p *peer) tooLong(beginning []byte) {
	p.in.trouble(errLine)
	id, method := headOf(beginning)
	switch {
	case id == "":
	case method == "":
		p.deliver(&wire.Message{ID: id, Error: &wire.Error{Code: wire.CodeInternal, Message: errLine.Error()}})
	default:
		p.refuse(id, &wire.Error{Code: wire.CodeInvalidRequest, Message: errLine.Error()})
	}
}

// refuse answers a request that nothing works on. On a goroutine of its own, because the reader must not write (write).
func (p *peer) refuse(id wire.ID, why *wire.Error) {
	p.wg.Go(func() { _ = p.write(response(id, nil, why)) })
}

// headOf reads the id and method that stand before the first long member.
// Most agents write id and method first; where they do not, the line is dropped.
func headOf(beginning []byte) (id wire.ID, method string) {
	dec := json.NewDecoder(bytes.NewReader(beginning))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return "", ""
	}
	for {
		key, err := dec.Token()
		if err != nil {
			return id, method
		}
		var value json.RawMessage
		if dec.Decode(&value) != nil {
			return id, method
		}
		switch key {
		case "id":
			id = wire.ID(value)
		case "method":
			_ = json.Unmarshal(value, &method) // not a text: no method
		}
	}
}
