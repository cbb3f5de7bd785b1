package translate_test

import (
	"encoding/json"
	"strings"
	"testing"

	"aqueduct/acpgateway/translate"
	"aqueduct/agui"
)

func chunkOf(who, text string) string {
	quoted, _ := json.Marshal(text)
	return `{"sessionUpdate":"` + who + `_chunk","content":{"type":"text","text":` + string(quoted) + `}}`
}

func user(text string) string   { return chunkOf("user_message", text) }
func says(text string) string   { return chunkOf("agent_message", text) }
func thinks(text string) string { return chunkOf("agent_thought", text) }
func pieces(text string) []string { // as a model streams it
	var list []string
	for _, word := range strings.SplitAfter(text, " ") {
		list = append(list, says(word))
	}
	return list
}

// spoken are the words that outs add to the chat.
func spoken(outs []translate.Out) string {
	var b strings.Builder
	for _, o := range outs {
		switch e := o.Event.(type) {
		case *agui.TextMessageContent:
			b.WriteString(e.Delta)
		case *agui.ReasoningMessageContent:
			b.WriteString("(" + e.Delta + ")")
		}
	}
	return b.String()
}

// earlier is a log of two exchanges.
func earlier() translate.Known {
	return translate.Known{
		IDs:   map[string]bool{"a message of the log": true},
		Texts: []string{"I look at the file first.", "It is about ducks.", "I have nothing else to say."}, Thoughts: []string{"**Plan**\nread it"},
		Users: []string{"what is in it?", "and else?"}, Prompt: "go on",
	}
}

// replayed is what gemini sends after session/load, in the pieces of an agent that streams what it
// repeats.
func replayed() []string {
	all := []string{user("what is in it?"), thinks("**Plan**\n"), thinks("read it")}
	all = append(all, pieces("I look at the file first.")...)
	all = append(all, call("c-old", `,"status":"completed"`))
	all = append(all, pieces("It is about ducks.")...)
	all = append(all, user("and else?"))
	return append(all, pieces("I have nothing else to say.")...)
}

// TestUnmarkedReplayInPieces: an old proxy passes a replay on under the prompt's id without a
// mark, and an agent without ids repeats its messages in pieces: nothing is doubled, and what is
// new is whole.
func TestUnmarkedReplayInPieces(t *testing.T) {
	t.Parallel()
	for name, live := range map[string][]string{
		"another answer":                   pieces("Here is more."),
		"begins like an old one":           pieces("It is about geese."),
		"all of it begins an old one":      pieces("I look at the"),
		"the same as an old one":           pieces("It is about ducks."),
		"after an echo of the prompt":      append([]string{user("go on")}, pieces("Of course.")...),
		"a thought first":                  append([]string{thinks("well ")}, pieces("Of course.")...),
		"in one piece":                     {says("I have nothing else to say. But this.")},
		"an echo, and the same old answer": append([]string{user("go on")}, pieces("I have nothing else to say.")...),
	} {
		known := earlier()
		tr := translate.New(translate.Config{Namespace: "n", Known: known})
		// The id of the tool call is known, as the log has it.
		for _, o := range feed(translate.New(translate.Config{Namespace: "n"}), call("c-old", "")) {
			if start, ok := o.Event.(*agui.ToolCallStart); ok {
				known.IDs[start.ToolCallID] = true
			}
		}
		if outs := feed(tr, replayed()...); len(outs) != 0 {
			t.Errorf("%s: doubled: %s", name, outline(t, outs))
		}
		outs := feed(tr, live...)
		outs = tr.PromptEnd(outs, "end_turn", nil)
		want := spoken(feed(translate.New(translate.Config{}), live...))
		if got := spoken(outs); got != want {
			t.Errorf("%s: the chat has %q, want %q", name, got, want)
		}
	}
}

// TestHeldWordsAreNotCounted: as long as words are held back they must not count as
// kept.
func TestHeldWordsAreNotCounted(t *testing.T) {
	t.Parallel()
	tr := translate.New(translate.Config{Known: earlier()})
	feed(tr, user("what is in it?"), says("It is "))
	if !tr.Holding() {
		t.Error("half a message of the log is not held back")
	}
	if outs := feed(tr, says("late.")); tr.Holding() || spoken(outs) != "It is late." {
		t.Errorf("%q", spoken(outs))
	}
}

// TestMarkedReplayInOtherParts: an agent may repeat in one piece what it sent in several
// messages, with other white space, and with a call under a new id.
func TestMarkedReplayInOtherParts(t *testing.T) {
	t.Parallel()
	known := earlier()
	known.Calls = []translate.KnownCall{{Name: "read", Args: `{"path": "a"}`}, {Name: "read", Args: `{"path":"b"}`}}
	tr := translate.New(translate.Config{Known: known})
	tr.Replay(true)
	outs := feed(tr, says("I look at the file first.\n\nIt is about ducks."), thinks("**Plan**\n\nread"), thinks(" it\n"),
		call("new-1", `,"kind":"read","status":"completed","rawInput":{"path":"b"}`), says("\n"))
	if len(outs) != 0 {
		t.Errorf("doubled: %s", outline(t, outs))
	}
	if outs := feed(tr, call("new-2", `,"kind":"read","status":"completed","rawInput":{"path":"b"}`)); len(outs) == 0 {
		t.Error("a second call of the same is lost")
	}
}

// TestAProxyThatMarksIsBelieved: what it does not mark is new, under whatever id and in whatever
// words.
func TestAProxyThatMarksIsBelieved(t *testing.T) {
	t.Parallel()
	tr := translate.New(translate.Config{Known: earlier(), MarksReplay: true})
	if got := spoken(feed(tr, user("go on"), says("It is about ducks."))); got != "It is about ducks." {
		t.Errorf("%q", got)
	}
	tr = translate.New(translate.Config{Known: earlier(), MarksReplay: true})
	tr.Replay(true)
	if outs := feed(tr, replayed()[1:8]...); len(outs) != 0 {
		t.Errorf("doubled: %s", outline(t, outs))
	}
}
