package translate

import (
	"slices"
	"strings"
	"unicode"

	"aqueduct/acpgateway/wire"
)

// Known is what a log holds of a Session whose agent loads it again. The ids are the
// log's own: they stand for the agent's, so that a replayed message has the same. Leave
// it empty when nothing is loaded, as when a Turn is taken up in mid-message.
type Known struct {
	IDs map[string]bool // of messages and tool calls
	// Texts and Thoughts are the assistant's messages and thoughts, each in order, for agents
	// that give their messages no ids or new ones.
	Texts, Thoughts []string
	// Calls are the tool calls, each as its name and its arguments, for agents that give
	// replayed calls new ids.
	Calls []KnownCall
	// Users are the user's messages before the prompt, and Prompt is the prompt: an agent that
	// echoes its prompt repeats nothing.
	Users  []string
	Prompt string
}

// KnownCall is a tool call that the log holds.
type KnownCall struct {
	Name string
	Args string // JSON, as the log has it
}

// replay separates what session/load repeats from what is new. Old proxies do not mark a
// replay, and its updates carry the current prompt's id: a user's message inside a prompt
// that is not the prompt itself shows that a replay is going on.
//
// Loading a session makes the agent send its whole history again, in updates that look like new ones. Shown again, the
// chat would hold everything twice. Three things tell a repetition from news: the proxy's mark (ours sets it), an id
// that the log has, and the text itself, compared in order with what the log holds.
type replay struct {
	known    Known
	marks    bool          // the proxy marks every replay: what it does not mark is new
	marked   bool          // the proxy marked the current frames as one
	inferred bool          // a user's message came, and nothing new since
	over     bool          // what comes now is new
	texts    replayMatcher // of the messages
	thoughts replayMatcher
	users    replayMatcher
	calls    int // how many of known.Calls were repeated
	// held are chunks that an unmarked replay may repeat in pieces. They are dropped when the
	// whole message was repeated, and emitted when something else comes: a piece may also be how
	// something new begins.
	held []wire.Update
}

// live ends the replay. The ids stay known: a late update of a call that the log has must find it.
func (r *replay) live() {
	*r = replay{known: Known{IDs: r.known.IDs}, marks: r.marks, over: true, held: r.held}
}

// flags is what a snapshot has of it. When nothing is loaded there is nothing to say.
func (r *replay) flags() byte {
	switch {
	case r.none():
		return 0
	case r.inferred:
		return loading | inferred
	}
	return loading
}

const (
	loading = 1 << iota
	inferred
)

// setFlags takes over what flags gave. The log's own texts are not in a snapshot; Known has them.
func (r *replay) setFlags(flags byte) {
	r.over, r.inferred = flags&loading == 0, flags&inferred != 0
}

// going reports that what is neither message nor call is a repetition too.
func (r *replay) going() bool { return r.marked || r.inferred }

func (r *replay) has(id string) bool { return r.known.IDs[id] }

// none reports that nothing can be a repetition.
func (r *replay) none() bool {
	return r.over || r.marks && !r.marked || len(r.known.IDs)+len(r.known.Texts)+len(r.known.Thoughts) == 0
}

// user takes a user's message. The prompt itself is an echo, once all earlier messages with the
// same words have been repeated.
func (r *replay) user(text string) {
	if r.none() {
		return
	}
	r.held = nil // it follows what was held, so that was history
	switch {
	case r.users.of(r.known.Users).take(text, true) != notRepeated:
	case text != "" && text == r.known.Prompt:
		r.inferred = false
		return
	}
	r.inferred = true
}

// repeats reports whether an id of the log's comes once more.
func (r *replay) repeats(id string) bool { return !r.none() && r.known.IDs[id] }

