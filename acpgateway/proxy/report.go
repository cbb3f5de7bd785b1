package proxy

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"strings"

	"aqueduct/acpgateway/wire"
)

// reporter sends to the gateway what happens in one run: signals, console lines, the agent's updates. It holds no
// state of its own, so any goroutine of the run may use it; the link's outbox keeps the order of the calls.
type reporter struct {
	id      string // of the run
	link    *link
	log     *slog.Logger
	prompts *prompts
}

// signal sends a proxy_update.
func (rp *reporter) signal(s wire.Signal) bool {
	update, err := wire.NewProxyUpdate(rp.id, s)
	if err != nil {
		rp.log.Error("a signal could not be written", "kind", s.Kind(), "err", err)
		return false
	}
	return rp.link.send(rp.id, update)
}

// text sends a line for people; its prefix tells the gateway what it is: an error, the agent's console, the init
// script's output.
func (rp *reporter) text(text string) { rp.signal(&wire.Text{Text: text}) }

// update sends an acp_update, under the prompt that is under way in its session.
func (rp *reporter) update(session string, update json.RawMessage, replay bool) {
	f := &wire.ACPUpdate{RunID: rp.id, PromptID: rp.prompts.in(session), Update: update, Replay: replay}
	if session != "" {
		f.SessionID = &session
	}
	if !rp.link.send(rp.id, f) {
		rp.text(wire.PrefixError + "an update of the agent was too large and is left out")
	}
}

// step does one stage of an agent's start and reports its beginning and its end.
func (rp *reporter) step(stage string, do func() error) error {
	rp.signal(&wire.InitStep{Stage: stage, Status: stepStarted})
	if err := do(); err != nil {
		rp.signal(&wire.InitStep{Stage: stage, Status: stepFailed, Message: err.Error()})
		return err
	}
	rp.signal(&wire.InitStep{Stage: stage, Status: stepDone})
	return nil
}

// consoleLine bounds one line of a console text; a longer one comes in parts.
const consoleLine = 8 << 10

// console makes lines into texts. It waits when the outbox is full, as updates do.
func (rp *reporter) console(ctx context.Context, prefix string) func(io.Reader) {
	return func(in io.Reader) {
		lines := bufio.NewReaderSize(in, consoleLine)
		for {
			// A long line comes in parts of the buffer's size, and a part may end inside a character.
			line, err := lines.ReadSlice('\n')
			if text := strings.TrimRight(string(line), "\r\n"); text != "" {
				rp.link.out.Room(ctx)
				rp.text(prefix + strings.ToValidUTF8(text, "\uFFFD"))
			}
			if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
				return
			}
		}
	}
}
