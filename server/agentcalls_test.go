package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"aqueduct/agui"
	"aqueduct/bridge"
	"aqueduct/bridge/approval"
	"aqueduct/store"
)

// says sends an answer of one message.
func says(say func(...bridge.Output), text string) {
	id := fmt.Sprint("m", time.Now().UnixNano())
	say(event(&agui.TextMessageStart{MessageID: id, Role: agui.RoleAssistant}),
		event(&agui.TextMessageContent{MessageID: id, Delta: text}), event(&agui.TextMessageEnd{MessageID: id}))
}

// callEnv is a server whose agents are scripts that may call each other.
type callEnv struct{ *env }

// newCallEnv makes one with these agents; "scripted" is the root.
func newCallEnv(t *testing.T, agents map[string]func(c *callEnv, ctx context.Context, say func(...bridge.Output), call bridge.Call, answers []approval.Delivery), p plan) *callEnv {
	t.Helper()
	c := &callEnv{}
	run := func(name string) script {
		return func(ctx context.Context, say func(...bridge.Output), call bridge.Call, answers []approval.Delivery) {
			agents[name](c, ctx, say, call, answers)
		}
	}
	c.env = newEnvWith(t, run("scripted"), p)
	for name := range agents {
		if name != "scripted" {
			c.agents.Add(name, &scripted{script: run(name)})
		}
	}
	return c
}

type agentScript = func(c *callEnv, ctx context.Context, say func(...bridge.Output), call bridge.Call, answers []approval.Delivery)

// called is what a caller read of a call: the frames, and the refusal where there was one.
type called struct {
	status int
	body   string
	frames []frame
}

// text is the called agent's answer.
func (c called) text() string {
	text := ""
	for _, f := range c.frames {
		if f.event == "delta" {
			text += f.field("text")
		}
	}
	return text
}

// kinds are the events in order, deltas of one message once.
func (c called) kinds() string {
	var kinds []string
	for _, f := range c.frames {
		kind := f.event
		if kind == "state" {
			kind = f.field("state")
		}
		if n := len(kinds); n == 0 || kinds[n-1] != kind {
			kinds = append(kinds, kind)
		}
	}
	return strings.Join(kinds, " ")
}

// call calls an agent as another one does, and reads to the end.
func (c *callEnv) call(ctx context.Context, of bridge.Call, agent, text string, more ...string) called {
	return c.callAfter(ctx, of, agent, text, "", more...)
}

// callAfter does so with what it has of an earlier response.
func (c *callEnv) callAfter(ctx context.Context, of bridge.Call, agent, text, after string, more ...string) called {
	body := fmt.Sprintf(`{"run_id":%q,"input_message":{"role":"user","content":%q}%s}`, of.TurnID, text, strings.Join(more, ""))
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.URL+"/v1/agents/"+invocation(agent), strings.NewReader(body))
	if err != nil {
		return called{body: err.Error()}
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+of.RunToken)
	if after != "" {
		req.Header.Set("Last-Event-ID", after)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return called{body: err.Error()}
	}
	defer resp.Body.Close()
	got := called{status: resp.StatusCode}
	r := newReader(c.t, resp)
	if resp.StatusCode != http.StatusOK {
		raw := make([]byte, 4096)
		n, _ := resp.Body.Read(raw)
		got.body = string(raw[:n])
		return got
	}
	for {
		f, err := r.next()
		if err != nil {
			got.body = err.Error()
			return got
		}
		got.frames = append(got.frames, f)
	}
}

// tree is GET /v1/runs/{id}/tree.
type tree struct {
	RunID    string `json:"run_id"`
	AgentID  string `json:"agent_id"`
	Status   string
	Usage    json.RawMessage
	Children []tree
}

func (c *callEnv) tree(id string) (t tree) {
	c.t.Helper()
	got := c.do("GET", "/v1/runs/"+id+"/tree", "")
	if err := json.Unmarshal([]byte(got.body), &t); err != nil || got.status != http.StatusOK {
		c.t.Fatal(got.status, got.body)
	}
	return t
}

func (t tree) String() string {
	var children []string
	for _, c := range t.Children {
		children = append(children, c.String())
	}
	return strings.TrimSuffix(t.AgentID+" "+t.Status+" ["+strings.Join(children, ", ")+"]", " []")
}

