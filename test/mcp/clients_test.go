package mcp_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"aqueduct/test/program"
)

// bearer shows a token.
type bearer string

// RoundTrip implements http.RoundTripper.
func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(b))
	return program.Transport().RoundTrip(r)
}

// connect is the official Go client at /mcp.
func (e *env) connect(token string, options *mcp.ClientOptions, session *mcp.ClientSessionOptions) *mcp.ClientSession {
	e.t.Helper()
	return e.connectBy("/mcp", token, options, session)
}

func (e *env) connectTo(path, token string) *mcp.ClientSession {
	e.t.Helper()
	return e.connectBy(path, token, nil, nil)
}

func (e *env) connectBy(path, token string, options *mcp.ClientOptions, session *mcp.ClientSessionOptions) *mcp.ClientSession {
	e.t.Helper()
	client := mcp.NewClient(&mcp.Implementation{Name: "judge", Version: "1"}, options)
	ctx, cancel := context.WithTimeout(e.t.Context(), patience)
	defer cancel()
	s, err := client.Connect(ctx, &mcp.StreamableClientTransport{Endpoint: e.server.url + path, HTTPClient: &http.Client{Transport: bearer(token)}}, session)
	if err != nil {
		e.t.Fatalf("%v\n%s", err, e.server.log())
	}
	e.t.Cleanup(func() { _ = s.Close() })
	return s
}

// outcome is the end of a call by a client.
type outcome struct {
	result *mcp.CallToolResult
	err    error
}

func (o outcome) text() string {
	if o.err != nil {
		return "error: " + o.err.Error()
	}
	var texts []string
	for _, c := range o.result.Content {
		if t, ok := c.(*mcp.TextContent); ok {
			texts = append(texts, t.Text)
		}
	}
	return strings.Join(texts, "\n")
}

// begin calls a tool and gives its end later.
func begin(ctx context.Context, s *mcp.ClientSession, tool, args string) <-chan outcome {
	done := make(chan outcome, 1)
	go func() {
		params := &mcp.CallToolParams{Name: tool, Arguments: json.RawMessage(args)}
		params.SetProgressToken("p")
		r, err := s.CallTool(ctx, params)
		done <- outcome{r, err}
	}()
	return done
}

func (e *env) ended(done <-chan outcome) outcome {
	e.t.Helper()
	select {
	case o := <-done:
		return o
	case <-time.After(patience):
		e.t.Fatal("the call does not end\n" + e.server.log())
	}
	return outcome{}
}

