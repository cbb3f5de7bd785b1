package proxy

import (
	"bufio"
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

	"aqueduct/acpgateway/acp"
)

// errAgentClosed ends every call to an agent that is gone.
var errAgentClosed = errors.New("agent closed")

// errLine is a line past the limit.
var errLine = errors.New("a line of the agent is too long")

// inbound is what a peer does with what comes in. All are called on its reader.
type inbound struct {
	notification func(method string, params json.RawMessage)
	// request may do what has to keep its place among the notifications; what it returns
	// then runs on a goroutine of its own, so that an open request holds nothing up.
	request func(method string, params json.RawMessage) func(context.Context) (any, error)
	trouble func(error)  // a line that cannot be used
	console func(string) // a line that was written for a person: gemini says so where to log in
}

// peer speaks JSON-RPC in lines. Its reader is one goroutine: notifications keep their
// order, and a response is delivered only after all that came before it.
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
	pending map[acp.ID]*call
	open    map[acp.ID]context.CancelFunc
	err     error
}

func newPeer(ctx context.Context, w io.Writer, in inbound) *peer {
	ctx, stop := context.WithCancel(ctx)
	return &peer{
		in: in, ctx: ctx, stop: stop, w: w, limit: lineBytes, pending: map[acp.ID]*call{}, open: map[acp.ID]context.CancelFunc{},
		codes: regexp.MustCompile(`\x1b(?:\[[0-9;:<=>?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_78=>])`),
	}
}

// call is a request of ours that waits for its response.
type call struct {
	id   acp.ID
	peer *peer
	then func() // on the reader, before it goes on
	done chan struct{}
	raw  json.RawMessage
	err  error
}

// begin sends a request.
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
	c := &call{id: acp.ID(strconv.FormatInt(p.last, 10)), peer: p, then: then, done: make(chan struct{})}
	p.pending[c.id] = c
	p.mu.Unlock()
	if err := p.write(acp.Message{ID: c.id, Method: method, Params: raw}); err != nil {
		// The pipe is broken: the process is going, and its end tells why.
		return c, nil
	}
	return c, nil
}

// wait returns the result.
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
	return p.write(acp.Message{Method: method, Params: raw})
}

func (p *peer) write(m acp.Message) error {
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

func (p *peer) take(line []byte) {
	var m acp.Message
	if err := json.Unmarshal(line, &m); err != nil {
		p.stray(line)
		return
	}
	switch {
	case m.IsResponse():
		p.deliver(&m)
	case m.IsRequest():
		p.answer(&m)
	case m.Method == acp.MethodCancelRequest:
		p.withdraw(m.Params)
	case m.Method != "":
		p.in.notification(m.Method, m.Params)
	}
}

// stray takes a line that is no message.
func (p *peer) stray(line []byte) {
	if text := p.readable(line); text != "" && text[0] != '{' {
		p.in.console(text)
		return
	}
	p.in.trouble(fmt.Errorf("a line of the agent is no message: %.80q", line))
}

// readable is a line without what steers a terminal, not longer than a line of a console.
func (p *peer) readable(line []byte) string {
	text := p.codes.ReplaceAllString(strings.ToValidUTF8(string(line[:min(len(line), consoleLine)]), "\uFFFD"), "")
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\t' {
			return -1
		}
		return r
	}, text))
}

func (p *peer) deliver(m *acp.Message) {
	p.mu.Lock()
	c := p.pending[m.ID]
	delete(p.pending, m.ID)
	p.mu.Unlock()
	if c == nil {
		return // nobody waits any more
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

func (p *peer) answer(m *acp.Message) {
	ctx, cancel := context.WithCancel(p.ctx)
	p.mu.Lock()
	_, twice := p.open[m.ID]
	full := len(p.open) >= controls
	if !twice && !full {
		p.open[m.ID] = cancel
	}
	p.mu.Unlock()
	if twice || full {
		cancel()
		p.in.trouble(fmt.Errorf("the agent's request %s was refused: its id is in use, or too many are open", m.ID))
		return
	}
	work := p.in.request(m.Method, m.Params)
	id := m.ID
	p.wg.Go(func() {
		result, err := work(ctx)
		if ctx.Err() != nil && p.ctx.Err() == nil {
			err = &acp.Error{Code: acp.CodeCancelled, Message: "cancelled"}
		}
		p.mu.Lock()
		delete(p.open, id)
		p.mu.Unlock()
		cancel()
		_ = p.write(response(id, result, err)) // a closed pipe is told by the end of the process
	})
}

func response(id acp.ID, result any, err error) acp.Message {
	if err == nil {
		raw, bad := json.Marshal(result)
		if bad == nil {
			return acp.Message{ID: id, Result: raw}
		}
		err = bad
	}
	var e *acp.Error
	if !errors.As(err, &e) {
		e = &acp.Error{Code: acp.CodeInternal, Message: err.Error()}
	}
	return acp.Message{ID: id, Error: e}
}

func (p *peer) withdraw(params json.RawMessage) {
	var w acp.CancelRequestParams
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
// somebody waits for it.
func (p *peer) tooLong(beginning []byte) {
	p.in.trouble(errLine)
	id, method := headOf(beginning)
	switch {
	case id == "":
	case method == "":
		p.deliver(&acp.Message{ID: id, Error: &acp.Error{Code: acp.CodeInternal, Message: errLine.Error()}})
	default:
		p.wg.Go(func() {
			_ = p.write(response(id, nil, &acp.Error{Code: acp.CodeInvalidRequest, Message: errLine.Error()}))
		})
	}
}

// headOf reads the id and method that stand before the first long member.
func headOf(beginning []byte) (id acp.ID, method string) {
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
			id = acp.ID(value)
		case "method":
			_ = json.Unmarshal(value, &method) // not a text: no method
		}
	}
}

// lineReader reads lines up to a limit and passes over longer ones.
type lineReader struct {
	r     *bufio.Reader
	limit int
	buf   []byte
}

const (
	lineBuffer = 64 << 10
	// lineKept is how much memory stays with a reader after a long line.
	lineKept = 1 << 20
	// lineHead is what is kept of a line past the limit.
	lineHead = 4 << 10
)

func newLineReader(r io.Reader, limit int) *lineReader {
	return &lineReader{r: bufio.NewReaderSize(r, lineBuffer), limit: limit}
}

// next returns a line, good until the next call; its beginning with errLine when it was too
// long; and the rest of the input beside the error that ended it.
func (l *lineReader) next() ([]byte, error) {
	if cap(l.buf) > lineKept {
		l.buf = nil
	}
	l.buf = l.buf[:0]
	long := false
	for {
		part, err := l.r.ReadSlice('\n')
		if long = long || len(l.buf)+len(part) > l.limit; !long {
			l.buf = append(l.buf, part...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
		case err != nil:
			return l.buf, err
		case long:
			return l.buf[:min(len(l.buf), lineHead)], errLine
		default:
			return l.buf, nil
		}
	}
}
