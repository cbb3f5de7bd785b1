package server_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"aqueduct/agui"
	"aqueduct/bridge"
	"aqueduct/bridge/approval"
	"aqueduct/server/limit"
)

// thinksAndAsks emits reasoning and text, and asks if the prompt is "ask". After the answer it emits them again under other
// ids.
func thinksAndAsks(ctx context.Context, say func(...bridge.Output), call bridge.Call, answers []approval.Delivery) {
	name := fmt.Sprintf("m%s-%d", call.TurnID, len(answers))
	say(event(&agui.ReasoningMessageStart{MessageID: "r" + name}),
		event(&agui.ReasoningMessageContent{MessageID: "r" + name, Delta: "20"}),
		event(&agui.ReasoningMessageContent{MessageID: "r" + name, Delta: " or 26"}),
		event(&agui.ReasoningMessageEnd{MessageID: "r" + name}))
	say(texts(name, "One. Two. Three.")...)
	if call.Input().Content.String() == "ask" && len(answers) == 0 {
		say(permission("q1"))
	}
}

// repost is one POST that a client makes again when its line is cut.
type repost struct {
	before func(h *env, b *browser) (body string) // makes the thread before it; nil: body alone
	body   string
	path   string // "" is /api/agui/chat
	page   bool   // sent by a TDesign page
}

func (p repost) request(h *env, b *browser, after string) *http.Request {
	h.t.Helper()
	var header []string
	if after != "" {
		header = []string{"Last-Event-ID", after}
	}
	if p.page {
		header = append(header, "Cache-Control", "no-cache", "Sec-Fetch-Mode", "cors", "Cookie", b.cookie)
	}
	return h.request("POST", "/api/agui/chat"+p.path, p.body, header...)
}

// send posts and reads the whole answer.
func (p repost) send(h *env, b *browser, after string) []frame {
	h.t.Helper()
	r := h.open(p.request(h, b, after))
	if set := r.resp.Header.Get("Set-Cookie"); set != "" {
		b.cookie, _, _ = strings.Cut(set, ";")
	}
	return r.rest()
}

const (
	input1 = `{"threadId":"T","protocolVersion":"1.0","messages":[%s]%s}`
	input0 = `{"threadId":"T","messages":[%s],"tools":[],"context":[],"state":{}%s}`
	hiUser = `{"id":"u1","role":"user","content":"hi"}`
	toAsk  = `{"id":"u1","role":"user","content":"ask"}`
)

// asksFirstly asks in thread T, and returns the question's id.
func asksFirstly(h *env, _ *browser) string {
	h.open(h.request("POST", "/api/agui/chat", fmt.Sprintf(input1, toAsk, ""))).rest()
	return h.question()
}

