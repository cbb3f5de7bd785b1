package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"aqueduct/agui"
	"aqueduct/bridge"
	"aqueduct/bridge/approval"
)

// browser is one with a cookie jar of its own, showing a TDesign page.
type browser struct {
	h      *env
	cookie string
}

// post sends a body as TDesign's engine does.
func (b *browser) post(body string, header ...string) []frame {
	b.h.t.Helper()
	return b.postTo("/api/agui/chat", body, header...)
}

func (b *browser) postTo(path, body string, header ...string) []frame {
	b.h.t.Helper()
	req := b.h.request("POST", path, body, append([]string{
		"Accept", "text/event-stream", "Cache-Control", "no-cache", "Sec-Fetch-Mode", "cors", "Content-Type", "application/json, application/json",
	}, header...)...)
	if b.cookie != "" {
		req.Header.Set("Cookie", b.cookie)
	}
	r := b.h.open(req)
	if set := r.resp.Header.Get("Set-Cookie"); set != "" {
		if !strings.Contains(set, "HttpOnly") || !strings.Contains(set, "SameSite=Strict") {
			b.h.t.Errorf("cookie: %s", set)
		}
		b.cookie, _, _ = strings.Cut(set, ";")
	}
	return r.rest()
}

// thread is the one that a stream is of.
func thread(frames []frame) string { return typed(frames, "RUN_STARTED").field("threadId") }

// text is the text of the answer.
func text(frames []frame) string {
	var s string
	for _, f := range frames {
		if f.typ() == "TEXT_MESSAGE_CONTENT" {
			s += f.field("delta")
		}
	}
	return s
}

// TestTDesignPrompt: a page sends a prompt and a constant; its browser is its thread.
func TestTDesignPrompt(t *testing.T) {
	t.Parallel()
	h := newEnv(t, saysN(1))
	one, two := &browser{h: h}, &browser{h: h}
	first := one.post(`{"uid":"agent_uid","prompt":"hi"}`)
	if types(first) != "RUN_STARTED TEXT_MESSAGE_START TEXT_MESSAGE_CONTENT TEXT_MESSAGE_END RUN_FINISHED" {
		t.Errorf("%s", types(first))
	}
	if other := two.post(`{"uid":"agent_uid","prompt":"hi"}`); thread(other) == thread(first) {
		t.Error("two browsers with one uid share a thread")
	}
	if again := one.post(`{"uid":"agent_uid","prompt":"more"}`); thread(again) != thread(first) {
		t.Error("one browser has two threads")
	}
	if n := len(h.agent.last().Messages); n != 3 {
		t.Errorf("the agent was given %d messages, not the history", n)
	}
	if got := thread(one.post(`{"prompt":"x","threadId":"mine"}`)); got != "mine" {
		t.Errorf("a thread in the body: %s", got)
	}
	if got := thread(one.post(`{"prompt":"x"}`, "X-Thread-Id", "mine2")); got != "mine2" {
		t.Errorf("a thread in a header: %s", got)
	}
	if got := one.post(`{"prompt":"x"}`, "Cookie", "aqueduct_browser=guess"); strings.Contains(thread(got), "guess") {
		t.Errorf("a made-up cookie: %s", thread(got))
	}
}

// TestTDesignCookieIsSecret: the thread's id, which everybody sees, is not the cookie.
func TestTDesignCookieIsSecret(t *testing.T) {
	t.Parallel()
	h := newEnv(t, saysN(1))
	b := &browser{h: h}
	id := thread(b.post(`{"prompt":"hi"}`))
	_, secret, _ := strings.Cut(b.cookie, "=")
	if strings.Contains(id, secret) || strings.Contains(secret, strings.TrimPrefix(id, "browser-")) {
		t.Errorf("thread %s, cookie %s", id, secret)
	}
}

// TestTDesignEmptyBody is a page without onRequest: the error is for its builder.
func TestTDesignEmptyBody(t *testing.T) {
	t.Parallel()
	h := newEnv(t, saysN(1))
	b := &browser{h: h}
	b.post(`{"prompt":"hi"}`) // so there is a thread of this browser
	for _, body := range []string{"", "  ", `{}`, `{"uid":"u"}`, `{"prompt":""}`, `{"prompt":null}`, `{"prompt":"  "}`} {
		frames := b.post(body)
		if len(frames) != 1 || frames[0].typ() != "RUN_ERROR" || !strings.Contains(frames[0].field("message"), "onRequest") || frames[0].id != "" {
			t.Errorf("%q: %v", body, frames)
		}
	}
}