// TestMCPHeldCall: an agent by its run token, and a user's program by the user's token, in the newest revision and the one
// before it: the list, and calls that are approved, rejected, edited and blocked, while the client is notified that it waits.
func TestMCPHeldCall(t *testing.T) {
	t.Parallel()
	for _, version := range []string{"2026-07-28", "2025-11-25"} {
		for _, as := range []string{"agent", "program"} {
			t.Run(as+" "+version, func(t *testing.T) {
				t.Parallel()
				s := newShop(t)
				e := newEnv(t, "--mcp", s.flag(), "--policy-file", policyFile(t))
				e.offers("shop.pay", true)
				token := e.token
				if as == "program" {
					token = program.Token()
				}
				var progress atomic.Int32
				c := e.connect(token, &mcp.ClientOptions{ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) {
					if strings.Contains(r.Params.Message, "waits for a decision") {
						progress.Add(1)
					}
				}}, &mcp.ClientSessionOptions{ProtocolVersion: version})
				if got := c.InitializeResult(); got.ServerInfo.Name != "aqueduct" || got.ProtocolVersion != version {
					t.Errorf("%+v", got)
				}
				listed := map[string]*mcp.Tool{}
				for tool, err := range c.Tools(t.Context(), nil) {
					if err != nil {
						t.Fatal(err)
					}
					listed[tool.Name] = tool
				}
				if pay := listed["shop.pay"]; pay == nil || pay.Description != "Does pay." || !pay.Annotations.ReadOnlyHint || len(listed) != 7 {
					t.Errorf("%d tools: %+v", len(listed), pay)
				}
				ctx := t.Context()
				done := begin(ctx, c, "shop.pay", `{"amount":1}`)
				e.decide(e.asked("shop.pay").ID, `{"approved":true}`)
				if o := e.ended(done); o.text() != "paid 1" || o.result.IsError {
					t.Errorf("approved: %s", o.text())
				}
				if progress.Load() == 0 {
					t.Error("the client was not notified that its call waits")
				}
				done = begin(ctx, c, "shop.pay", `{"amount":2}`)
				e.decide(e.asked("shop.pay").ID, `{"approved":false,"reason":"Too much."}`)
				if o := e.ended(done); o.err != nil || !o.result.IsError || !strings.Contains(o.text(), "rejected") {
					t.Errorf("rejected: %s", o.text())
				}
				done = begin(ctx, c, "shop.pay", `{"amount":3}`)
				e.decide(e.asked("shop.pay").ID, `{"approved":true,"edited_args":{"amount":30}}`)
				if o := e.ended(done); o.text() != "paid 30" {
					t.Errorf("edited: %s", o.text())
				}
				// What was approved is approved for its arguments alone.
				done = begin(ctx, c, "shop.pay", `{"amount":4}`)
				again := e.asked("shop.pay")
				e.decide(again.ID, `{"approved":true}`)
				if o := e.ended(done); o.text() != "paid 4" {
					t.Errorf("asked again: %s", o.text())
				}
				if o := e.ended(begin(ctx, c, "shop.die", `{}`)); !o.result.IsError || !strings.HasPrefix(o.text(), "blocked: ") {
					t.Errorf("blocked: %s", o.text())
				}
				if o := e.ended(begin(ctx, c, "shop.look", `{}`)); o.text() != `{"open":true}` || o.result.StructuredContent == nil {
					t.Errorf("structured: %s", o.text())
				}
				if o := e.ended(begin(ctx, c, "no.such", `{}`)); !o.result.IsError || !strings.HasPrefix(o.text(), "tool_unknown: ") {
					t.Errorf("unknown: %s", o.text())
				}
				if got := s.notes("pay"); strings.Join(got, " ") != `{"amount":1} {"amount":30} {"amount":4}` {
					t.Errorf("%v", got)
				}
			})
		}
	}
}

// TestMCPElicitation: a client whose person can be asked gets the question itself: with the approval the call runs once, a
// decline rejects it, and an answer counts for the call that it was given for. A client with an agent's token is not asked: no
// agent decides.
func TestMCPElicitation(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	e := newEnv(t, "--mcp", s.flag(), "--policy-file", policyFile(t))
	e.offers("shop.pay", true)
	var asked atomic.Int32
	answers := make(chan *mcp.ElicitResult, 8)
	options := &mcp.ClientOptions{ElicitationHandler: func(_ context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
		asked.Add(1)
		if !strings.Contains(r.Params.Message, "Run shop.pay?") || !strings.Contains(r.Params.Message, `"amount": `) {
			t.Errorf("%q", r.Params.Message)
		}
		return <-answers, nil
	}}
	c := e.connect(program.Token(), options, nil)
	answers <- &mcp.ElicitResult{Action: "accept", Content: map[string]any{"decision": "approve"}}
	if o := e.ended(begin(t.Context(), c, "shop.pay", `{"amount":1}`)); o.text() != "paid 1" {
		t.Errorf("approved: %s", o.text())
	}
	var list struct {
		Approvals []struct {
			Via string `json:"decided_via"`
		}
	}
	e.request(http.MethodGet, "/api/approvals?status=APPROVED", "", "", &list)
	if len(list.Approvals) != 1 || list.Approvals[0].Via != "mcp" {
		t.Errorf("%+v", list)
	}
	answers <- &mcp.ElicitResult{Action: "accept", Content: map[string]any{"decision": "reject", "reason": "No."}}
	if o := e.ended(begin(t.Context(), c, "shop.pay", `{"amount":2}`)); !o.result.IsError {
		t.Errorf("rejected: %s", o.text())
	}
	answers <- &mcp.ElicitResult{Action: "decline"}
	if o := e.ended(begin(t.Context(), c, "shop.pay", `{"amount":3}`)); !o.result.IsError {
		t.Errorf("declined: %s", o.text())
	}
	// Closed without an answer: it is held, and decided elsewhere.
	answers <- &mcp.ElicitResult{Action: "cancel"}
	done := begin(t.Context(), c, "shop.pay", `{"amount":4}`)
	e.decide(e.asked("shop.pay").ID, `{"approved":true}`)
	if o := e.ended(done); o.text() != "paid 4" {
		t.Errorf("decided elsewhere: %s", o.text())
	}
	before := asked.Load()
	done = begin(t.Context(), e.connect(e.token, options, nil), "shop.pay", `{"amount":5}`)
	e.decide(e.asked("shop.pay").ID, `{"approved":true}`)
	if o := e.ended(done); o.text() != "paid 5" || asked.Load() != before {
		t.Errorf("an agent: %s, asked %d times", o.text(), asked.Load()-before)
	}
	if got := strings.Join(s.notes("pay"), " "); got != `{"amount":1} {"amount":4} {"amount":5}` {
		t.Errorf("%s", got)
	}
}