// reposts are the roads by which a client posts.
func reposts() map[string]repost {
	answered := func(form string) func(*env, *browser) string {
		return func(h *env, b *browser) string { return strings.ReplaceAll(form, "QID", asksFirstly(h, b)) }
	}
	said := func(body string) func(*env, *browser) string {
		return func(h *env, _ *browser) string {
			h.open(h.request("POST", "/api/agui/chat", fmt.Sprintf(input1, hiUser, ""))).rest()
			return body
		}
	}
	resume := `,"resume":[{"interruptId":"QID","status":"resolved","payload":{"approved":true}}]`
	return map[string]repost{
		"1.0":                       {body: fmt.Sprintf(input1, hiUser, "")},
		"1.0, runId":                {body: fmt.Sprintf(input1, hiUser, `,"runId":"R"`)},
		"0.x":                       {body: fmt.Sprintf(input0, hiUser, "")},
		"0.x, runId":                {body: fmt.Sprintf(input0, hiUser, `,"runId":"R"`)},
		"a run that asked":          {body: fmt.Sprintf(input1, toAsk, "")},
		"a run that asked, 0.x":     {body: fmt.Sprintf(input0, toAsk, `,"runId":"R"`)},
		"no thread, runId":          {body: `{"protocolVersion":"1.0","runId":"R","messages":[` + hiUser + `]}`},
		"no thread":                 {body: `{"protocolVersion":"1.0","messages":[` + hiUser + `]}`},
		"page":                      {body: `{"prompt":"hi","uid":"u"}`, page: true},
		"page, thread":              {body: `{"prompt":"hi","threadId":"T"}`, page: true},
		"page, not regenerate":      {body: `{"prompt":"hi","threadId":"T","regenerate":false}`, page: true},
		"page that asked":           {body: `{"prompt":"ask","threadId":"T"}`, page: true},
		"second message":            {before: said(fmt.Sprintf(input1, hiUser+`,{"id":"u2","role":"user","content":"more"}`, ""))},
		"second message alone":      {before: said(fmt.Sprintf(input1, `{"id":"u2","role":"user","content":"more"}`, ""))},
		"second prompt of a page":   {before: said(`{"prompt":"more","threadId":"T"}`), page: true},
		"regenerate":                {before: said(fmt.Sprintf(input1, hiUser, ""))},
		"edit":                      {before: said(fmt.Sprintf(input1, `{"id":"u1","role":"user","content":"changed"}`, ""))},
		"resume":                    {before: answered(fmt.Sprintf(input1, toAsk, resume))},
		"resume, runId":             {before: answered(fmt.Sprintf(input1, toAsk, resume+`,"runId":"R2"`))},
		"resume, no messages":       {before: answered(fmt.Sprintf(input1, "", resume))},
		"tool message":              {before: answered(fmt.Sprintf(input0, toAsk+`,{"id":"t1","role":"tool","toolCallId":"QID","content":"{\"approved\":true}"}`, ""))},
		"answer and a message":      {before: answered(fmt.Sprintf(input1, toAsk+`,{"id":"u2","role":"user","content":"more"}`, resume))},
		"card of a page":            {before: answered(`{"threadId":"T","toolCallMessage":{"toolCallId":"QID","result":"{\"approved\":true}"}}`), page: true},
		"card of a page, no thread": {before: answered(`{"prompt":"","toolCallMessage":{"toolCallId":"QID","result":"{\"approved\":true}"}}`), page: true},
	}
}

// TestPostWithLastEventID checks a POST that a client makes again with the last id that it has. At every position it is
// continued after that position. The agent is asked once, and no event is shown twice or left out.
func TestPostWithLastEventID(t *testing.T) {
	t.Parallel()
	for name, p := range reposts() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newEnv(t, thinksAndAsks)
			b := &browser{h: h}
			if p.before != nil {
				p.body = p.before(h, b)
			}
			whole := p.send(h, b, "")
			asked, threads := len(h.agent.prompts()), h.threads()
			for k, f := range whole {
				if f.id == "" { // a page gets several frames of some events, the id with the last
					continue
				}
				rest := p.send(h, b, f.id)
				if got, want := chained([32]byte{}, rest), chained([32]byte{}, whole[k+1:]); got != want {
					t.Fatalf("after %s of %s: %s\n%v", f.id, types(whole), types(rest), rest)
				}
			}
			if n := len(h.agent.prompts()); n != asked || h.threads() != threads {
				t.Errorf("the agent was asked %d times, not %d; there are %d threads, not %d", n, asked, h.threads(), threads)
			}
		})
	}
}

