// This file writes the stream. A frame that is sent leaves at once; those of a flood leave with the buffer.

package demoagent

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"time"
)

// stream writes frames. After the first failure, the caller having gone most of all, it
// writes no more, so a part need not look at an error after each frame.
type stream struct {
	ctx     context.Context
	w       *bufio.Writer
	flusher *http.ResponseController
	pace    Options
	err     error
	sent    int // deltas and thoughts, for the usage
}

func newStream(ctx context.Context, w http.ResponseWriter, pace Options) *stream {
	return &stream{
		ctx:     ctx,
		w:       bufio.NewWriterSize(w, 32<<10),
		flusher: http.NewResponseController(w),
		pace:    pace,
	}
}

// send writes one frame and lets it go at once.
func (s *stream) send(name string, data any) {
	s.put(name, data)
	s.flush()
}

// put writes one frame to the buffer.
func (s *stream) put(name string, data any) {
	if s.gone() {
		return
	}
	body, err := json.Marshal(data)
	if err != nil {
		s.err = err
		return
	}
	s.write("event: " + name + "\ndata: ")
	s.write(string(body))
	s.write("\n\n")
}

func (s *stream) write(text string) {
	if s.err == nil {
		_, s.err = s.w.WriteString(text)
	}
}

// flush empties both buffers between a frame and its reader: our own, and that of net/http.
func (s *stream) flush() {
	if s.err == nil {
		s.err = s.w.Flush()
	}
	if s.err == nil {
		s.err = s.flusher.Flush()
	}
}

// gone reports that the caller has closed the connection.
func (s *stream) gone() bool {
	if s.err == nil {
		s.err = s.ctx.Err()
	}
	return s.err != nil
}

// say streams text as deltas, a word at a time.
func (s *stream) say(text string) { s.speak("delta", text) }

// think streams text as thoughts.
func (s *stream) think(text string) { s.speak("thought", text) }

// speak sends a text in pieces of a word, with a pause behind each: a person sees it grow, and so do tests of what
// happens in the middle.
func (s *stream) speak(name, text string) {
	for _, piece := range pieces(text) {
		s.send(name, textFrame{Text: piece})
		s.sent++
		s.wait(s.pace.Pace)
	}
}

// pieces cuts text after its spaces; nothing is lost, and no piece is empty.
func pieces(text string) []string {
	all := strings.SplitAfter(text, " ")
	if all[len(all)-1] == "" {
		all = all[:len(all)-1]
	}
	return all
}

// wait pauses, but not for a caller that has gone.
func (s *stream) wait(d time.Duration) {
	if d <= 0 || s.gone() {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-s.ctx.Done():
	}
}

// done ends the stream; pending are the questions this call ends to wait for.
func (s *stream) done(c invocation, pending ...string) {
	in := len(strings.Fields(c.prompt()))
	s.send("done", doneFrame{Usage: usage{in, s.sent, in + s.sent}, Pending: pending})
}
