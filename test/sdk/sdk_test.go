// Package sdk_test runs examples/nodeagent (sdk/node), examples/goagent (sdk/go) and examples/pyagent (sdk/python) behind the
// built program, asks them over HTTP, and has them call each other. All keep the same promises, so the cases are the same.
package sdk_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// other is who an agent calls.
var other = map[string]string{"node": "go", "go": "py", "py": "node"}

// each runs a case for every example.
func each(t *testing.T, judge func(t *testing.T, s *setting, id string)) {
	t.Helper()
	t.Parallel()
	s := start(t)
	for _, id := range slices.Sorted(maps.Keys(other)) {
		t.Run(id, func(t *testing.T) { judge(t, s, id) })
	}
}

// TestText: words, and models by the run token.
func TestText(t *testing.T) {
	each(t, func(t *testing.T, s *setting, id string) {
		if got := s.answers(t, id, "text-"+id, "hello there"); strings.TrimSpace(got) != "You wrote: hello there" {
			t.Errorf("%q", got)
		}
		if got := s.answers(t, id, "text-"+id, "models"); strings.TrimSpace(got) != "judge-1" {
			t.Errorf("models: %q", got)
		}
	})
}

// TestTool: the agent waits for a person while its call is under way, and has the tool's result, or the code of the refusal.
func TestTool(t *testing.T) {
	each(t, func(t *testing.T, s *setting, id string) {
		before := len(s.bank.executed())
		s.chat(t, id, "yes-"+id, "transfer 10 to ada")
		asked := s.pending(t, "yes-"+id)
		if asked.Tool != "payments.transfer" || string(asked.Args) != `{"amount":10,"to":"ada"}` {
			t.Errorf("asked %+v", asked)
		}
		if paid := s.bank.executed(); len(paid) != before {
			t.Errorf("paid %v before anybody approved", paid)
		}
		s.decide(t, asked.ID, true)
		if got := s.finished(t, "yes-"+id); !strings.Contains(got, "Done, receipt r-") {
			t.Errorf("approved: %q", got)
		}
		s.chat(t, id, "no-"+id, "transfer 11 to ada")
		s.decide(t, s.pending(t, "no-"+id).ID, false)
		if got := s.finished(t, "no-"+id); !strings.HasSuffix(got, "It was not done (rejected).") {
			t.Errorf("rejected: %q", got)
		}
		if paid := s.bank.executed(); len(paid) != before+1 {
			t.Errorf("paid %v", paid)
		}
	})
}

// TestToolShownByAgent: a call that the agent shows itself is in the chat once, with the platform's result.
func TestToolShownByAgent(t *testing.T) {
	each(t, func(t *testing.T, s *setting, id string) {
		stream := s.chat(t, id, "balance-"+id, "balance of ada")
		if n := strings.Count(stream, `"TOOL_CALL_START"`); n != 1 || !strings.Contains(stream, `"content":"{\"amount\":42}"`) {
			t.Errorf("the call is there %d times:\n%s", n, stream)
		}
		if got := s.finished(t, "balance-"+id); !strings.HasSuffix(got, "ada has 42.") {
			t.Errorf("%q", got)
		}
	})
}

// TestQuestions: each answer calls the agent again, which is another process each time and knows the answers before it.
func TestQuestions(t *testing.T) {
	each(t, func(t *testing.T, s *setting, id string) {
		thread := "tidy-" + id
		s.chat(t, id, thread, "tidy a b c")
		for i, folder := range []string{"a", "b", "c"} {
			asked := s.pending(t, thread)
			s.agents[id].restart(t)
			if string(asked.Args) != `{"path":"`+folder+`"}` {
				t.Fatalf("question %d asks about %s", i, asked.Args)
			}
			s.decide(t, asked.ID, folder != "b")
		}
		want := "I would like to delete a. |a is deleted. I would like to delete b. |b stays. I would like to delete c. |c is deleted. "
		if got := s.finished(t, thread); got != want {
			t.Errorf("%q", got)
		}
	})
}

// TestCancel: the agent is rid of the call that it waited for, and ends at once when it is asked to.
func TestCancel(t *testing.T) {
	each(t, func(t *testing.T, s *setting, id string) {
		thread := "cancel-" + id
		s.chat(t, id, thread, "transfer 13 to ada")
		asked := s.pending(t, thread)
		if _, err := s.try(http.MethodPost, "/api/runs/r-"+thread+"-transfer-13-to-ada/cancel", []byte("{}")); err != nil {
			t.Fatal(err)
		}
		s.agents[id].restart(t)
		if _, err := s.try(http.MethodPost, "/api/approvals/"+asked.ID+"/decision", []byte(`{"approved":true}`)); err == nil {
			t.Error("a cancelled question was approved")
		}
	})
}

// TestInput: a person's own words come back to the agent.
func TestInput(t *testing.T) {
	each(t, func(t *testing.T, s *setting, id string) {
		thread := "name-" + id
		s.chat(t, id, thread, "name")
		asked := s.pending(t, thread)
		if _, err := s.try(http.MethodPost, "/api/approvals/"+asked.ID+"/decision", []byte(`{"payload":{"name":"Ada"}}`)); err != nil {
			t.Fatal(err)
		}
		if got := s.finished(t, thread); got != "Hello Ada." {
			t.Errorf("%q", got)
		}
	})
}