// TestAgentCallsAgent: an agent gets another one's answer as that streams it; the root's chat shows a subagent, or a step to
// clients of before; no list has the child; the tree and the trace have it.
func TestAgentCallsAgent(t *testing.T) {
	t.Parallel()
	for _, dialect := range []string{"1.0", "0.x"} {
		t.Run(dialect, func(t *testing.T) {
			t.Parallel()
			onBothDatabases(t, func(t *testing.T, db database) {
				got := make(chan called, 1)
				c := newCallEnv(t, map[string]agentScript{
					"scripted": func(c *callEnv, ctx context.Context, say func(...bridge.Output), call bridge.Call, _ []approval.Delivery) {
						answer := c.call(ctx, call, "helper", "what is it?", `,"messages":[{"role":"system","content":"be brief"},{"role":"assistant","content":"before"}],"context":{"city":"Wien"}`)
						got <- answer
						says(say, "it is: "+answer.text())
					},
					"helper": func(_ *callEnv, _ context.Context, say func(...bridge.Output), call bridge.Call, _ []approval.Delivery) {
						var heard []string
						for _, m := range call.Messages {
							heard = append(heard, m.Role+"="+m.Content.String())
						}
						says(say, strings.Join(heard, ",")+fmt.Sprint(call.Context))
					},
				}, plan{open: db.open})
				body := inputBody("t", "r", "go")
				if dialect != "1.0" {
					body = strings.Replace(body, `"protocolVersion":"1.0",`, "", 1)
				}
				frames := c.open(c.request("POST", "/api/agui/chat", body)).rest()
				answer := <-got
				if want := "assistant=before,user=what is it?[{city Wien}]"; answer.text() != want || answer.kinds() != "RUNNING delta done" {
					t.Errorf("the caller reads %q, %s (%d %s)", answer.text(), answer.kinds(), answer.status, answer.body)
				}
				shown := joined(frames)
				want := []string{`"type":"SUBAGENT_STARTED"`, `"name":"helper"`, `"type":"SUBAGENT_FINISHED"`, "it is: assistant=before"}
				if dialect != "1.0" {
					want = []string{`"type":"STEP_STARTED"`, `"stepName":"helper"`, `"type":"STEP_FINISHED"`, "it is: assistant=before"}
				}
				for _, part := range want {
					if !strings.Contains(shown, part) {
						t.Fatalf("no %s:\n%s", part, shown)
					}
				}
				if strings.Index(shown, want[2]) > strings.Index(shown, want[3]) {
					t.Errorf("the caller speaks of what has not ended:\n%s", shown)
				}
				root := c.agent.last().TurnID
				if is := c.tree("r").String(); is != "scripted DONE [helper DONE]" {
					t.Errorf("the tree is %s", is)
				}
				if n := c.threads(); n != 1 {
					t.Errorf("%d threads are listed", n)
				}
				trace := c.do("GET", "/v1/runs/"+root+"/events", "").body
				if !strings.Contains(trace, `"agent_called_child"`) || !strings.Contains(trace, `"path":["scripted","helper"]`) {
					t.Errorf("the trace has no call: %s", trace)
				}
			})
		})
	}
}

// TestAgentCallsOwnStates: a called agent reports states of its own by any name and with any detail, also by names that Turns have:
// its caller reads them as the agent's, and its answer to the end.
func TestAgentCallsOwnStates(t *testing.T) {
	t.Parallel()
	onBothDatabases(t, func(t *testing.T, db database) {
		got := make(chan called, 1)
		c := newCallEnv(t, map[string]agentScript{
			"scripted": func(c *callEnv, ctx context.Context, say func(...bridge.Output), call bridge.Call, _ []approval.Delivery) {
				got <- c.call(ctx, call, "helper", "go")
			},
			"helper": func(_ *callEnv, _ context.Context, say func(...bridge.Output), _ bridge.Call, _ []approval.Delivery) {
				for _, state := range []string{`{"state":"CANCELLED","detail":"half"}`, `{"state":"DONE"}`, `{"state":"FAILED","detail":[1]}`} {
					say(event(&agui.StateDelta{Delta: json.RawMessage(`[{"op":"add","path":"/agent","value":` + state + `}]`)}))
				}
				says(say, "all of it")
			},
		}, plan{open: db.open})
		c.chat("t", "r", "go")
		if answer := <-got; answer.text() != "all of it" || !strings.HasSuffix(answer.kinds(), "CANCELLED DONE FAILED delta done") {
			t.Errorf("%s: %s", answer.kinds(), answer.text())
		}
	})
}

