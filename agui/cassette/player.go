// This file plays a tape as an AG-UI endpoint. It has no thread, no state and no questions of its own: what a client
// sends chooses which Run it gets and in which dialect, and nothing else.

package cassette

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"sync"
	"time"

	"aqueduct/agui"
	"aqueduct/agui/tdesign"
	"aqueduct/internal/pace"
	"aqueduct/internal/strictjson"
)

const (
	// maxBody bounds a request. Official clients send the whole history with each message, pictures included; of all that
	// only three members are read.
	maxBody = 64 << 20
	// maxThreads bounds how many threads are counted. Beyond it all of them begin anew.
	maxThreads = 1024
	// heartbeat is after how much silence a comment is sent, as a server does: a proxy cuts what is silent for longer.
	heartbeat = 15 * time.Second
	// writeTime bounds one write to a client that takes nothing.
	writeTime = 10 * time.Second
)

// Player serves a Tape as an AG-UI endpoint. The n-th POST of a thread, by the id that the client gives it, gets the
// n-th Run; behind the last one the first follows again. Nothing else of a request counts: the answer is always what
// was kept, in the dialect of the body.
type Player struct {
	tape  *Tape
	speed pace.Speed

	mu sync.Mutex
	// played is how many POSTs each thread had, by the id that its client gives it. It is all that a Player keeps: a thread
	// that is forgotten (maxThreads) begins with the first Run again.
	played map[string]int
}

// NewPlayer plays a tape at a speed.
func NewPlayer(tape *Tape, speed pace.Speed) *Player {
	return &Player{tape: tape, speed: speed, played: make(map[string]int)}
}

// body are the members of a request that choose the answer, and one by which a malformed input is known.
type body struct {
	ThreadID        string          `json:"threadId"`
	ProtocolVersion json.RawMessage `json:"protocolVersion"`
	Messages        []struct{}      `json:"messages"`
	Prompt          json.RawMessage `json:"prompt"`
	ToolCallMessage json.RawMessage `json:"toolCallMessage"`
}

// ServeHTTP implements http.Handler.
func (p *Player) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		http.Error(w, "POST a RunAgentInput", http.StatusMethodNotAllowed)
		return
	}
	raw, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		http.Error(w, "the body is too large, or was cut", http.StatusRequestEntityTooLarge)
		return
	}
	var b body
	if len(raw) > 0 && json.Unmarshal(raw, &b) != nil {
		http.Error(w, "the body must be a RunAgentInput", http.StatusBadRequest)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-cache, no-transform")
	h.Set("X-Accel-Buffering", "no")
	n := p.next(b.ThreadID)
	s := &playing{w: w, rc: http.NewResponseController(w), speed: p.speed, dialect: p.dialect(b, n)}
	if err := s.run(r.Context(), p.tape.Runs[n]); err != nil {
		// The client has left, or takes nothing. A reader must not take this for the end of the Run.
		panic(http.ErrAbortHandler)
	}
}

// next is the index of the Run that this POST gets.
func (p *Player) next(thread string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := p.played[thread]
	if n == 0 && len(p.played) == maxThreads {
		clear(p.played)
	}
	p.played[thread] = n + 1
	return n % len(p.tape.Runs)
}

// dialect is that of the body, by the rule of the server: only clients of AG-UI 1.0 name a version, and only pages of
// TDesign post a prompt. What such a page draws depends on what it was shown before, so its dialect is taken through
// the Runs in front of this one.
func (p *Player) dialect(b body, n int) agui.Dialect {
	switch {
	case strictjson.IsSet(b.ProtocolVersion):
		return agui.NewV1()
	case len(b.Prompt) == 0 && len(b.ToolCallMessage) == 0:
		return agui.NewV0()
	}
	d := tdesign.New(nil, nil, nil)
	var scratch []byte
	for _, run := range p.tape.Runs[:n] {
		for _, e := range run {
			scratch = d.AppendFrames(scratch[:0], e.Seq, e.JSON)
		}
	}
	return d
}

// playing is one answer.
type playing struct {
	w       http.ResponseWriter
	rc      *http.ResponseController
	speed   pace.Speed
	dialect agui.Dialect
	frames  []byte
}

// run sends a Run. Its first event goes out at once, whatever lay between it and the Run before.
func (s *playing) run(ctx context.Context, run Run) error {
	at := run[0].At
	for _, e := range run {
		if s.speed.Of(e.At-at) > 0 {
			if err := s.pause(ctx, e.At-at); err != nil {
				return err
			}
		}
		at = e.At
		s.frames = s.dialect.AppendFrames(s.frames, e.Seq, e.JSON)
		if len(s.frames) >= writeBytes {
			if err := s.flush(); err != nil {
				return err
			}
		}
	}
	return s.flush()
}

// writeBytes is how much is joined into one write where there are no pauses.
const writeBytes = 32 << 10

// pause sends what is ready and waits, with a comment now and then.
func (s *playing) pause(ctx context.Context, pause time.Duration) error {
	if err := s.flush(); err != nil {
		return err
	}
	beats := time.NewTicker(heartbeat)
	defer beats.Stop()
	over := time.NewTimer(s.speed.Of(pause))
	defer over.Stop()
	for {
		select {
		case <-over.C:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case <-beats.C:
			s.frames = append(s.frames, ": alive\n\n"...)
			if err := s.flush(); err != nil {
				return err
			}
		}
	}
}

// flush sends what there is.
func (s *playing) flush() error {
	if len(s.frames) == 0 {
		return nil
	}
	// A recorder of tests has no deadlines; a connection has.
	_ = s.rc.SetWriteDeadline(time.Now().Add(writeTime))
	_, err := s.w.Write(s.frames)
	s.frames = s.frames[:0]
	if err != nil {
		return err
	}
	return s.rc.Flush()
}