// TestMCPArgumentsChanged: a client that was asked about one call and comes back with the approval and other arguments, or for
// another tool, is asked anew: the approval is for the call that was shown.
func TestMCPArgumentsChanged(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	e := newEnv(t, "--mcp", s.flag(), "--policy-file", policyFile(t))
	e.offers("shop.pay", true)
	options := &mcp.ClientOptions{
		MultiRoundTrip: &mcp.MultiRoundTripOptions{Disabled: true},
		ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			return &mcp.ElicitResult{Action: "cancel"}, nil
		},
	}
	c := e.connect(program.Token(), options, nil)
	ask := func(tool, args, state string) *mcp.CallToolResult {
		t.Helper()
		params := &mcp.CallToolParams{Name: tool, Arguments: json.RawMessage(args), RequestState: state}
		if state != "" {
			params.InputResponses = mcp.InputResponseMap{"approval": &mcp.ElicitResult{Action: "accept", Content: map[string]any{"decision": "approve"}}}
		}
		r, err := c.CallTool(t.Context(), params)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	first := ask("shop.pay", `{"amount":1}`, "")
	if !first.NeedsInput() || first.RequestState == "" {
		t.Fatalf("%+v", first)
	}
	for _, r := range []*mcp.CallToolResult{ask("shop.pay", `{"amount":1000}`, first.RequestState), ask("shop.env", `{}`, first.RequestState), ask("shop.pay", `{"amount":1}`, "made up")} {
		if !r.NeedsInput() || r.RequestState == first.RequestState {
			t.Errorf("not asked anew: %+v", r)
		}
	}
	if got := s.notes("pay"); len(got) != 0 || len(s.notes("env")) != 0 {
		t.Errorf("it ran: %v", got)
	}
	if r := ask("shop.pay", `{"amount":1}`, first.RequestState); (outcome{result: r}).text() != "paid 1" {
		t.Errorf("%+v", r)
	}
	// The same answer again changes nothing and runs nothing: the call has ended.
	if r := ask("shop.pay", `{"amount":1}`, first.RequestState); (outcome{result: r}).text() != "paid 1" {
		t.Errorf("%+v", r)
	}
	if r := ask("shop.pay", ` { "amount" : 1.0 } `, first.RequestState); (outcome{result: r}).text() != "paid 1" {
		t.Errorf("the same arguments, written otherwise: %+v", r)
	}
	// Other arguments are another call, also after the end of the one that was asked about.
	if r := ask("shop.pay", `{"amount":1001}`, first.RequestState); !r.NeedsInput() || r.RequestState == first.RequestState {
		t.Errorf("not asked anew: %+v", r)
	}
	// A person edited the arguments: the call that was asked about is the one with the first ones.
	edited := ask("shop.pay", `{"amount":5}`, "")
	id, _ := edited.Meta["aqueduct/tool_call_id"].(string)
	e.decide(id, `{"approved":true,"edited_args":{"amount":50}}`)
	if r := ask("shop.pay", `{"amount":5}`, edited.RequestState); (outcome{result: r}).text() != "paid 50" {
		t.Errorf("%+v", r)
	}
	if r := ask("shop.pay", `{"amount":50}`, edited.RequestState); !r.NeedsInput() || r.RequestState == edited.RequestState {
		t.Errorf("not asked anew: %+v", r)
	}
	if got := s.notes("pay"); len(got) != 2 {
		t.Errorf("%v", got)
	}
}