// TestAgentCallsLoop: A → B → A, and too deep a chain, end with a clear error, which the callers may go on from.
func TestAgentCallsLoop(t *testing.T) {
	t.Parallel()
	onBothDatabases(t, func(t *testing.T, db database) {
		refused := make(chan called, 8)
		next := func(to string) agentScript {
			return func(c *callEnv, ctx context.Context, say func(...bridge.Output), call bridge.Call, _ []approval.Delivery) {
				answer := c.call(ctx, call, to, "go on")
				if answer.status != http.StatusOK {
					refused <- answer
				}
				says(say, call.AgentID+"("+answer.text()+")")
			}
		}
		c := newCallEnv(t, map[string]agentScript{
			"scripted": func(c *callEnv, ctx context.Context, say func(...bridge.Output), call bridge.Call, a []approval.Delivery) {
				next(call.Messages[len(call.Messages)-1].Content.String())(c, ctx, say, call, a)
			},
			"b": next("scripted"), "d1": next("d2"), "d2": next("d3"), "d3": next("d4"), "d4": next("d5"), "d5": next("d6"), "d6": next("d7"),
		}, plan{open: db.open})
		if shown := joined(c.chat("t", "r", "b")); !strings.Contains(shown, "scripted(b())") {
			t.Errorf("A → B → A: %s", shown)
		}
		if no := <-refused; no.status != http.StatusConflict || !strings.Contains(no.body, `"agent_call_loop"`) || !strings.Contains(no.body, "scripted → b → scripted") {
			t.Errorf("A → B → A is refused by %d %s", no.status, no.body)
		}
		if shown := joined(c.chat("t2", "r2", "d1")); !strings.Contains(shown, "scripted(d1(d2(d3(d4(d5())))))") {
			t.Errorf("a deep chain: %s", shown)
		}
		if no := <-refused; no.status != http.StatusConflict || !strings.Contains(no.body, `"agent_call_depth"`) {
			t.Errorf("a deep chain is refused by %d %s", no.status, no.body)
		}
		if is := c.tree("r2").String(); is != "scripted DONE [d1 DONE [d2 DONE [d3 DONE [d4 DONE [d5 DONE]]]]]" {
			t.Errorf("the tree is %s", is)
		}
	})
}

// TestAgentCallsCancelled: cancelling the root ends those it called within a second, however deep; so does a caller that
// leaves, unless it asks for the contrary.
func TestAgentCallsCancelled(t *testing.T) {
	t.Parallel()
	onBothDatabases(t, func(t *testing.T, db database) {
		began, ended, leave, left := make(chan string, 8), make(chan string, 8), make(chan struct{}), make(chan called, 8)
		stays := func(_ *callEnv, ctx context.Context, say func(...bridge.Output), call bridge.Call, _ []approval.Delivery) {
			says(say, "at work")
			began <- call.AgentID
			<-ctx.Done()
			ended <- call.AgentID
		}
		passes := func(to string) agentScript {
			return func(c *callEnv, ctx context.Context, say func(...bridge.Output), call bridge.Call, _ []approval.Delivery) {
				go func() { left <- c.call(context.WithoutCancel(ctx), call, to, "go on") }() // it stays: the cascade alone ends it
				<-ctx.Done()
				ended <- call.AgentID
			}
		}
		c := newCallEnv(t, map[string]agentScript{
			"scripted": func(c *callEnv, ctx context.Context, say func(...bridge.Output), call bridge.Call, a []approval.Delivery) {
				switch text := call.Messages[len(call.Messages)-1].Content.String(); text {
				case "cancel":
					passes("b")(c, ctx, say, call, a)
				default: // it leaves, and goes on itself
					going, cancel := context.WithCancel(ctx)
					go func() { <-leave; cancel() }()
					left <- c.call(going, call, text, "go on")
					says(say, "alone")
				}
			},
			"b": passes("leaf"), "leaf": stays,
		}, plan{open: db.open})
		r := c.open(c.prompt("t", "r", "cancel"))
		<-began
		asked := time.Now()
		if got := c.do("POST", "/api/runs/r/cancel", "{}"); got.status != http.StatusAccepted && got.status != http.StatusOK {
			t.Fatal(got.status, got.body)
		}
		for range 3 {
			select {
			case <-ended:
			case <-time.After(10 * time.Second):
				t.Fatalf("not all have ended; the tree is %s", c.tree("r"))
			}
		}
		if took := time.Since(asked); took > time.Second {
			t.Errorf("the last agent learned of the cancel after %v", took)
		}
		r.rest()
		for range 2 {
			if got := <-left; !strings.HasSuffix(got.kinds(), " error") || !strings.Contains(got.frames[len(got.frames)-1].data, `"child_cancelled"`) {
				t.Errorf("a caller reads %s", got.kinds())
			}
		}
		c.settled("r", "scripted CANCELLED [b CANCELLED [leaf CANCELLED]]")

		r = c.open(c.prompt("t2", "r2", "leaf"))
		<-began
		close(leave)
		<-left
		<-ended
		r.rest()
		c.settled("r2", "scripted DONE [leaf CANCELLED]")
	})
}