// TestPostWithLastEventIDWhileItRuns checks the same while the agent speaks. The client gets the events that are still to come.
// A client that left in the middle of an answer does not stop that answer by coming back.
func TestPostWithLastEventIDWhileItRuns(t *testing.T) {
	t.Parallel()
	for name, p := range reposts() {
		if p.before != nil {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			steps := make(chan struct{}, 1000)
			h := newEnv(t, func(ctx context.Context, say func(...bridge.Output), call bridge.Call, answers []approval.Delivery) {
				thinksAndAsks(ctx, func(all ...bridge.Output) {
					for _, one := range all {
						select {
						case <-steps:
						case <-ctx.Done():
						}
						say(one)
					}
				}, call, answers)
			})
			b := &browser{h: h}
			var got []frame
			last := ""
			for len(got) == 0 || got[len(got)-1].typ() != "RUN_FINISHED" {
				r := h.open(p.request(h, b, last))
				if set := r.resp.Header.Get("Set-Cookie"); set != "" {
					b.cookie, _, _ = strings.Cut(set, ";")
				}
				part, err := r.until(func(f frame) bool { return f.id != "" })
				r.close()
				if err != nil {
					t.Fatalf("after %q of %s: %v", last, types(got), err)
				}
				got = append(got, part...)
				last = got[len(got)-1].id
				for range 3 { // a page gets no frame of some events
					steps <- struct{}{}
				}
			}
			if n := len(h.agent.prompts()); n != 1 || h.threads() != 1 {
				t.Fatalf("the agent was asked %d times, in %d threads", n, h.threads())
			}
			dialect := "agui-1.0"
			if p.page {
				dialect = "tdesign"
			} else if !strings.Contains(p.body, "protocolVersion") {
				dialect = "agui-0.x"
			}
			want := h.open(h.request("POST", "/api/agui/chat?dialect="+dialect, p.body, "Last-Event-ID", got[0].id, "Cookie", b.cookie)).rest()
			if chained([32]byte{}, got[1:]) != chained([32]byte{}, want) {
				t.Errorf("in pieces %s, in one %s", types(got), types(want))
			}
		})
	}
}