// call reports whether a tool call repeats what the log has: the same id, or in a replay that
// is marked the next one with this name and these arguments.
func (r *replay) call(id string, same func(KnownCall) bool) bool {
	if r.repeats(id) {
		r.held = nil
		return true
	}
	if !r.none() && r.marked { // elsewhere it may as well be a call that is made once more
		for i := r.calls; i < len(r.known.Calls); i++ {
			if same(r.known.Calls[i]) {
				r.calls, r.held = i+1, nil
				return true
			}
		}
	}
	r.inferred = false
	return false
}

// repetition is what a chunk turns out to be.
type repetition uint8

const (
	notRepeated   repetition = iota // new
	repeatedPart                    // a piece of a known message
	repeatedWhole                   // the end of one
)

// message reports what a chunk repeats. The first that repeats nothing ends a replay that was
// only inferred.
// In a replay that is only inferred, a chunk may be the beginning of a known message or of a new one that starts
// alike. It is held back until that is decided.
func (r *replay) message(id string, u wire.Update, thought bool) repetition {
	if id != "" && r.repeats(id) {
		r.held = nil
		return repeatedWhole
	}
	if r.going() {
		switch found := r.text(u, thought); {
		case found == notRepeated:
		case r.marked || found == repeatedWhole:
			r.held = nil
			return repeatedWhole
		default:
			return repeatedPart
		}
	}
	r.inferred = false
	return notRepeated
}

// text compares a chunk with the messages, or thoughts, of the log.
func (r *replay) text(u wire.Update, thought bool) repetition {
	switch {
	case u.Content.Type != wire.BlockText:
		if r.marked {
			return repeatedWhole // there is nothing to compare it with
		}
		return notRepeated
	case blank(u.Content.Text):
		return repeatedPart // which message it belongs to shows with the next
	case thought:
		return r.thoughts.of(r.known.Thoughts).take(u.Content.Text, r.marked)
	}
	return r.texts.of(r.known.Texts).take(u.Content.Text, r.marked)
}

func blank(text string) bool { return strings.TrimSpace(text) == "" }

// replayMatcher compares messages with those of a log, in order and without regard to white space,
// wherever either side divides them.
// White space is left out since agents put messages together again from their parts, with other line breaks.
type replayMatcher struct {
	text   string // all of them
	starts []int  // where each begins in text
	next   int    // index of the first that was not repeated yet
	begun  string // of the one that is being repeated in pieces
}

// of reads the known messages, once.
func (rm *replayMatcher) of(known []string) *replayMatcher {
	if rm.starts == nil && len(known) > 0 {
		var all strings.Builder
		for _, text := range known {
			rm.starts = append(rm.starts, all.Len())
			all.WriteString(spaceless(text))
		}
		rm.text = all.String()
	}
	return rm
}

// spaceless is a text without white space.
func spaceless(s string) string {
	return strings.Map(func(c rune) rune {
		if unicode.IsSpace(c) {
			return -1
		}
		return c
	}, s)
}

// take compares a chunk. Each message counts once and in order, so that an agent may say the
// same again when it is live. Where the replay is certain, a message that was begun may be
// left unfinished for another.
func (rm *replayMatcher) take(chunk string, certain bool) repetition {
	if chunk = spaceless(chunk); chunk == "" {
		return notRepeated
	}
	found := rm.find(rm.begun + chunk)
	if found == notRepeated && rm.begun != "" {
		if rm.begun = ""; certain {
			found = rm.find(chunk)
		}
	}
	return found
}

// find looks for the first message, of those not repeated yet, that begins with a text. The text may reach over several
// messages: an agent may put into one what the log has in two.
func (rm *replayMatcher) find(want string) repetition {
	for i := rm.next; i < len(rm.starts); i++ {
		if !strings.HasPrefix(rm.text[rm.starts[i]:], want) {
			continue
		}
		end := rm.starts[i] + len(want)
		after, exact := slices.BinarySearch(rm.starts, end)
		if exact || end == len(rm.text) {
			rm.next, rm.begun = after, ""
			return repeatedWhole
		}
		rm.begun = want
		return repeatedPart
	}
	return notRepeated
}