// settled waits until the tree is as wanted.
func (c *callEnv) settled(id, want string) {
	c.t.Helper()
	is := ""
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if is = c.tree(id).String(); is == want {
			return
		}
	}
	c.t.Errorf("the tree is %s, want %s", is, want)
}

// TestAgentCallsLeftAlone: a caller's own end, with a child that it does not wait for, ends that child too.
func TestAgentCallsLeftAlone(t *testing.T) {
	t.Parallel()
	onBothDatabases(t, func(t *testing.T, db database) {
		began, ended := make(chan struct{}, 1), make(chan struct{}, 1)
		c := newCallEnv(t, map[string]agentScript{
			"scripted": func(c *callEnv, ctx context.Context, say func(...bridge.Output), call bridge.Call, _ []approval.Delivery) {
				going, leave := context.WithCancel(ctx)
				defer leave()
				go c.call(going, call, "leaf:invoke?on_leave=continue", "go on")
				<-began
				leave() // it goes on, as on_leave has it, but not beyond its caller's Turn
				time.Sleep(200 * time.Millisecond)
				select {
				case <-ended:
					says(say, "it ended with the response")
				default:
					says(say, "still there")
				}
			},
			"leaf": func(_ *callEnv, ctx context.Context, say func(...bridge.Output), _ bridge.Call, _ []approval.Delivery) {
				says(say, "at work")
				began <- struct{}{}
				<-ctx.Done()
				ended <- struct{}{}
			},
		}, plan{open: db.open})
		if shown := joined(c.chat("t", "r", "go")); !strings.Contains(shown, "still there") {
			t.Error(shown)
		}
		<-ended
		c.settled("r", "scripted DONE [leaf CANCELLED]")
	})
}

// TestAgentCallsAsk: what a called agent asks is asked in the root's chat and in the inbox, with the path; the answer, given
// in the chat, gets to the agent that asked; the root's agent goes on meanwhile.
func TestAgentCallsAsk(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]func(c *callEnv, id string) string{
		"chat": func(c *callEnv, id string) string { return joined(c.chatAnswer("t", "r2", id, `{"optionId":"yes"}`)) },
		"inbox": func(c *callEnv, id string) string {
			return c.decide(id, `{"decision":"approve","option_id":"yes"}`).body
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onBothDatabases(t, func(t *testing.T, db database) {
				got := make(chan called, 1)
				c := newCallEnv(t, map[string]agentScript{
					"scripted": func(c *callEnv, ctx context.Context, say func(...bridge.Output), call bridge.Call, _ []approval.Delivery) {
						answer := c.call(ctx, call, "helper", "do it")
						got <- answer
						says(say, "helper: "+answer.text())
					},
					"helper": func(_ *callEnv, ctx context.Context, say func(...bridge.Output), call bridge.Call, answers []approval.Delivery) {
						asks(ctx, say, call, answers)
					},
				}, plan{open: db.open})
				asked := joined(c.chat("t", "r", "go"))
				if !strings.Contains(asked, `"type":"interrupt"`) || !strings.Contains(asked, "scripted → helper: Delete it?") || !strings.Contains(asked, `"path":["scripted","helper"]`) {
					t.Fatalf("the root's chat does not ask: %s", asked)
				}
				inbox := c.do("GET", "/api/approvals?status=PENDING", "").body
				if n := strings.Count(inbox, `"approval_id"`); n != 1 || !strings.Contains(inbox, `"path":["scripted","helper"]`) {
					t.Fatalf("the inbox has %d: %s", n, inbox)
				}
				id := c.inboxed()
				if again := answer(c, id); strings.Contains(again, `"code":`) {
					t.Fatal(again)
				}
				var called called
				select {
				case called = <-got:
				case <-time.After(20 * time.Second):
					t.Fatalf("the answer does not get to the agent; the tree is %s", c.tree("r"))
				}
				if !strings.Contains(called.text(), `"optionId\":\"yes\"`) && !strings.Contains(called.text(), `"optionId":"yes"`) || called.kinds() != "RUNNING WAITING_APPROVAL RUNNING delta done" {
					t.Errorf("the caller reads %s: %s", called.kinds(), called.text())
				}
				c.settled("r", "scripted DONE [helper DONE]")
				if still := c.do("GET", "/api/approvals?status=PENDING", "").body; strings.Contains(still, `"approval_id"`) {
					t.Errorf("still open: %s", still)
				}
			})
		})
	}
}