// TestPostCursors checks how a position is used with a body. The thread T has the Runs 1..9 and 10..18, U has 1..9.
func TestPostCursors(t *testing.T) {
	t.Parallel()
	const (
		u1, u2 = `{"id":"u1","role":"user","content":"hi"}`, `{"id":"u2","role":"user","content":"more"}`
		both   = u1 + "," + u2
		u3     = `{"id":"u3","role":"user","content":"new"}`
		end    = "RUN_STARTED REASONING_MESSAGE_START REASONING_MESSAGE_CONTENT REASONING_MESSAGE_END TEXT_MESSAGE_START TEXT_MESSAGE_CONTENT TEXT_MESSAGE_END RUN_FINISHED"
	)
	for name, c := range map[string]struct {
		path, body, last string
		status           int
		code             string // of a refusal
		first            string // id of the first frame; "" for none
		frames           int
		asks             int // how often the agent is asked
		threads          int // that are made
		page             bool
	}{
		"the newest message, inside its run":        {body: fmt.Sprintf(input1, both, ""), last: "12", first: "13", frames: 6},
		"the newest message, before its run":        {body: fmt.Sprintf(input1, both, ""), last: "4", first: "10", frames: 9},
		"the newest message, at the edge":           {body: fmt.Sprintf(input1, both, ""), last: "9", first: "10", frames: 9},
		"the newest message, at the end":            {body: fmt.Sprintf(input1, both, ""), last: "18"},
		"an older message, inside its run":          {body: fmt.Sprintf(input1, u1, ""), last: "7", first: "8", frames: 2},
		"an older message, at its end":              {body: fmt.Sprintf(input1, u1, ""), last: "9"},
		"an older message, in a later run":          {body: fmt.Sprintf(input1, u1, ""), last: "15", first: "16", frames: 3},
		"by its runId, before":                      {body: fmt.Sprintf(input1, u2, `,"runId":"R2"`), last: "3", first: "10", frames: 9},
		"by its runId, inside":                      {body: fmt.Sprintf(input1, u2, `,"runId":"R2"`), last: "17", first: "18", frames: 1},
		"a runId of another body":                   {body: fmt.Sprintf(input1, u3, `,"runId":"R2"`), last: "17", status: 409, code: "run_id_conflict"},
		"a new message":                             {body: fmt.Sprintf(input1, both+","+u3, ""), last: "18", first: "19", frames: 9, asks: 1},
		"a new message, a position inside":          {body: fmt.Sprintf(input1, u3, ""), last: "12", first: "19", frames: 9, asks: 1},
		"a changed message":                         {body: fmt.Sprintf(input1, u1+`,{"id":"u2","role":"user","content":"changed"}`, ""), last: "12", first: "19", frames: 9, asks: 1},
		"a new prompt of a page":                    {body: `{"threadId":"T","prompt":"new"}`, last: "18", page: true, first: "19", frames: 10, asks: 1},
		"the newest prompt of a page":               {body: `{"threadId":"T","prompt":"more"}`, last: "16", page: true, first: "17", frames: 2},
		"the newest prompt of a page, before":       {body: `{"threadId":"T","prompt":"more"}`, last: "9", page: true, first: "10", frames: 10},
		"an older prompt of a page":                 {body: `{"threadId":"T","prompt":"hi"}`, last: "7", page: true, first: "8", frames: 2},
		"only a thread, inside":                     {body: fmt.Sprintf(input1, "", ""), last: "4", first: "5", frames: 5},
		"only a thread, at an edge":                 {body: fmt.Sprintf(input1, "", ""), last: "9", first: "10", frames: 9},
		"only a thread, at the end":                 {body: fmt.Sprintf(input1, "", ""), last: "18"},
		"connect, inside":                           {path: "/connect", body: fmt.Sprintf(input1, both, ""), last: "17", first: "18", frames: 1},
		"a position of zero is none":                {body: fmt.Sprintf(input1, u3, ""), last: "0", first: "19", frames: 9, asks: 1},
		"zero, and a known message":                 {body: fmt.Sprintf(input1, both, ""), last: "0", first: "10", frames: 9},
		"zero, and an older message":                {body: fmt.Sprintf(input1, u1, ""), last: "0", first: "1", frames: 9},
		"zero, and a thread that is not there":      {body: `{"threadId":"V","protocolVersion":"1.0","messages":[` + u3 + `]}`, last: "0", first: "1", frames: 9, asks: 1, threads: 1},
		"zero, and a prompt of a page":              {body: `{"threadId":"T","prompt":"new"}`, last: "0", page: true, first: "19", frames: 10, asks: 1},
		"beyond the log":                            {body: fmt.Sprintf(input1, both, ""), last: "19", status: 416, code: "beyond_log"},
		"beyond the log, a new message":             {body: fmt.Sprintf(input1, u3, ""), last: "500", status: 416, code: "beyond_log"},
		"beyond the log, a page":                    {body: `{"threadId":"T","prompt":"more"}`, last: "19", page: true, code: "beyond_log"},
		"of another thread, beyond":                 {body: `{"threadId":"U","protocolVersion":"1.0","messages":[` + u1 + `]}`, last: "15", status: 416, code: "beyond_log"},
		"of another thread, within":                 {body: `{"threadId":"U","protocolVersion":"1.0","messages":[` + u1 + `]}`, last: "5", first: "6", frames: 4},
		"a thread that is not there":                {body: `{"threadId":"V","protocolVersion":"1.0","messages":[` + u1 + `]}`, last: "5", status: 416, code: "beyond_log"},
		"no thread, and none made by this body":     {body: `{"protocolVersion":"1.0","messages":[` + u1 + `]}`, last: "5", status: 416, code: "beyond_log"},
		"no thread, a page without its cookie":      {body: `{"prompt":"more"}`, last: "5", page: true, code: "beyond_log"},
		"connect to a thread that is not there":     {path: "/connect", body: `{"threadId":"V","messages":[]}`, last: "5", status: 404, code: "not_found"},
		"not a number":                              {body: fmt.Sprintf(input1, u3, ""), last: "abc", status: 400, code: "invalid_cursor"},
		"not a number, a page":                      {body: `{"threadId":"T","prompt":"new"}`, last: "abc", page: true, code: "invalid_cursor"},
		"negative":                                  {body: fmt.Sprintf(input1, u3, ""), last: "-1", status: 400, code: "invalid_cursor"},
		"too large":                                 {body: fmt.Sprintf(input1, u3, ""), last: "99999999999999999999", status: 400, code: "invalid_cursor"},
		"a position of a trace":                     {body: fmt.Sprintf(input1, u3, ""), last: "5~1", status: 400, code: "invalid_cursor"},
		"an answer that no question of this thread": {body: fmt.Sprintf(input1, both, `,"resume":[{"interruptId":"nobody","status":"cancelled"}]`), last: "12", first: "13", frames: 6},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newEnv(t, thinksAndAsks)
			h.open(h.request("POST", "/api/agui/chat", fmt.Sprintf(input1, u1, ""))).rest()
			h.open(h.request("POST", "/api/agui/chat", fmt.Sprintf(input1, u2, `,"runId":"R2"`))).rest()
			h.open(h.request("POST", "/api/agui/chat", `{"threadId":"U","protocolVersion":"1.0","messages":[`+u1+`]}`)).rest()
			asked, path := len(h.agent.prompts()), "/api/agui/chat"
			if c.path != "" {
				path = "/api/agui" + c.path
			}
			header := []string{"Last-Event-ID", c.last}
			if c.page {
				header = append(header, "Cache-Control", "no-cache", "Sec-Fetch-Mode", "cors")
			}
			got := h.do("POST", path, c.body, header...)
			if c.status == 0 {
				c.status = 200
			}
			if n := len(h.agent.prompts()); got.status != c.status || n != asked+c.asks || h.threads() != 2+c.threads {
				t.Fatalf("%d; asked %d times more, %d threads; %s", got.status, n-asked, h.threads(), got.body)
			}
			if c.code != "" {
				if !strings.Contains(got.body, `"code":"`+c.code+`"`) {
					t.Errorf("%s", got.body)
				}
				return
			}
			frames := stream(t, got.body)
			if len(frames) != c.frames || len(frames) > 0 && frames[0].id != c.first {
				t.Errorf("%d frames: %v", len(frames), frames)
			}
			if c.frames == 9 && types(frames) != end {
				t.Errorf("%s", types(frames))
			}
		})
	}
}

