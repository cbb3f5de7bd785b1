package fromacp

import (
	"strings"

	"aqueduct/acpgateway/acp"
)

// Known is what a log holds of a Session whose agent loads it again. The ids are the
// log's own: they stand for the agent's, so that a replayed message has the same. Leave
// it empty when nothing is loaded, as when a Turn is taken up in mid-message.
type Known struct {
	IDs map[string]bool // of messages and tool calls
	// Texts are the assistant's messages and thoughts in order, for agents that give
	// their messages no ids. Most replay each as one chunk.
	Texts []string
}

// replay tells what session/load repeats from what is new. Old proxies do not mark a
// replay, and its updates carry the current prompt's id: a user's message inside a
// prompt gives it away.
type replay struct {
	known    Known
	marked   bool   // the proxy says so
	supposed bool   // a user's message was heard, and nothing new since
	over     bool   // what comes now is new
	rest     string // of the known text that is being told in pieces
}

func newReplay(known Known) replay { return replay{known: known} }

// Replay is told when a proxy marks what follows as replayed, and when no longer. After that
// all is new, also under an id that an agent's earlier process gave.
func (t *Translator) Replay(on bool) {
	if t.replay.marked && !on {
		t.replay.live()
		t.speech.loaded = true
	}
	t.replay.marked = on
}

// Live says that whatever was to be loaded has been: nothing is a repetition any more.
func (t *Translator) Live() { t.replay.live() }

func (r *replay) live() {
	r.marked, r.supposed, r.over, r.known.Texts, r.rest = false, false, true, nil, ""
}

// flags is what a snapshot has of it. When nothing is loaded there is nothing to say.
func (r *replay) flags() byte {
	switch {
	case r.none():
		return 0
	case r.supposed:
		return loading | supposed
	}
	return loading
}

const (
	loading = 1 << iota
	supposed
)

func (r *replay) setFlags(flags byte) {
	r.over, r.supposed = flags&loading == 0, flags&supposed != 0
}

// going tells that what is neither message nor call is a repetition too.
func (r *replay) going() bool { return r.marked || r.supposed }

func (r *replay) has(id string) bool { return r.known.IDs[id] }

// none tells that nothing can be a repetition.
func (r *replay) none() bool { return r.over || len(r.known.IDs)+len(r.known.Texts)+len(r.rest) == 0 }

// user hears a user's message: where nothing is known it is an echo of the prompt.
func (r *replay) user() { r.supposed = !r.none() }

// repeats tells whether an id of the log's is told once more.
func (r *replay) repeats(id string) bool { return !r.over && r.known.IDs[id] }

// call tells whether a tool call repeats what the log has.
func (r *replay) call(id string) bool {
	if r.repeats(id) {
		return true
	}
	r.supposed = false
	return false
}

// message tells whether a chunk repeats what the log has. The first that does not ends a
// replay that was only supposed.
func (r *replay) message(id string, u acp.Update) bool {
	if id != "" && r.repeats(id) {
		return true
	}
	if id == "" && r.going() && r.text(u.Content.Text) {
		return true
	}
	r.supposed = false
	return false
}

// text takes the next known message with this text. Each counts once and in order, so
// that an agent may say the same again when it is live. In pieces it may come only where the
// proxy marks the replay: elsewhere a piece may be how something new begins.
func (r *replay) text(s string) bool {
	if rest, ok := strings.CutPrefix(r.rest, s); ok && r.marked {
		r.rest = rest
		return true
	}
	for i, known := range r.known.Texts {
		if rest, ok := strings.CutPrefix(known, s); ok && (rest == "" || r.marked) {
			r.known.Texts, r.rest = r.known.Texts[i+1:], rest
			return true
		}
	}
	return false
}