// TestTDesignErrorsAreWords: any other answer leaves the bubble spinning.
func TestTDesignErrorsAreWords(t *testing.T) {
	t.Parallel()
	h := newEnv(t, saysN(1))
	b := &browser{h: h}
	for path, body := range map[string]string{
		"/api/agui/chat?agent=nobody": `{"prompt":"hi"}`, "/api/agui/chat?1": `{"prompt":7}`,
		"/api/agui/chat?2": `{"prompt":"hi","threadId":"a\nb"}`, "/api/agui/chat?3": `{"toolCallMessage":5}`,
		"/api/agui/chat?4": `{"messages":[{"id":"u","role":"king","content":"x"}]}`,
	} {
		frames := b.postTo(path, body)
		if len(frames) != 1 || frames[0].typ() != "RUN_ERROR" || frames[0].field("message") == "" || frames[0].field("code") == "" {
			t.Errorf("%s %s: %v", path, body, frames)
		}
	}
	if h.threads() != 0 {
		t.Error("something was stored")
	}
}

// TestTDesignBusy: a RUN_ERROR would mark every later answer of the page as failed.
func TestTDesignBusy(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	h := newEnv(t, waits(gate))
	b := &browser{h: h}
	r := h.open(h.request("POST", "/api/agui/chat", `{"prompt":"hi"}`, "Cache-Control", "no-cache"))
	b.cookie, _, _ = strings.Cut(r.resp.Header.Get("Set-Cookie"), ";")
	frames := b.post(`{"prompt":"more"}`)
	if types(frames) != "RUN_STARTED TEXT_MESSAGE_START TEXT_MESSAGE_CONTENT TEXT_MESSAGE_END RUN_FINISHED" || text(frames) == "" {
		t.Errorf("%v", frames)
	}
	close(gate)
	r.rest()
}

// twoCards asks two questions at once.
func twoCards(ctx context.Context, say func(...bridge.Output), call bridge.Call, answers []approval.Delivery) {
	if len(answers) == 0 {
		say(permission("q1"), permission("q2"))
		return
	}
	asks(ctx, say, call, answers)
}

// card is the permission that a stream shows.
func card(t *testing.T, frames []frame) (id string, options []string) {
	t.Helper()
	var args string
	for _, f := range frames {
		switch f.typ() {
		case "TOOL_CALL_START":
			id, args = f.field("toolCallId"), ""
		case "TOOL_CALL_ARGS":
			args += f.field("delta")
		}
	}
	var shown struct{ Options []struct{ ID, Kind string } }
	if err := json.Unmarshal([]byte(args), &shown); err != nil {
		t.Fatalf("%v in %v", err, frames)
	}
	for _, o := range shown.Options {
		options = append(options, o.ID)
	}
	return id, options
}

// pageOption is the id of a card's option on a page.
func pageOption(card string, n int) string { return approval.OptionIDs{}.ID(card, n) }

// answerBody is what documented pages send: the result as JSON in a string.
func answerBody(toolCallID, option string) string {
	result, _ := json.Marshal(map[string]string{"optionId": option})
	id := ""
	if toolCallID != "" {
		id = fmt.Sprintf(`"toolCallId":%q,`, toolCallID)
	}
	return fmt.Sprintf(`{"uid":"u","toolCallMessage":{%s"toolCallName":"request_permission","result":%q}}`, id, result)
}