// TestPostWithLastEventIDIsNoPrompt checks that a repeated POST is not counted. A line that is cut often must not use up its
// user's limit of prompts.
func TestPostWithLastEventIDIsNoPrompt(t *testing.T) {
	t.Parallel()
	h := newEnvWith(t, thinksAndAsks, plan{limits: limit.Limits{Runs: limit.Rate{PerSecond: 0.001, Burst: 1}}})
	p := repost{body: fmt.Sprintf(input1, hiUser, "")}
	whole := p.send(h, nil, "")
	for range 20 {
		if rest := p.send(h, nil, whole[0].id); len(rest) != len(whole)-1 {
			t.Fatalf("%s", types(rest))
		}
	}
	isProblem(t, h.do("POST", "/api/agui/chat", fmt.Sprintf(input1, `{"id":"u2","role":"user","content":"x"}`, ""), "Last-Event-ID", "3"), 429)
}

// TestPostWithLastEventIDFollows: with ?follow=1 the next Runs of the Turn come on the same response, also after a position in the
// first or at its end.
func TestPostWithLastEventIDFollows(t *testing.T) {
	t.Parallel()
	h := newEnv(t, thinksAndAsks)
	p := repost{path: "?follow=1", body: fmt.Sprintf(input1, toAsk, "")}
	first := h.open(p.request(h, nil, ""))
	asked, err := first.until(func(f frame) bool { return f.typ() == "RUN_FINISHED" })
	if err != nil {
		t.Fatal(err)
	}
	first.close()
	back := h.open(p.request(h, nil, asked[len(asked)-1].id)) // while the question is open
	h.decide(h.question(), `{"approved":true}`)
	rest := back.rest()
	whole := append(asked, rest...)
	if last := whole[len(whole)-1]; typed(rest, "TOOL_CALL_RESULT").data == "" || last.typ() != "RUN_FINISHED" {
		t.Fatalf("%s", types(rest))
	}
	for k, f := range whole {
		if got := p.send(h, nil, f.id); chained([32]byte{}, got) != chained([32]byte{}, whole[k+1:]) {
			t.Fatalf("behind %s: %s", f.id, types(got))
		}
	}
	if n := len(h.agent.prompts()); n != 2 {
		t.Errorf("the agent was called %d times", n)
	}
}

