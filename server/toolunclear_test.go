package server_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"aqueduct/store"
)

// surface is a surface that takes answers.
type surface struct {
	name string
	// at goes there. What it returns answers a Question and gives the code of the result; "" is that it is settled.
	at func(h *env, id string) (say func(said string) (code string))
	// payload is the form of an answer of unclearAnswers there; nil where there is no place for one.
	payload func(answer string) string
	// own are unclear answers in the surface's own words.
	own []unclear
	yes string
}

// unclear is what is no answer, and the code of why.
type unclear struct{ said, code string }

// unclearAnswers are those with one form wherever an answer is free.
var unclearAnswers = []unclear{
	{`yes`, "unknown_option"}, {`YES`, "unknown_option"}, {`ok`, "unknown_option"}, {`{"optionId":"yes"}`, "unknown_option"},
	{`{"optionId":"nonsense"}`, "unknown_option"}, {`{"optionId":"Allow once"}`, "unknown_option"},
	{`{}`, "invalid_answer"}, {`{"choice":""}`, "invalid_answer"}, {`[]`, "invalid_answer"}, {`7`, "invalid_answer"}, {``, "invalid_answer"},
	{`{"approved":"true"}`, "invalid_answer"}, {`{"approved":true,"optionId":"reject_once"}`, "invalid_answer"},
	{`{"optionId":"allow_once","choice":"reject_once"}`, "invalid_answer"},
	{`{"optionId":"reject_once","outcome":{"outcome":"selected","optionId":"allow_once"}}`, "invalid_answer"},
	{`{"outcome":{"outcome":"selected"}}`, "invalid_answer"}, {`{"approved":true,"editedArgs":{"wood":7}}`, "invalid_answer"},
}

// decisionWords are unclear answers in the words of the inbox and of channels.
var decisionWords = []unclear{
	{`{"decision":"yes"}`, "invalid_body"}, {`{"approved":"yes"}`, "invalid_body"}, {`{"option_id":"yes"}`, "unknown_option"},
	{`{"option_id":"nonsense"}`, "unknown_option"}, {`{}`, "invalid_body"}, {`{"payload":null}`, "invalid_answer"},
	{`{"decision":"approve","option_id":"reject_once"}`, "invalid_answer"}, {`{"decision":"approve","approved":false}`, "invalid_answer"},
	{`{"decision":"reject","payload":{"optionId":"allow_once"}}`, "invalid_answer"},
	{`{"option_id":"reject_once","payload":{"approved":true}}`, "invalid_answer"},
	{`{"edited_args":{"wood":"ash"},"payload":{"approved":true}}`, "invalid_answer"},
	{`{"decision":"approve","edited_args":{"wood":7}}`, "invalid_answer"},
	{`{"decision":"approve","edited_args":{"wood":"ash"},"editedArgs":{"wood":"elm"}}`, "invalid_answer"},
}

// pageWords are those of permission sockets.
var pageWords = []unclear{
	{`{"approved":"yes"}`, "invalid_body"}, {`{"option_id":"yes"}`, "unknown_option"}, {`{"option_id":"nonsense"}`, "unknown_option"}, {`{}`, "invalid_body"},
	{`{"approved":true,"option_id":"reject_once"}`, "invalid_answer"}, {`{"approved":false,"payload":{"optionId":"allow_once"}}`, "invalid_answer"},
	{`{"approved":true,"edited_args":{"wood":7}}`, "invalid_answer"}, {`{"approved":true,"editedArgs":{"wood":7}}`, "invalid_answer"},
}

// desks are all the surfaces there are.
var desks = []surface{
	{"tool message", posted(toolMessage, noted), verbatim, nil, `{"optionId":"allow_once"}`},
	{"resume", posted(resumeWith, noted), asJSON, []unclear{{`null`, "invalid_answer"}}, `{"optionId":"allow_once"}`},
	{"toolCallMessage", posted(cardAnswer, worded), verbatim, nil, `{"optionId":"allow_once"}`},
	{"REST", posted(rest, refused), asPayload, decisionWords, `{"decision":"approve"}`},
	{"batch", posted(inBatch, batched), asPayload, decisionWords, `{"decision":"approve"}`},
	{"ingress socket", onIngress, asPayload, decisionWords, `{"decision":"approve"}`},
	{"permission socket", onPage("/ws/permissions/T"), asPayload, pageWords, `{"approved":true}`},
	{"agent backend socket", onPage("/agent_backend/ws/T"), asPayload, pageWords, `{"approved":true}`},
	{"webhook", posted(byWebhook, refused), asPayload, decisionWords, `{"decision":"approve"}`},
	{"link", onLinkPage, nil, []unclear{
		{`{"option_id":"yes"}`, "unknown_option"}, {`{"option_id":"nonsense"}`, "unknown_option"}, {`{}`, "invalid_body"}, {`{"option_id":""}`, "invalid_body"},
	}, `{"option_id":"allow_once"}`},
}

func verbatim(answer string) string { return answer }

// asJSON quotes what is no JSON.
func asJSON(answer string) string {
	if json.Valid([]byte(answer)) {
		return answer
	}
	quoted, _ := json.Marshal(answer)
	return string(quoted)
}