// TestTDesignAnswers: the answer is a POST of its own and is streamed on.
func TestTDesignAnswers(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]func(id string, options []string) string{
		"with its id":   func(id string, o []string) string { return answerBody(id, o[0]) },
		"without an id": func(_ string, o []string) string { return answerBody("", o[0]) },
		"the bare option": func(id string, o []string) string {
			return fmt.Sprintf(`{"toolCallMessage":{"toolCallId":%q,"result":%q}}`, id, o[0])
		},
		"as an object": func(id string, o []string) string {
			return fmt.Sprintf(`{"toolCallMessage":{"toolCallId":%q,"result":{"choice":%q}}}`, id, o[0])
		},
		"as ACP has it": func(id string, o []string) string {
			return fmt.Sprintf(`{"toolCallMessage":{"toolCallId":%q,"result":"{\"outcome\":{\"outcome\":\"selected\",\"optionId\":\"%s\"}}"}}`, id, o[0])
		},
		"with a prompt": func(id string, o []string) string {
			return strings.Replace(answerBody(id, o[0]), `{"uid":"u",`, `{"prompt":"",`, 1)
		},
		"in forwardedProps": func(id string, o []string) string {
			return `{"messages":[],"forwardedProps":` + answerBody(id, o[0]) + `}`
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newEnv(t, asks)
			b := &browser{h: h}
			asked := b.post(`{"prompt":"may I?"}`)
			id, options := card(t, asked)
			if options[0] != pageOption(id, 0) || options[2] != pageOption(id, 2) {
				t.Fatalf("options %v of %s", options, id)
			}
			got := b.post(answer(id, options))
			if !strings.Contains(text(got), `"optionId":"yes"`) && !strings.Contains(text(got), "yes") || thread(got) != thread(asked) {
				t.Errorf("%v", got)
			}
		})
	}
}

// TestTDesignAnswerFromElsewhere: a page that names its thread in prompts only is found by
// its question.
func TestTDesignAnswerFromElsewhere(t *testing.T) {
	t.Parallel()
	h := newEnv(t, asks)
	b := &browser{h: h}
	b.post(`{"prompt":"hi"}`)
	asked := b.post(`{"prompt":"may I?","threadId":"other"}`)
	id, options := card(t, asked)
	if got := b.post(answerBody(id, options[0])); thread(got) != "other" || !strings.Contains(text(got), "yes") {
		t.Errorf("%v", got)
	}
}

// TestTDesignOptionDecides: of a page that lost the id of the card, the option says which of two it answered.
func TestTDesignOptionDecides(t *testing.T) {
	t.Parallel()
	h := newEnv(t, twoCards)
	b := &browser{h: h}
	b.post(`{"prompt":"may I?","threadId":"T"}`)
	open := h.questions()
	if len(open) != 2 {
		t.Fatalf("%v", open)
	}
	b.post(strings.Replace(answerBody("", pageOption(open[1], 2)), "{", `{"threadId":"T",`, 1))
	if left := h.questions(); len(left) != 1 || left[0] != open[0] {
		t.Errorf("open: %v, left: %v", open, left)
	}
}

// TestTDesignRepeats: an answer again, and an answer to no open question, are short runs.
func TestTDesignRepeats(t *testing.T) {
	t.Parallel()
	h := newEnv(t, asks)
	b := &browser{h: h}
	id, options := card(t, b.post(`{"prompt":"may I?"}`))
	b.post(answerBody(id, options[0]))
	for _, body := range []string{answerBody(id, options[0]), answerBody(id, options[2]), answerBody("progress_card", ""), answerBody("", "")} {
		frames := b.post(body)
		if frames[0].typ() != "RUN_STARTED" || frames[len(frames)-1].typ() != "RUN_FINISHED" {
			t.Errorf("%s: %s", body, types(frames))
		}
	}
}

// TestTDesignPromptWhileAsked: a sentence, and the card again.
func TestTDesignPromptWhileAsked(t *testing.T) {
	t.Parallel()
	h := newEnv(t, asks)
	b := &browser{h: h}
	id, _ := card(t, b.post(`{"prompt":"may I?"}`))
	frames := b.post(`{"prompt":"hello?"}`)
	again, options := card(t, frames)
	if again != id || options[0] != pageOption(id, 0) || text(frames) == "" {
		t.Errorf("%v", frames)
	}
}