// TestPostThatJoinedWithLastEventID: a request that joined a Run of others continues in that Run.
func TestPostThatJoinedWithLastEventID(t *testing.T) {
	t.Parallel()
	for name, p := range map[string]repost{
		"only a thread": {body: fmt.Sprintf(input1, "", "")}, "page": {body: `{"threadId":"T"}`, path: "?dialect=tdesign", page: true},
		"0.x": {body: fmt.Sprintf(input0, "", "")}, "the message of the run": {body: fmt.Sprintf(input1, hiUser, "")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			gate := make(chan struct{})
			h := newEnv(t, waits(gate))
			b := &browser{h: h}
			ours := h.open(h.prompt("T", "R", "hi"))
			h.open(h.request("GET", "/api/runs/R/events", "", "Accept", "text/event-stream"))
			if name == "the message of the run" {
				p.body = fmt.Sprintf(input1, `{"id":"u-R","role":"user","content":"hi"}`, "")
			}
			joined := h.open(p.request(h, b, ""))
			part, err := joined.until(func(f frame) bool { return f.id == "4" })
			if err != nil {
				t.Fatal(err)
			}
			joined.close()
			back := h.open(p.request(h, b, "4"))
			close(gate)
			if rest := back.rest(); types(rest) != "RUN_FINISHED" || rest[0].id != "5" {
				t.Errorf("behind %s: %v", types(part), rest)
			}
			ours.rest()
			if rest := p.send(h, b, "2"); rest[0].id != "3" || len(rest) != 3 {
				t.Errorf("after the end: %v", rest)
			}
			if n := len(h.agent.prompts()); n != 1 {
				t.Errorf("the agent was called %d times", n)
			}
		})
	}
}

// TestLastEventIDInTheQuery: polyfills of EventSource that can set no header send their position as ?lastEventId=; every
// route that streams to a GET takes it, before ?after=, which stays in a URL for ever, and after the header.
func TestLastEventIDInTheQuery(t *testing.T) {
	t.Parallel()
	h := newEnv(t, thinksAndAsks)
	whole := h.open(h.request("POST", "/api/agui/chat", fmt.Sprintf(input1, toAsk, `,"runId":"R"`))).rest()
	session := h.sessionOf("T")
	h.decide(h.question(), `{"approved":true}`)
	h.idle("T")
	for _, path := range []string{
		"/api/runs/R/events", "/api/threads/T/events", "/v1/sessions/" + session + "/events", "/api/runs/" + session + "/events",
		"/api/approvals",
	} {
		t.Run(path, func(t *testing.T) {
			open := func(query string, header ...string) frame {
				r := h.open(h.request("GET", path+"?"+query, "", append(header, "Accept", "text/event-stream")...))
				defer r.close()
				f, err := r.next()
				if err != nil {
					t.Fatal(query, err)
				}
				return f
			}
			last := "1"
			if strings.HasPrefix(path, "/v1/sessions/") {
				last = open("").id
			}
			byHeader := open("", "Last-Event-ID", last)
			if got := open("lastEventId=" + last); got != byHeader || got == open("") {
				t.Errorf("?lastEventId=%s gives %v, the header %v", last, got, byHeader)
			}
			for _, wrong := range []string{"abc", "-1"} {
				if got := h.do("GET", path+"?"+"lastEventId="+wrong, "", "Accept", "text/event-stream"); got.status != 400 || !strings.Contains(got.body, "invalid_cursor") {
					t.Errorf("%s: %d %s", wrong, got.status, got.body)
				}
			}
		})
	}
	if got := stream(t, h.do("GET", "/api/runs/R/events?lastEventId=5&after=1", "", "Accept", "text/event-stream").body); got[0].id != "6" {
		t.Errorf("beside ?after=: from %s", got[0].id)
	}
	if got := stream(t, h.do("GET", "/api/runs/R/events?lastEventId=5", "", "Accept", "text/event-stream", "Last-Event-ID", "7").body); got[0].id != "8" {
		t.Errorf("beside the header: from %s", got[0].id)
	}
	if n := len(whole); h.do("GET", fmt.Sprintf("/api/runs/R/events?lastEventId=%d", n), "", "Accept", "text/event-stream").status != 204 {
		t.Errorf("with the last id")
	}
}
