package translate_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"aqueduct/acpgateway/translate"
	"aqueduct/acpgateway/wire"
	"aqueduct/agui"
	"aqueduct/bridge/approval"
)

func feed(tr *translate.Translator, updates ...string) []translate.Out {
	var outs []translate.Out
	for _, u := range updates {
		outs = tr.Update(outs, json.RawMessage(u))
	}
	return outs
}

func call(id, more string) string {
	return `{"sessionUpdate":"tool_call","toolCallId":"` + id + `"` + more + `}`
}

// TestSameFramesSameIDs: a replica that takes over gives the ids its predecessor gave.
func TestSameFramesSameIDs(t *testing.T) {
	t.Parallel()
	run := func(namespace string) []translate.Out {
		return feed(translate.New(translate.Config{Namespace: namespace, Epoch: "1"}), call("c", `,"status":"completed"`),
			`{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"x"}}`)
	}
	if !reflect.DeepEqual(run("a"), run("a")) {
		t.Error("ids differ")
	}
	if reflect.DeepEqual(run("a"), run("b")) {
		t.Error("two Sessions share ids")
	}
}

// TestNameRule: name, else _meta toolName, else kind; our card's name is ours.
func TestNameRule(t *testing.T) {
	t.Parallel()
	for more, want := range map[string]string{
		`,"name":"n","kind":"edit","_meta":{"toolName":"m"}`: "n",
		`,"kind":"edit","_meta":{"v":{"toolName":"m"}}`:      "m",
		`,"kind":"edit","title":"request_permission"`:        "edit",
		`,"title":"t"`:                    "other",
		`,"name":"request_permission"`:    "agent.request_permission",
		`,"kind":"request_permission"`:    "agent.request_permission",
		`,"name":"agent.x","kind":"read"`: "agent.x",
	} {
		outs := feed(translate.New(translate.Config{}), call("c", more))
		if got := outs[0].Event.(*agui.ToolCallStart).ToolCallName; got != want {
			t.Errorf("%s: %s, want %s", more, got, want)
		}
	}
}

// TestSessionCreatedSetsTheIDOnlyWhenEmpty.
func TestSessionCreatedSetsTheIDOnlyWhenEmpty(t *testing.T) {
	t.Parallel()
	tr := translate.New(translate.Config{})
	const created = `{"content":{"type":"session_created"}}`
	tr.Session("one")
	first := feed(tr, created)
	tr.Session("two")
	if again := feed(tr, created); len(first) != 1 || len(again) != 0 || tr.SessionID() != "one" {
		t.Errorf("%d, %d, %s", len(first), len(again), tr.SessionID())
	}
}

// TestStateIsToldOnce: what has not changed is not sent, and what the log has is known.
func TestStateIsToldOnce(t *testing.T) {
	t.Parallel()
	const commands = `{"sessionUpdate":"available_commands_update","availableCommands":[{"name":"a"}]}`
	tr := translate.New(translate.Config{State: json.RawMessage(`{"commands": [ {"name":"a"} ]}`)})
	if outs := feed(tr, commands, commands); len(outs) != 0 {
		t.Errorf("%s", outline(t, outs))
	}
	if got := outline(t, feed(tr, `{"sessionUpdate":"current_mode_update","currentModeId":"x"}`)); got != "add/acp/modeId" {
		t.Error(got)
	}
	if got := outline(t, feed(tr, `{"sessionUpdate":"available_commands_update","availableCommands":[]}`)); got != "replace/acp/commands" {
		t.Error(got)
	}
}

// TestStateStaysSmall: a list too long costs that list and not the Turn.
func TestStateStaysSmall(t *testing.T) {
	t.Parallel()
	long := `[{"name":"` + strings.Repeat("x", 70<<10) + `"}]`
	tr := translate.New(translate.Config{})
	if got := outline(t, feed(tr, `{"sessionUpdate":"available_commands_update","availableCommands":`+long+`}`)); got != "acp.state_too_large" {
		t.Error(got)
	}
}

// TestManyCallsThatSayNothing: the grammar bounds what is open, so the arguments of the oldest are emitted.
func TestManyCallsThatSayNothing(t *testing.T) {
	t.Parallel()
	j, tr := newJudge(t), translate.New(translate.Config{})
	j.begin()
	for i := range 1500 {
		j.outs(feed(tr, call(fmt.Sprint("c", i), "")))
	}
	j.outs(tr.Close(nil))
	j.finish()
	if len(j.results) != 1500 {
		t.Errorf("%d results", len(j.results))
	}
}

// TestLargeContentIsCut: an activity stays below the size of an event.
func TestLargeContentIsCut(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("ä", 1<<20)
	outs := feed(translate.New(translate.Config{}), call("c", `,"content":[{"type":"diff","path":"p","newText":"`+text+`"}]`))
	snapshot := outs[1].Event.(*agui.ActivitySnapshot)
	if len(snapshot.Content) > 64<<10 || !strings.Contains(string(snapshot.Content), `"cut":true`) {
		t.Errorf("%d bytes", len(snapshot.Content))
	}
}

