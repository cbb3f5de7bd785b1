// This file takes a body apart into frames and judges their form: line ends, fields, sizes, ids. What the data of a
// frame means is stream.go's.

package doctor

import (
	"bytes"
	"encoding/json"
	"strings"
	"time"
	"unicode/utf8"
)

// maxFrame is what official clients take of one frame.
const maxFrame = 10 << 20

// frame is one event of Server-Sent Events, as it arrived.
type frame struct {
	at   time.Duration // of its last byte
	id   string
	data []byte
	line int // of its first line in the body, from 1
}

// parse reads the frames of a body as a tolerant reader does, for comparisons. What it finds goes into an examination
// that is thrown away: the form of the first run is judged by run, that of a second one is not judged.
func (r *Run) parse() []frame { return newExamination().frames(r) }

// Positions are the ids of its events, in order.
func (r *Run) Positions() (ids []string) {
	for _, f := range r.parse() {
		if f.id != "" {
			ids = append(ids, f.id)
		}
	}
	return ids
}

// frames takes the body apart, by the grammar of the HTML Standard, and looks at its form. A byte order mark at the
// beginning is no part of the stream there; the times of arrival count from before it.
func (x *examination) frames(r *Run) []frame {
	p := &parser{x: x, ids: make(map[string]int), closed: r.Ended == Closed}
	body := bytes.TrimPrefix(r.body(), []byte("\xef\xbb\xbf"))
	// A connection that is lost may cut a character.
	if at := invalidAt(body); at >= 0 && (p.closed || at < len(body)-utf8.UTFMax) {
		x.findf("not_utf8", "byte %d of the body: % x", at, body[at:min(at+4, len(body))])
	}
	if at := bytes.IndexByte(body, '\r'); at >= 0 {
		form := "CR"
		if bytes.HasPrefix(body[at:], []byte("\r\n")) {
			form = "CRLF"
		}
		x.findf("line_ends", "%s at byte %d of the body", form, at)
	}
	// Lines are taken to the end of the body. A frame ends at each blank line, and once more where the body does:
	// what stands there without one is unfinished.
	offset, clock := len(r.body())-len(body), &arrivals{run: r}
	for rest := body; len(rest) > 0; {
		line, n := cutLine(rest)
		p.line(line, n > len(line))
		rest = rest[n:]
		if len(line) == 0 || len(rest) == 0 {
			p.over(clock.at(offset+len(body)-len(rest)), n > len(line) && len(line) == 0)
		}
	}
	return p.frames
}

// cutLine is the first line of b, and how long it is with its end: LF, CR or CRLF, as in the HTML Standard. AG-UI has
// LF alone; the others are found (line_ends) and read all the same, so that one fault does not hide the rest.
func cutLine(b []byte) (line []byte, n int) {
	i := bytes.IndexAny(b, "\r\n")
	switch {
	case i < 0:
		return b, len(b)
	case bytes.HasPrefix(b[i:], []byte("\r\n")):
		return b[:i], i + 2
	}
	return b[:i], i + 1
}

// invalidAt is where the first byte stands that is no UTF-8, or -1.
func invalidAt(b []byte) int {
	for i := 0; i < len(b); {
		r, n := utf8.DecodeRune(b[i:])
		if r == utf8.RuneError && n <= 1 {
			return i
		}
		i += n
	}
	return -1
}

// arrivals knows when bytes of a body had arrived. It is asked in the order of the body.
type arrivals struct {
	run  *Run
	next int // chunk
	end  int // of the chunks before it
}

// at is when the first n bytes had arrived.
func (a *arrivals) at(n int) time.Duration {
	for a.next < len(a.run.Chunks)-1 && a.end+len(a.run.Chunks[a.next].Data) < n {
		a.end += len(a.run.Chunks[a.next].Data)
		a.next++
	}
	return a.run.Chunks[a.next].At
}

// parser is a body being taken apart. An id stays for the frames behind it in the HTML Standard; here a frame has the
// one that it names itself, because ids are looked at as positions of single events.
type parser struct {
	x       *examination
	frames  []frame
	ids     map[string]int // the line of the frame that had an id
	closed  bool           // the body ended in order
	current frame
	fields  int // lines of the current frame
	hasData bool
	lines   int // taken so far; the number of the newest
	size    int // bytes of the current frame, comments and line ends included, which a client buffers too
}

// line takes one line; whole reports whether it had an end.
func (p *parser) line(line []byte, whole bool) {
	p.lines++
	if len(line) == 0 {
		return
	}
	if p.fields == 0 {
		p.current.line = p.lines
	}
	p.size += len(line) + 1
	name, value, _ := bytes.Cut(line, []byte(":"))
	value = bytes.TrimPrefix(value, []byte(" "))
	switch string(name) {
	case "": // a comment, which is no part of a frame
		return
	case "data":
		if p.hasData {
			p.current.data = append(p.current.data, '\n')
		}
		p.current.data, p.hasData = append(p.current.data, value...), true
	case "id":
		p.current.id = string(value)
	case "event", "retry":
	default:
		if whole {
			p.x.findf("framing", "line %d is no field: %s", p.lines, quoted(line))
		}
	}
	p.fields++
}

// over ends a frame. Without the blank line behind it a strict reader leaves it out; official clients do not, so it
// counts when it is whole. One that a lost connection cut is no fault of its own.
//
// A frame without data is no event (HTML Standard), so its id is not looked at.
func (p *parser) over(at time.Duration, ended bool) {
	f := p.current
	if !ended && p.fields > 0 {
		if p.closed {
			p.x.findf("frame_unfinished", "the body ends inside the event that begins on line %d", f.line)
		}
		p.hasData = p.hasData && json.Valid(f.data)
	}
	if p.size >= maxFrame {
		p.x.findf("frame_too_large", "%d bytes on line %d", p.size, f.line)
	}
	if p.hasData {
		f.at = at
		p.frames = append(p.frames, f)
		p.identify(f)
	}
	p.current, p.fields, p.hasData, p.size = frame{}, 0, false, 0
}

// identify looks at the id of a frame.
func (p *parser) identify(f frame) {
	if f.id == "" {
		return
	}
	p.x.saw(anID)
	if before, known := p.ids[f.id]; known {
		p.x.findf("id_repeated", "id %s on line %d, and on line %d before", quoted([]byte(f.id)), f.line, before)
	}
	p.ids[f.id] = f.line
}

// isDone reports the end marker of OpenAI's streams, which some servers send here too.
func isDone(data []byte) bool { return strings.TrimSpace(string(data)) == "[DONE]" }