// TestClientTool: the page runs a tool of its own for the agent, which is called again with what the page found. Without the
// tool the agent does not ask for it.
func TestClientTool(t *testing.T) {
	each(t, func(t *testing.T, s *setting, id string) {
		thread := "where-" + id
		if got := s.answers(t, id, "blind-"+id, "where"); got != "This page does not know where it is." {
			t.Errorf("without the tool: %q", got)
		}
		tool := map[string]any{"name": "get_location", "description": "Where the page is.", "parameters": map[string]any{"type": "object"}}
		run := map[string]any{"protocolVersion": "1.0", "threadId": thread, "runId": "r1-" + thread, "tools": []any{tool}}
		prompt := map[string]any{"id": "m-" + thread, "role": "user", "content": "where"}
		stream := s.run(t, id, run, prompt)
		call := toolCallID(t, stream)
		if !strings.Contains(stream, `"toolCallName":"get_location"`) || !strings.Contains(stream, `"delta":"{\"precise\":false}"`) {
			t.Errorf("the call:\n%s", stream)
		}
		s.agents[id].restart(t)
		run["runId"] = "r2-" + thread
		s.run(t, id, run, prompt, map[string]any{"id": "t-" + thread, "role": "tool", "toolCallId": call, "content": `{"city":"Turin"}`})
		if got := s.finished(t, thread); got != "You are in Turin." {
			t.Errorf("with the tool: %q", got)
		}
		run["runId"], prompt["id"] = "r3-"+thread, "n-"+thread
		call = toolCallID(t, s.run(t, id, run, prompt))
		run["runId"] = "r4-" + thread
		s.run(t, id, run, prompt, map[string]any{"id": "u-" + thread, "role": "tool", "toolCallId": call, "content": "denied"})
		if got := s.finished(t, thread); !strings.HasSuffix(got, "You did not tell me.") {
			t.Errorf("with words in place of a result: %q", got)
		}
	})
}

// TestThoughts: what an agent thinks is apart from what it answers, and what it counts is in the Run's usage.
func TestThoughts(t *testing.T) {
	each(t, func(t *testing.T, s *setting, id string) {
		stream := s.chat(t, id, "think-"+id, "think about tides")
		for _, want := range []string{
			`"type":"REASONING_MESSAGE_CONTENT"`, `"delta":"What do I know about tides? `, `"inputTokens":3`, `"outputTokens":2`,
		} {
			if !strings.Contains(stream, want) {
				t.Errorf("%s is missing in\n%s", want, stream)
			}
		}
		if got := s.finished(t, "think-"+id); got != "I know nothing about tides." {
			t.Errorf("%q", got)
		}
	})
}

// TestOtherAgent: an agent calls another one, whose question is asked in the thread of the first; a call that would go in
// a circle is an error with its code.
func TestOtherAgent(t *testing.T) {
	each(t, func(t *testing.T, s *setting, id string) {
		called := other[id]
		if got := s.answers(t, id, "call-"+id, "ask "+called+" hello"); strings.TrimSpace(got) != called+": You wrote: hello" {
			t.Errorf("%q", got)
		}
		if got := s.answers(t, id, "loop-"+id, "ask "+called+" ask "+id+" hello"); got != called+": "+id+" did not answer (agent_call_loop)." {
			t.Errorf("a circle: %q", got)
		}
		if got := s.answers(t, id, "nobody-"+id, "ask nobody hello"); got != "nobody did not answer (agent_unknown)." {
			t.Errorf("an unknown agent: %q", got)
		}
		ended := make(chan string, 1)
		go func() { ended <- s.chat(t, id, "pay-"+id, "ask "+called+" transfer 12 to ada") }()
		s.decide(t, s.pending(t, "pay-"+id).ID, true)
		<-ended
		if got := s.finished(t, "pay-"+id); !strings.Contains(got, called+": I will transfer 12 to ada. Done, receipt r-") {
			t.Errorf("with an approval: %q", got)
		}
	})
}

func TestTranscript(t *testing.T) {
	each(t, func(t *testing.T, s *setting, id string) {
		s.answers(t, id, "history-"+id, "hello")
		got := s.answers(t, id, "history-"+id, "history")
		if !strings.Contains(got, "user: hello; assistant: You wrote: hello ; user: history") {
			t.Errorf("%q", got)
		}
	})
}

// TestContext: an agent keeps notes in the context store, across runs and its own restart.
func TestContext(t *testing.T) {
	each(t, func(t *testing.T, s *setting, id string) {
		thread := "notes-" + id
		for _, c := range []struct{ prompt, want string }{
			{"recall", "I remember nothing."},
			{"remember the milk", "I will remember that (version 1)."},
			{"remember the bread", "I will remember that (version 2)."},
			{"recall them", "I remember: the milk, the bread."},
			{"forget", "I have forgotten everything."},
			{"recall again", "I remember nothing."},
			{"remember the salt", "I will remember that (version 1)."},
		} {
			if got := s.answers(t, id, thread, c.prompt); got != c.want {
				t.Fatalf("%s: %q", c.prompt, got)
			}
			s.agents[id].restart(t)
		}
	})
}

// TestRefusals: what does not come from Aqueduct is not taken.
func TestRefusals(t *testing.T) {
	t.Parallel()
	for id, a := range agents(t) {
		post := func(body []byte, header ...string) int {
			t.Helper()
			req, err := http.NewRequest(http.MethodPost, a.url+"/invoke", bytes.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Content-Type", "application/json")
			for i := 0; i < len(header); i += 2 {
				req.Header.Set(header[i], header[i+1])
			}
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			return resp.StatusCode
		}
		health, err := http.Get(a.url + "/health")
		if err != nil {
			t.Fatal(err)
		}
		_ = health.Body.Close()
		prompt, _ := json.Marshal(map[string]any{"run_id": "r", "input_message": map[string]string{"role": "user", "content": "hi"}})
		got := []int{
			health.StatusCode, post(prompt), post(prompt, "Origin", "http://page.example"), post(prompt, "Content-Type", "text/plain"),
			post([]byte("{")), post([]byte("[]")),
		}
		if want := []int{200, 200, 403, 415, 400, 400}; !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", id, got, want)
		}
	}
}
