package server_test

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/gorilla/websocket"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// This file has openapi.json judge the frames of WebSockets: x-messages of a 101 response names, for each direction, a union of
// schemas, and its discriminator the schema of each type of frame.

// comparedFrames bounds how many frames of a type are compared on one connection. Those of one type differ in few forms, and tests
// of floods and slow readers send thousands.
const comparedFrames = 40

// shownWrong bounds how many frames that do not fit are shown of one connection: they are mostly alike.
const shownWrong = 5

// wsTalk is what one connection carries, compared with the document. What is wrong is kept until the connection has ended: its
// frames are read in goroutines of the server's, where a test's methods must not be called.
type wsTalk struct {
	doc     *described
	in, out string // the names of the unions; "" where the document has none

	mu       sync.Mutex
	compared map[string]int // by schema
	errs     []error
	misfits  []error // of what the client sent
	refused  bool    // the server did not take a frame, by an error frame, or ended the connection
}

// talkOf is for a connection of an operation; nil where the document has none of its frames.
func (d *described) talkOf(o *operation) *wsTalk {
	t := &wsTalk{doc: d, in: d.messages(o, "in"), out: d.messages(o, "out"), compared: make(map[string]int)}
	if t.in == "" && t.out == "" {
		return nil
	}
	return t
}

// messages is the name of the union of an operation's frames in a direction, "" where there is none.
func (d *described) messages(o *operation, direction string) string {
	ref, _ := d.lookUp(o.at("responses", "101", "x-messages", direction, "$ref")).(string)
	return strings.TrimPrefix(ref, "#/components/schemas/")
}

// frameTypes are the places of the schemas of a union by the type that its discriminator names.
func (d *described) frameTypes(union string) map[string]any {
	places, _ := d.lookUp("#/components/schemas/" + union + "/discriminator/mapping").(map[string]any)
	return places
}

// fits compares a frame with the schema that its type names in a document, and notes that it was driven where it fits.
func (t *wsTalk) fits(doc, union string, text []byte) error {
	var head struct{ Type string }
	if err := json.Unmarshal(text, &head); err != nil {
		return fmt.Errorf("%w: %s", err, headOf(text))
	}
	place, ok := t.doc.frameTypes(union)[head.Type].(string)
	if !ok {
		return fmt.Errorf("%q is no type of %s: %s", head.Type, union, headOf(text))
	}
	t.compared[doc+place]++
	if t.compared[doc+place] > comparedFrames {
		return nil
	}
	instance, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err == nil {
		err = t.doc.validate(doc+place, instance)
	}
	if err != nil {
		return fmt.Errorf("%w\n%s", err, headOf(text))
	}
	t.doc.drive(frameName(union, head.Type))
	return nil
}

// headOf is the beginning of a frame, which may have been cut inside of a character.
func headOf(text []byte) string { return strings.ToValidUTF8(string(head(text)), "�") }

// frameName is a type of frame in described.driven.
func frameName(union, kind string) string { return "frame " + union + " " + kind }

// sent takes a message of the server's.
func (t *wsTalk) sent(m wsMessage) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var err error
	switch {
	case m.kind == websocket.CloseMessage:
		code := websocket.CloseNoStatusReceived
		if len(m.data) >= 2 {
			code = int(binary.BigEndian.Uint16(m.data))
		}
		t.refused = t.refused || code != websocket.CloseNormalClosure && code != websocket.CloseGoingAway
	case m.kind != websocket.TextMessage:
		err = fmt.Errorf("sends a message of kind %d, and frames are texts", m.kind)
	case m.cut:
	case t.out == "":
		err = fmt.Errorf("sends frames, which are not documented: %s", headOf(m.data))
	default:
		err = t.fits(sentBy, t.out, m.data)
		t.refused = t.refused || bytes.HasPrefix(m.data, []byte(`{"type":"error"`))
	}
	if err != nil && len(t.errs) < shownWrong {
		t.errs = append(t.errs, fmt.Errorf("sends: %w", err))
	}
}

// took takes a message of the client's. One that does not fit is no error yet: the server may refuse it.
func (t *wsTalk) took(m wsMessage) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if m.kind != websocket.TextMessage || m.cut || t.in == "" {
		return
	}
	if err := t.fits(takenBy, t.in, m.data); err != nil && len(t.misfits) < shownWrong {
		t.misfits = append(t.misfits, fmt.Errorf("takes: %w", err))
	}
}