// TestTDesignReload: the history leaves out what the stream of the running Run sends.
func TestTDesignReload(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	h := newEnv(t, func(ctx context.Context, say func(...bridge.Output), call bridge.Call, answers []approval.Delivery) {
		if len(call.Messages) > 1 {
			waits(gate)(ctx, say, call, answers)
			return
		}
		say(event(&agui.ReasoningMessageStart{MessageID: "r"}),
			event(&agui.ReasoningMessageContent{MessageID: "r", Delta: "let me think"}),
			event(&agui.ReasoningMessageEnd{MessageID: "r"}))
		saysN(2)(ctx, say, call, answers)
	})
	b := &browser{h: h}
	b.post(`{"prompt":"one"}`)
	running := h.open(h.request("POST", "/api/agui/chat", `{"prompt":"two"}`, "Cookie", b.cookie))
	if _, err := running.until(func(f frame) bool { return f.typ() == "TEXT_MESSAGE_CONTENT" }); err != nil {
		t.Fatal(err)
	}
	var history []map[string]any
	got := h.do("GET", "/api/threads/@browser/messages", "", "Cookie", b.cookie)
	if err := json.Unmarshal([]byte(got.body), &history); err != nil || got.status != http.StatusOK {
		t.Fatalf("%d %s", got.status, got.body)
	}
	var said []string
	for _, m := range history {
		said = append(said, fmt.Sprint(m["role"], ":", m["content"], ":", m["reasoningContent"]))
	}
	if want := "user:one:<nil>|assistant:0 <é&> 1 <é&> :let me think|user:two:<nil>"; strings.Join(said, "|") != want {
		t.Errorf("%q", said)
	}
	joined := h.open(h.request("POST", "/api/agui/connect", "", "Cookie", b.cookie, "Content-Type", "application/json"))
	close(gate)
	if replay := joined.rest(); types(replay) != "RUN_STARTED TEXT_MESSAGE_START TEXT_MESSAGE_CONTENT TEXT_MESSAGE_END RUN_FINISHED" || text(replay) != "0 <é&> " {
		t.Errorf("%v", replay)
	}
}

// TestTDesignConnectToNothing: a page that looks for a running answer when it loads must
// not get an error for there being none.
func TestTDesignConnectToNothing(t *testing.T) {
	t.Parallel()
	h := newEnv(t, saysN(1))
	b := &browser{h: h}
	if frames := b.postTo("/api/agui/connect", ""); types(frames) != "RUN_STARTED RUN_FINISHED" {
		t.Errorf("%v", frames)
	}
	if b.cookie != "" || h.threads() != 0 {
		t.Error("looking made something")
	}
}

// TestDialects: who gets what.
func TestDialects(t *testing.T) {
	t.Parallel()
	h := newEnv(t, func(_ context.Context, say func(...bridge.Output), _ bridge.Call, _ []approval.Delivery) {
		say(event(&agui.ReasoningMessageStart{MessageID: "r"}),
			event(&agui.ReasoningMessageContent{MessageID: "r", Delta: "hm"}), event(&agui.ReasoningMessageEnd{MessageID: "r"}))
	})
	const messages = `"messages":[{"id":"u1","role":"user","content":"hi"}]`
	cache, fetched := []string{"Cache-Control", "no-cache"}, []string{"Sec-Fetch-Mode", "cors"}
	engine := slices.Concat(cache, fetched)
	for name, c := range map[string]struct {
		query, body string
		header      []string
		tdesign     bool
	}{
		"official 1.0":                         {"", `{"protocolVersion":"1.0",` + messages + `}`, nil, false},
		"official 1.0, cache disabled":         {"", `{"protocolVersion":"1.0",` + messages + `}`, engine, false},
		"official 0.x":                         {"", `{` + messages + `}`, nil, false},
		"official 0.x in a browser":            {"", `{` + messages + `}`, fetched, false},
		"0.x in a browser, cache disabled":     {"", `{` + messages + `}`, slices.Concat(engine, []string{"Pragma", "no-cache"}), false},
		"the community's Go, Dart, C++ client": {"", `{` + messages + `}`, cache, false},
		"a page's own RunAgentInput":           {"", `{` + messages + `}`, engine, true},
		"a prompt":                             {"", `{"prompt":"hi"}`, engine, true},
		"a prompt by curl":                     {"", `{"prompt":"hi"}`, nil, true},
		"a prompt, but 1.0 wanted":             {"?dialect=agui-1.0", `{"prompt":"hi"}`, nil, false},
		"1.0, but a page":                      {"?dialect=tdesign", `{"protocolVersion":"1.0",` + messages + `}`, nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			frames := h.open(h.request("POST", "/api/agui/chat"+c.query, c.body, c.header...)).rest()
			if thinks := strings.Contains(types(frames), "THINKING"); thinks != c.tdesign {
				t.Errorf("%s", types(frames))
			}
		})
	}
}