// TestRawValuesKeepTheirDigits: only ids are changed in a raw update.
func TestRawValuesKeepTheirDigits(t *testing.T) {
	t.Parallel()
	outs := feed(translate.New(translate.Config{}), `{"sessionUpdate":"notice", "n":12345678901234567890.10,"toolCallId":"UP","deep":[{"sessionId":"UP"}]}`)
	value := string(outs[0].Event.(*agui.Custom).Value)
	if !strings.HasPrefix(value, `{"sessionUpdate":"notice","n":12345678901234567890.10,`) || strings.Contains(value, "UP") {
		t.Error(value)
	}
}

// TestOptionsAnswerByKind: with the agent's own id, which no client sees.
func TestOptionsAnswerByKind(t *testing.T) {
	t.Parallel()
	outs := translate.New(translate.Config{}).Permission(nil, json.RawMessage(`{"request_id":3,"options":[
		{"optionId":"a","name":"A","kind":"allow_always"},{"optionId":"b","name":"B","kind":"allow_always"},{"optionId":"c","kind":"reject_once"}]}`))
	q := outs[len(outs)-1].Question
	if q.Answers["allow_always"] != "a" || q.Answers["allow_always#2"] != "b" || q.Options[0].Kind != wire.AllowAlways || slices.ContainsFunc(q.Options, func(o approval.Option) bool { return o.Kind == wire.AllowOnce }) || q.Options[2].Label != "reject_once" {
		t.Errorf("%+v", q.Options)
	}
}

// TestStopReasons: each is an end; those that cut an answer short say so in the chat.
func TestStopReasons(t *testing.T) {
	t.Parallel()
	for reason, want := range map[string]string{
		"end_turn": "=", "": "=", "cancelled": "=", "invented": "=",
		"refusal": "acp.stopped =", "max_tokens": "acp.stopped =", "max_turn_requests": "acp.stopped =",
	} {
		outs := translate.New(translate.Config{}).PromptEnd(nil, reason, nil)
		end := outs[len(outs)-1].End
		if got := outline(t, outs); got != want || end.Cancelled != (reason == "cancelled") || end.StopReason != reason || end.Failure != nil {
			t.Errorf("%s: %s %+v", reason, got, end)
		}
	}
}

// TestMarkedReplay: a proxy that marks a replay is believed, and new text gets through.
func TestMarkedReplay(t *testing.T) {
	t.Parallel()
	tr := translate.New(translate.Config{Known: translate.Known{Texts: []string{"old"}}})
	chunk := func(s string) string {
		return `{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"` + s + `"}}`
	}
	tr.Replay(true)
	if outs := feed(tr, chunk("old"), `{"sessionUpdate":"notice"}`); len(outs) != 0 {
		t.Error(outline(t, outs))
	}
	if outs := feed(tr, chunk("unheard")); len(outs) == 0 {
		t.Error("what the log has not is lost")
	}
	tr.Live()
	if outs := feed(tr, `{"sessionUpdate":"notice"}`, chunk("old")); len(outs) == 0 {
		t.Error("what is new is lost")
	}
}

// TestMarkedReplayInPieces: an agent without ids may repeat its messages as it sent them
// first, piece by piece.
func TestMarkedReplayInPieces(t *testing.T) {
	t.Parallel()
	chunk := func(s string) string {
		return `{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"` + s + `"}}`
	}
	tr := translate.New(translate.Config{Known: translate.Known{Texts: []string{"hello world", "hello again"}}})
	tr.Replay(true)
	if outs := feed(tr, chunk("hello "), chunk("wor"), chunk("ld"), chunk("hello "), chunk("again")); len(outs) != 0 {
		t.Error(outline(t, outs))
	}
	if outs := feed(tr, chunk("hello ")); len(outs) == 0 {
		t.Error("what the log has not is lost")
	}
}

// TestMarkedReplayIsOver: after what is marked all is new, also under an id that the agent's
// earlier process gave.
func TestMarkedReplayIsOver(t *testing.T) {
	t.Parallel()
	chunk := func(s string) string {
		return `{"sessionUpdate":"agent_message_chunk","messageId":"m1","content":{"type":"text","text":"` + s + `"}}`
	}
	said := feed(translate.New(translate.Config{Namespace: "n"}), chunk("old"))
	id := said[0].Event.(*agui.TextMessageStart).MessageID
	tr := translate.New(translate.Config{Namespace: "n", Known: translate.Known{IDs: map[string]bool{id: true}, Texts: []string{"old"}}})
	tr.Replay(true)
	if outs := feed(tr, chunk("old")); len(outs) != 0 {
		t.Error(outline(t, outs))
	}
	tr.Replay(false)
	outs := feed(tr, chunk("new"))
	if len(outs) == 0 {
		t.Fatal("what is new is lost")
	}
	if again := outs[0].Event.(*agui.TextMessageStart).MessageID; again == id {
		t.Errorf("%s is given twice", id)
	}
}

// TestMarkedReplayEndsItsMessage: what a replay sent and the log had not is a message of its
// own, also where the agent gives no ids.
func TestMarkedReplayEndsItsMessage(t *testing.T) {
	t.Parallel()
	chunk := func(s string) string {
		return `{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"` + s + `"}}`
	}
	tr := translate.New(translate.Config{Known: translate.Known{Texts: []string{"old"}}})
	tr.Replay(true)
	feed(tr, chunk("unheard"))
	tr.Replay(false)
	if outs := feed(tr, chunk("new")); len(outs) != 3 { // an end, a start, the words
		t.Errorf("the new words go on with the old: %v", outline(t, outs))
	}
}