// TestMCPExpiry: a call that is not decided in time fails.
func TestMCPExpiry(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	rules := policyFile(t)
	appendTo(t, rules, "  - {name: hurry, tool: shop.env, verdict: require_approval, ttl: 1s}\n")
	e := newEnv(t, "--mcp", s.flag(), "--policy-file", rules)
	e.offers("shop.env", true)
	if o := e.ended(begin(t.Context(), e.connect(program.Token(), nil, nil), "shop.env", `{}`)); !o.result.IsError || !strings.HasPrefix(o.text(), "expired: ") || len(s.notes("env")) != 0 {
		t.Errorf("%s", o.text())
	}
}

// TestMCPServerDies: aqueduct is killed between the approval and the tool's answer. The client's call fails, the outcome is
// asked about, and nothing runs twice, also when the client makes its call again.
func TestMCPServerDies(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	e := newEnv(t, "--mcp", s.flag())
	e.offers("shop.pay", true)
	done := begin(t.Context(), e.connect(program.Token(), nil, nil), "shop.pay", `{"amount":1,"hold_ms":60000}`)
	e.decide(e.asked("shop.pay").ID, `{"approved":true}`)
	e.eventually("the shop is not called", func() error {
		if len(s.notes("pay")) != 1 {
			return errors.New("no note")
		}
		return nil
	})
	e.server.end(syscall.SIGKILL)
	if o := e.ended(done); o.err == nil {
		t.Errorf("%s", o.text())
	}
	e.start("--mcp", s.flag())
	lost := e.lost("shop.pay")
	// The Turn that the call belongs to is still open: another call goes on in it.
	c := e.connect(program.Token(), nil, nil)
	other := begin(t.Context(), c, "shop.look", `{}`)
	e.decide(e.asked("shop.look").ID, `{"approved":true}`)
	if o := e.ended(other); o.text() != `{"open":true}` {
		t.Errorf("%s", o.text())
	}
	e.decide(lost.ID, `{"payload":{"outcome":"failed"}}`)
	if got := s.notes("pay"); len(got) != 1 {
		t.Errorf("%v", got)
	}
}

// TestMCPRefusals: what /mcp takes from no one.
func TestMCPRefusals(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	const list = `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}`
	post := func(path, token, body string) int {
		req, err := http.NewRequest(http.MethodPost, e.server.url+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Accept", "application/json, text/event-stream")
		req.Header.Set("Authorization", "Bearer "+token)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		return resp.StatusCode
	}
	for name, c := range map[string]struct {
		got, want int
	}{
		"a good token":           {post("/mcp", program.Token(), list), http.StatusOK},
		"no token of ours":       {post("/mcp", "wrong", list), http.StatusUnauthorized},
		"a run token made up":    {post("/mcp", strings.TrimSuffix(e.token, e.token[len(e.token)-8:])+"AAAAAAAA", list), http.StatusUnauthorized},
		"a body too large":       {post("/mcp", program.Token(), list+strings.Repeat(" ", 2<<20)), http.StatusRequestEntityTooLarge},
		"a thread with a bad id": {post("/mcp?thread="+strings.Repeat("x", 600), program.Token(), list), http.StatusBadRequest},
	} {
		if c.got != c.want {
			t.Errorf("%s: %d, want %d", name, c.got, c.want)
		}
	}
	req, _ := http.NewRequest(http.MethodGet, e.server.url+"/mcp", nil)
	req.Header.Set("Accept", "text/event-stream")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("GET: %d", resp.StatusCode)
	}
	// A thread that has an agent of its own takes no calls of programs.
	c := e.connectTo("/mcp?thread=T", program.Token())
	if o := e.ended(begin(t.Context(), c, "x", `{}`)); !strings.HasPrefix(o.text(), "thread_of_an_agent: ") {
		t.Errorf("%s", o.text())
	}
}