// wrong is all that does not fit, once the connection has ended. What the client sent counts where the server answers what it
// refuses by an error, and sent none: a proxy of /ws/agent is never answered, so that of its frames only what fits is known to be
// taken.
func (t *wsTalk) wrong() []error {
	if t == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	all := t.errs
	if answers := t.doc.frameTypes(t.out)["error"] != nil; answers && !t.refused {
		all = append(slices.Clone(all), t.misfits...)
	}
	return all[:min(len(all), shownWrong)]
}

// undrivenFrames are the types of frames documented that no test drove.
func (d *described) undrivenFrames() (out []string) {
	for _, o := range d.operations {
		for _, union := range []string{d.messages(o, "in"), d.messages(o, "out")} {
			for kind := range d.frameTypes(union) {
				if name := frameName(union, kind); !d.driven[name] {
					out = append(out, name)
				}
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// listen has what a connection carries compared from the server's answer to the upgrade on.
func (t *wsTalk) listen(conn net.Conn, rw *bufio.ReadWriter) (net.Conn, *bufio.ReadWriter) {
	if t == nil || rw.Reader.Buffered() > 0 { // a client that does not wait for the answer is refused
		return conn, rw
	}
	along := &judgedConn{Conn: conn, in: wsReader{masked: true, took: t.took}, out: wsReader{answer: true, took: t.sent}}
	along.failed = func(err error) {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.errs = append(t.errs, err)
	}
	return along, bufio.NewReadWriter(bufio.NewReader(along), bufio.NewWriter(along))
}

// judgedConn is a connection whose bytes are read along in both directions. One goroutine reads and one at a time writes, so each
// reader is of one goroutine at a time.
type judgedConn struct {
	net.Conn
	in, out wsReader
	failed  func(error)
}

// Read implements net.Conn. What a client sends may break the protocol: the server answers that, and nothing of it is compared.
func (c *judgedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	_ = c.in.read(b[:n])
	return n, err
}

// Write implements net.Conn. The server must not break the protocol.
func (c *judgedConn) Write(b []byte) (int, error) {
	broken := c.out.broken != nil
	if err := c.out.read(b); err != nil && !broken {
		c.failed(err)
	}
	return c.Conn.Write(b)
}

// wsMessage is a message of a WebSocket, or a close frame. cut: it is longer than what is kept of one.
type wsMessage struct {
	kind int
	data []byte
	cut  bool
}

// wsReader reads the frames of one direction (RFC 6455, 5.2), however they are cut into pieces.
type wsReader struct {
	masked bool // as every frame of a client is
	answer bool // the HTTP response that comes first is not over
	took   func(wsMessage)

	header  []byte // as far as it has come
	left    uint64 // bytes of the frame's payload that have not come; known is set then
	known   bool
	at      int       // in the mask
	mask    [4]byte   // zero where there is none
	message wsMessage // as far as it has come
	control wsMessage // a control frame may stand between the frames of a message
	broken  error
}

// errCompressed is a message that this judge does not read. No extension is negotiated here, so that none may come.
var errCompressed = errors.New("a reserved bit is set, as of compressed messages, and the server negotiates no extension")

// read takes the next bytes. After an error it takes nothing more.
func (r *wsReader) read(b []byte) error {
	for len(b) > 0 && r.broken == nil {
		switch {
		case r.answer:
			b = r.readAnswer(b)
		case !r.known:
			r.header, b = append(r.header, b[0]), b[1:]
			r.broken = r.readHeader()
		default:
			n := int(min(uint64(len(b)), r.left))
			r.readPayload(b[:n])
			b, r.left = b[n:], r.left-uint64(n)
		}
		if r.known && r.left == 0 && r.broken == nil {
			r.broken = r.endFrame()
		}
	}
	return r.broken
}

// readAnswer reads up to the end of the HTTP response, and gives what comes behind it.
func (r *wsReader) readAnswer(b []byte) []byte {
	before := len(r.header)
	r.header = append(r.header, b...)
	end := bytes.Index(r.header, []byte("\r\n\r\n"))
	if end < 0 {
		return nil
	}
	r.header, r.answer = nil, false
	return b[end+len("\r\n\r\n")-before:]
}

// readHeader reads the header if all of it has come.
func (r *wsReader) readHeader() error {
	if len(r.header) < 2 {
		return nil
	}
	size, length := 2, uint64(r.header[1]&0x7f)
	size += map[uint64]int{126: 2, 127: 8}[length]
	end := size
	masked := r.header[1]&0x80 != 0
	if masked {
		size += 4
	}
	if len(r.header) < size {
		return nil
	}
	switch end {
	case 4:
		length = uint64(binary.BigEndian.Uint16(r.header[2:]))
	case 10:
		length = binary.BigEndian.Uint64(r.header[2:])
	}
	switch {
	case r.header[0]&0x70 != 0:
		return errCompressed
	case masked != r.masked:
		return fmt.Errorf("a frame with mask: %t", masked)
	}
	r.mask, r.at = [4]byte{}, 0
	copy(r.mask[:], r.header[end:])
	r.known, r.left = true, length
	return r.begin(int(r.header[0] & 0xf))
}

// begin begins a frame of a kind, which for the later frames of a message is 0.
func (r *wsReader) begin(kind int) error {
	switch {
	case kind >= websocket.CloseMessage:
		r.control = wsMessage{kind: kind}
	case kind == 0 && r.message.kind == 0:
		return errors.New("a message goes on that did not begin")
	case kind != 0 && r.message.kind != 0:
		return errors.New("a message begins within another")
	case kind != 0:
		r.message = wsMessage{kind: kind}
	}
	return nil
}

// current is the message that the frame is of.
func (r *wsReader) current() *wsMessage {
	if r.header[0]&0xf >= websocket.CloseMessage {
		return &r.control
	}
	return &r.message
}

func (r *wsReader) readPayload(b []byte) {
	m := r.current()
	if m.cut = m.cut || len(m.data)+len(b) > judgedBytes; m.cut {
		return
	}
	begin := len(m.data)
	m.data = append(m.data, b...)
	if r.masked {
		for i := range m.data[begin:] {
			m.data[begin+i] ^= r.mask[r.at%4]
			r.at++
		}
	}
}

// endFrame hands on what ends with the frame.
func (r *wsReader) endFrame() error {
	m, fin := r.current(), r.header[0]&0x80 != 0
	r.header, r.known = nil, false
	switch {
	case !fin && m == &r.control:
		return errors.New("a control frame that is not the last")
	case !fin:
	case m.kind == websocket.PingMessage, m.kind == websocket.PongMessage:
	default:
		r.took(*m)
		*m = wsMessage{}
	}
	return nil
}

// TestJudgeReadsFrames: masks, lengths and continuations, in pieces of any size; a bit of an extension ends it.
func TestJudgeReadsFrames(t *testing.T) {
	t.Parallel()
	long, huge := strings.Repeat("l", 300), strings.Repeat("h", 70_000)
	frame := func(first byte, masked bool, text string) []byte {
		var out []byte
		switch n := len(text); {
		case n < 126:
			out = []byte{first, byte(n)}
		case n < 1<<16:
			out = binary.BigEndian.AppendUint16([]byte{first, 126}, uint16(n))
		default:
			out = binary.BigEndian.AppendUint64([]byte{first, 127}, uint64(n))
		}
		if !masked {
			return append(out, text...)
		}
		out[1] |= 0x80
		mask := []byte{1, 2, 3, 4}
		out = append(out, mask...)
		for i := range len(text) {
			out = append(out, text[i]^mask[i%4])
		}
		return out
	}
	for _, masked := range []bool{false, true} {
		for _, piece := range []int{1, 7, 1 << 20} {
			var got []string
			r := wsReader{masked: masked, answer: !masked, took: func(m wsMessage) { got = append(got, fmt.Sprint(m.kind, " ", string(m.data))) }}
			var sent []byte
			if !masked {
				sent = []byte("HTTP/1.1 101 Switching Protocols\r\n\r\n")
			}
			for _, f := range [][]byte{
				frame(0x81, masked, "a"), frame(0x81, masked, ""), frame(0x01, masked, "one "), frame(0x89, masked, "ping"), frame(0x00, masked, long), frame(0x80, masked, ""),
				frame(0x81, masked, huge), frame(0x88, masked, "\x03\xe8"), frame(0xc1, masked, "compressed"), frame(0x81, masked, "behind"),
			} {
				sent = append(sent, f...)
			}
			for cut := range slices.Chunk(sent, piece) {
				_ = r.read(cut)
			}
			if want := []string{"1 a", "1 ", "1 one " + long, "1 " + huge, "8 \x03\xe8"}; !slices.Equal(got, want) || !errors.Is(r.broken, errCompressed) {
				t.Errorf("masked %t, in pieces of %d: %.300q, %v", masked, piece, got, r.broken)
			}
		}
	}
}