// inboxed is the one Question that the inbox has.
func (c *callEnv) inboxed() string {
	c.t.Helper()
	rows, err := c.store.OpenApprovals(c.t.Context(), scope(), store.Page{})
	if err != nil || len(rows) != 1 {
		c.t.Fatalf("%d questions, %v", len(rows), err)
	}
	return rows[0].Approval.ID
}

// invocation is the last part of the path of a call; a caller may add a query to it.
func invocation(agent string) string {
	if strings.Contains(agent, ":invoke") {
		return agent
	}
	return agent + ":invoke"
}

// refusedCall is the answer to the first call that is refused: each agent calls the next of the chain, the root calls the
// first as many times at once, and the last stays at work.
func refusedCall(t *testing.T, p plan, times int, chain ...string) answer {
	t.Helper()
	refused := make(chan called, times)
	calls := func(to string, times int) agentScript {
		return func(c *callEnv, ctx context.Context, _ func(...bridge.Output), call bridge.Call, _ []approval.Delivery) {
			for range times {
				go func() {
					if got := c.call(ctx, call, to, "go on"); got.status != http.StatusOK {
						refused <- got
					}
				}()
			}
			<-ctx.Done()
		}
	}
	agents := map[string]agentScript{"scripted": calls(chain[0], times)}
	for i, name := range chain[:len(chain)-1] {
		agents[name] = calls(chain[i+1], 1)
	}
	agents[chain[len(chain)-1]] = func(_ *callEnv, ctx context.Context, _ func(...bridge.Output), _ bridge.Call, _ []approval.Delivery) {
		<-ctx.Done()
	}
	c := newCallEnv(t, agents, p)
	c.open(c.prompt("t", "r", "go"))
	select {
	case got := <-refused:
		return answer{got.status, http.Header{"Content-Type": {"application/problem+json"}}, got.body}
	case <-time.After(10 * time.Second):
		t.Fatal("no call is refused")
		return answer{}
	}
}

// workingCall is a server with a called agent at work; began has the root's Turn.
func workingCall(t *testing.T) (c *callEnv, began chan string) {
	t.Helper()
	began = make(chan string, 1)
	c = newCallEnv(t, map[string]agentScript{
		"scripted": func(c *callEnv, ctx context.Context, _ func(...bridge.Output), call bridge.Call, _ []approval.Delivery) {
			c.call(ctx, call, "helper", call.TurnID)
		},
		"helper": func(_ *callEnv, ctx context.Context, _ func(...bridge.Output), call bridge.Call, _ []approval.Delivery) {
			began <- call.Messages[0].Content.String()
			<-ctx.Done()
		},
	}, plan{})
	c.open(c.prompt("t", "r", "go"))
	return c, began
}

// TestAgentCallsEndBeforeWords: the end of a called agent is in the chat before what its caller sends when it learns of that.
func TestAgentCallsEndBeforeWords(t *testing.T) {
	t.Parallel()
	const calls = 30
	c := newCallEnv(t, map[string]agentScript{
		"scripted": func(c *callEnv, ctx context.Context, say func(...bridge.Output), call bridge.Call, _ []approval.Delivery) {
			for n := range calls {
				c.call(ctx, call, "helper", fmt.Sprint("q", n))
				says(say, fmt.Sprint("after ", n))
			}
		},
		"helper": func(_ *callEnv, _ context.Context, say func(...bridge.Output), _ bridge.Call, _ []approval.Delivery) {
			says(say, "did")
		},
	}, plan{})
	ended, words := 0, 0
	for _, f := range c.chat("T", "R", "go") {
		switch f.typ() {
		case "SUBAGENT_FINISHED":
			ended++
		case "TEXT_MESSAGE_CONTENT":
			if words++; words > ended {
				t.Errorf("%q is behind %d ends", f.field("delta"), ended)
			}
		}
	}
	if ended != calls || words != calls {
		t.Errorf("%d ends, %d words", ended, words)
	}
}