func asPayload(answer string) string { return `{"payload":` + asJSON(answer) + `}` }

// posted is a surface of one request an answer.
func posted(spell func(said string) func(h *env, id string) answer, code func(h *env, got answer) string) func(h *env, id string) func(said string) string {
	return func(h *env, id string) func(string) string {
		return func(said string) string { return code(h, spell(said)(h, id)) }
	}
}

// noted is the code in the chat's question_open; an answer never gets an HTTP error there.
func noted(h *env, got answer) string {
	h.t.Helper()
	if got.status != 200 {
		h.t.Fatalf("HTTP %d %s", got.status, got.body)
	}
	for _, f := range stream(h.t, got.body) {
		var note struct {
			Name  string
			Value struct{ Code string }
		}
		if json.Unmarshal([]byte(f.data), &note) == nil && note.Name == "question_open" {
			return note.Value.Code
		}
	}
	return ""
}

// worded is the code that a page of TDesign gets in a sentence, over the card once more.
func worded(h *env, got answer) string {
	h.t.Helper()
	if got.status != 200 {
		h.t.Fatalf("HTTP %d %s", got.status, got.body)
	}
	frames := stream(h.t, got.body)
	for code, sentence := range map[string]string{
		"unknown_option":   "That answer was not one of the options, so the question is still open.",
		"invalid_answer":   "That is no answer to this question, so it is still open.",
		"edit_not_allowed": "The arguments of this call may not be changed. The question is still open.",
	} {
		if text(frames) == sentence && dispatched(frames, "request_permission") != "" {
			return code
		}
	}
	return ""
}

// refused is the code of a problem.
func refused(_ *env, got answer) string {
	var p struct{ Code string }
	if json.Unmarshal([]byte(got.body), &p) != nil || (p.Code == "") != (got.status == 200) {
		return "HTTP " + got.body
	}
	return p.Code
}

func batched(_ *env, got answer) string {
	var out struct {
		Decisions []struct {
			OK   bool
			Code string
		}
	}
	if json.Unmarshal([]byte(got.body), &out) != nil || got.status != 200 || len(out.Decisions) != 1 || out.Decisions[0].OK != (out.Decisions[0].Code == "") {
		return "HTTP " + got.body
	}
	return out.Decisions[0].Code
}

func onIngress(h *env, id string) func(string) string {
	ch := h.channel("")
	if q := last(ch.until("approval_required")); q.ApprovalID != id {
		h.t.Fatalf("the channel hears of %s", q.raw)
	}
	return func(said string) string {
		ch.send(with(with(said, "type", "approval_decision"), "approval_id", id))
		for {
			if m := ch.next(); m.Type == "error" || m.is() == "state RUNNING" {
				return m.Code
			}
		}
	}
}

func onPage(path string) func(h *env, id string) func(string) string {
	return func(h *env, id string) func(string) string {
		page := h.permissions(path)
		page.next("agent_tool_permission_request")
		return func(said string) string {
			page.send(`{"type":"agent_tool_permission_response","data":` + with(said, "execution_id", id) + `}`)
			raw, err := receive(page.conn)
			var m permissionTold
			if err != nil || json.Unmarshal(raw, &m) != nil || m.Data.ExecutionID != id || (m.Type == "error") != (m.Data.Code != "") {
				h.t.Fatalf("%v %s", err, raw)
			}
			return m.Data.Code
		}
	}
}

func onLinkPage(h *env, _ string) func(string) string {
	path := h.link()
	_, nonce := h.visit(path)
	return func(said string) string { return refused(h, h.do("POST", path, with(said, "page", nonce))) }
}

// TestToolUnclearAnswers: an unclear answer leaves the Question open and gets the
// same code, on every surface, and nothing runs; a yes settles it there afterwards.
func TestToolUnclearAnswers(t *testing.T) {
	t.Parallel()
	for _, d := range desks {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			w := newToolEnv(t, highRisk, waiting)
			w.chat("T", "R", "go")
			id := w.question()
			say := d.at(w.env, id)
			all := slices.Clone(d.own)
			for _, u := range unclearAnswers {
				if d.payload != nil {
					all = append(all, unclear{d.payload(u.said), u.code})
				}
			}
			for _, u := range all {
				if code := say(u.said); code != u.code {
					t.Errorf("%s: code %q, not %s", u.said, code, u.code)
				}
				if a := w.status(id); a.Status != store.ApprovalPending {
					t.Fatalf("%s: it is %s", u.said, a.Status)
				}
			}
			if n := w.ran.Load(); n != 0 {
				t.Errorf("it ran %d times", n)
			}
			if code := say(d.yes); code != "" {
				t.Errorf("a yes: code %q", code)
			}
			select {
			case said := <-w.said:
				if !strings.HasPrefix(said, "succeeded") {
					t.Error(said)
				}
			case <-time.After(socketPatience):
				t.Error("the agent still waits")
			}
			w.idle("T")
			t.Logf("%d unclear answers", len(all))
		})
	}
}
