// This file reads cassettes. A file may come from anywhere, so everything is bounded and checked before it counts;
// the checks are those that let player.go go through the Runs without looking for mistakes.

package cassette

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"aqueduct/agui"
	"aqueduct/internal/fault"
)

// Tape is a cassette that was read.
type Tape struct {
	Header Header
	Runs   []Run
	Events int64
}

// Read reads a cassette and checks all of it: the form, that positions follow each other, that Runs are whole, and the
// hash. Errors have one of the codes of this package.
func Read(in io.Reader) (*Tape, error) {
	r := &reader{in: bufio.NewReader(in), sum: newSum()}
	if err := r.header(); err != nil {
		return nil, err
	}
	for {
		raw, err := r.next()
		if err != nil {
			return nil, err
		}
		over, err := r.line(raw)
		if err != nil {
			return nil, err
		}
		if over {
			return &r.tape, nil
		}
	}
}

// reader is one file being read.
type reader struct {
	in   *bufio.Reader
	sum  *sum
	tape Tape
	open Run
	last Event // the newest; its zero value is none
	at   int   // the number of the line
	size int64 // bytes read so far
}

// maxLine bounds a line: an event, and what stands around it.
const maxLine = MaxEvent + 1<<10

// next is the next line without its end. A file that ends without a trailer was cut.
func (r *reader) next() ([]byte, error) {
	r.at++
	var raw []byte
	for {
		piece, err := r.in.ReadSlice('\n')
		raw = append(raw, piece...)
		r.size += int64(len(piece))
		switch {
		case len(raw) > maxLine:
			return nil, fault.New(TooLarge, fmt.Sprintf("line %d of the cassette has an event of more than %d bytes", r.at, MaxEvent))
		case r.size > MaxBytes:
			return nil, fault.New(TooLarge, fmt.Sprintf("the cassette has more than %d bytes", MaxBytes))
		case errors.Is(err, io.EOF):
			return nil, broken(r.at, "is missing or cut: the file ends before its last line")
		case !errors.Is(err, bufio.ErrBufferFull):
			return bytes.TrimSuffix(raw, []byte("\n")), err
		}
	}
}

// header reads the first line. A file whose first line does not name a version is something else.
func (r *reader) header() error {
	raw, err := r.in.Peek(1)
	if err != nil || raw[0] != '{' {
		return fault.New(Foreign, "the file is no cassette (aqueduct export makes them)")
	}
	first, err := r.next()
	var version struct {
		Number *int `json:"aqueduct_cassette"`
	}
	switch {
	case fault.CodeOf(err) == Broken, err == nil && json.Unmarshal(first, &version) != nil, err == nil && version.Number == nil:
		return fault.New(Foreign, "the file is no cassette (aqueduct export makes them)")
	case err != nil:
		return err
	case *version.Number > Version:
		return fault.New(Newer, fmt.Sprintf("a newer Aqueduct has written the cassette: its version is %d, and this program reads up to %d", *version.Number, Version))
	case *version.Number < 1 || json.Unmarshal(first, &r.tape.Header) != nil:
		return broken(r.at, "is no header")
	}
	return nil
}

// line takes one line behind the header; over is true for the trailer. The two have no member in common, so one
// decoding tells them apart.
func (r *reader) line(raw []byte) (over bool, err error) {
	var l struct {
		line
		trailer
	}
	if json.Unmarshal(raw, &l) != nil {
		return false, broken(r.at, "is not JSON of its form")
	}
	if l.SHA256 != "" {
		return true, r.end(l.trailer)
	}
	return false, r.event(l.line)
}

// longest is the largest time that fits, in milliseconds.
const longest = math.MaxInt64 / int64(time.Millisecond)

// event takes one event. Its bytes are the line's own: the decoder copies them as they are.
func (r *reader) event(l line) error {
	switch e := l.Event; {
	case bytes.ContainsAny(e, "\r\n"): // it would end a line of the stream in which it is played
		return broken(r.at, "has a line break in its event")
	case l.Seq < 1 || l.AtMS < 0 || agui.TypeOf(e) == "":
		return broken(r.at, "has no event, position or time")
	case r.last.Seq != 0 && l.Seq != r.last.Seq+1:
		return broken(r.at, fmt.Sprintf("has position %d behind %d", l.Seq, r.last.Seq))
	case l.AtMS > longest || l.AtMS < r.last.At.Milliseconds():
		return broken(r.at, "has a time before that of the line in front of it")
	case len(r.open) == 0 && agui.TypeOf(e) != agui.TypeRunStarted && !agui.IsTerminal(e):
		return broken(r.at, "does not begin a Run, and none is open")
	case len(r.open) > 0 && agui.TypeOf(e) == agui.TypeRunStarted:
		return broken(r.at, "begins a Run inside of another")
	}
	r.last = Event{Seq: l.Seq, At: time.Duration(l.AtMS) * time.Millisecond, JSON: l.Event}
	r.sum.add(l.Seq, l.Event)
	r.tape.Events++
	r.open = append(r.open, r.last)
	if agui.IsTerminal(l.Event) {
		r.tape.Runs = append(r.tape.Runs, r.open)
		r.open = nil
	}
	return nil
}

// end compares what was read with the trailer, behind which nothing may stand.
func (r *reader) end(t trailer) error {
	_, err := r.in.Peek(1)
	switch {
	case !errors.Is(err, io.EOF):
		return broken(r.at, "is the last one, and more stands behind it")
	case len(r.open) > 0 || len(r.tape.Runs) == 0:
		return broken(r.at, "is the last one, and no Run has ended in front of it")
	case t.Events != r.tape.Events || t.SHA256 != r.sum.hex():
		return broken(r.at, "has another hash than the events: they were changed")
	}
	return nil
}
