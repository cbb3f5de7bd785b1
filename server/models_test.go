package server_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"aqueduct/bridge"
	"aqueduct/bridge/approval"
	"aqueduct/store"
)

// upstreamKey is what the upstreams of these tests want.
const upstreamKey = "sk-of-the-operator"

// fakeUpstream answers as a server of OpenAI's API, in the way that the model's name asks for.
type fakeUpstream struct {
	*httptest.Server

	mu    sync.Mutex
	calls []upstreamCall
	gone  chan struct{} // a caller that left was noticed
	came  chan struct{} // a call of m-mute or m-silent did
}

type upstreamCall struct {
	path, body string
	header     http.Header
}

func newUpstream(t *testing.T) *fakeUpstream {
	t.Helper()
	u := &fakeUpstream{gone: make(chan struct{}, 8), came: make(chan struct{}, 8)}
	u.Server = httptest.NewServer(u)
	t.Cleanup(u.Close)
	u.Server.Config.ErrorLog = nil
	return u
}

const (
	chunk     = `data: {"id":"c1","object":"chat.completion.chunk","model":"m","choices":[{"index":0,"delta":{%s},"finish_reason":null}],"usage":null}` + "\n\n"
	lastChunk = `data: {"id":"c1","object":"chat.completion.chunk","model":"m","choices":[],"usage":{"prompt_tokens":11,"completion_tokens":7,"total_tokens":18,"prompt_tokens_details":{"cached_tokens":3},"completion_tokens_details":{"reasoning_tokens":2}}}` + "\n\n"
)

// ServeHTTP implements http.Handler.
func (u *fakeUpstream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	raw, _ := io.ReadAll(r.Body)
	u.mu.Lock()
	u.calls = append(u.calls, upstreamCall{r.URL.Path, string(raw), r.Header})
	u.mu.Unlock()
	if r.Header.Get("Authorization") != "Bearer "+upstreamKey {
		http.Error(w, `{"error":{"message":"no key"}}`, http.StatusUnauthorized)
		return
	}
	var body struct {
		Model         string
		Stream        bool
		StreamOptions *struct {
			Usage bool `json:"include_usage"`
		} `json:"stream_options"`
	}
	_ = json.Unmarshal(raw, &body)
	w.Header().Set("X-Request-Id", "req_of_the_upstream")
	w.Header().Set("Set-Cookie", "upstream=1")
	switch {
	case body.StreamOptions != nil && r.URL.Path != "/v1/chat/completions": // as OpenAI
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprint(w, `{"error":{"message":"Unknown parameter: 'stream_options.include_usage'.","type":"invalid_request_error","code":"unknown_parameter"}}`)
	case body.Model == "m-silent":
		u.came <- struct{}{}
		<-r.Context().Done()
	case body.Model == "m-stalls" && strings.HasPrefix(r.URL.Path, "/stalls/"): // refuses, and does not end its reason
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprint(w, `{"error":{"mess`)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	case body.Model == "m-mute": // takes the call, and sends nothing
		w.Header().Set("Content-Type", "text/event-stream")
		_ = http.NewResponseController(w).Flush()
		u.came <- struct{}{}
		<-r.Context().Done()
	case body.Model == "m-usage-first":
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"object":"list","usage":{"prompt_tokens":4,"total_tokens":4},"data":[{"embedding":[`+strings.Repeat("0.25,", 40_000)+`1]}]}`)
	case strings.HasPrefix(body.Model, "m-usage-of-"):
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"choices":[{"message":{"content":"`+strings.Repeat("word ", 8)+`"}}],"usage":`+strings.TrimPrefix(body.Model, "m-usage-of-")+`}`)
	case body.Model == "m-no-usage":
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"choices":[{"message":{"content":"`+strings.Repeat("word ", 100)+`"}}]}`)
	case r.URL.Path == "/v1/models":
		fmt.Fprint(w, `{"object":"list","data":[{"id":"m-listed","object":"model","created":5,"owned_by":"them"},{"id":"other","object":"model"}]}`)
	case strings.HasPrefix(body.Model, "m-fails-"):
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Retry-After", "7")
		var status int
		_, _ = fmt.Sscanf(body.Model, "m-fails-%d", &status)
		w.WriteHeader(status)
		fmt.Fprintf(w, `{"error":{"message":"failed on purpose","type":"x","code":"c%d"}}`, status)
	case r.URL.Path == "/v1/embeddings":
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"object":"list","data":[{"embedding":[`+strings.Repeat("0.25,", 40_000)+`1]}],"usage":{"prompt_tokens":4,"total_tokens":4}}`)
	case r.URL.Path == "/v1/responses":
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, "event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"delta\":\"hi\"}\n\n"+
			"event: response.completed\ndata: {\"type\":\"response.completed\",\"response\":{\"usage\":{\"input_tokens\":5,\"input_tokens_details\":{\"cached_tokens\":1},\"output_tokens\":6,\"output_tokens_details\":{\"reasoning_tokens\":4}}}}\n\n")
	case !body.Stream:
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"id":"c1","choices":[{"message":{"role":"assistant","content":"say \"usage\":{\"prompt_tokens\":999}"}}],"usage":{"prompt_tokens":11,"completion_tokens":7,"total_tokens":18},"service_tier":"x"}`)
	default:
		u.stream(w, r, body.Model, body.StreamOptions != nil && body.StreamOptions.Usage)
	}
}

func (u *fakeUpstream) stream(w http.ResponseWriter, r *http.Request, model string, usage bool) {
	w.Header().Set("Content-Type", "text/event-stream")
	fmt.Fprintf(w, chunk, `"role":"assistant","content":""`)
	for i := range 5 {
		fmt.Fprintf(w, chunk, fmt.Sprintf(`"content":"word %d "`, i))
		_ = http.NewResponseController(w).Flush()
	}
	switch model {
	case "m-cut":
		fmt.Fprint(w, `data: {"id":"c1","choices":[{"delta":{"cont`)
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	case "m-hangs":
		<-r.Context().Done()
		u.gone <- struct{}{}
		return
	}
	if usage {
		fmt.Fprint(w, lastChunk)
	}
	fmt.Fprint(w, "data: [DONE]\n\n")
}

func (u *fakeUpstream) last() upstreamCall {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.calls[len(u.calls)-1]
}

// modelEnv is a server with a model proxy, and an agent that holds its Turn open.
type modelEnv struct {
	*env
	upstream *fakeUpstream
	token    string
	release  func()
	chatted  chan string
}

// newModelEnv takes the text of a models file, in which URL stands for the upstream's.
func newModelEnv(t *testing.T, file string) *modelEnv {
	t.Helper()
	return newModelEnvWith(t, file, plan{})
}

func newModelEnvWith(t *testing.T, file string, p plan) *modelEnv {
	t.Helper()
	p, u := withModels(t, file, p)
	tokens, released := make(chan string, 1), make(chan struct{})
	w := &modelEnv{upstream: u, release: sync.OnceFunc(func() { close(released) }), chatted: make(chan string, 1)}
	w.env = newEnvWith(t, func(ctx context.Context, say func(...bridge.Output), call bridge.Call, _ []approval.Delivery) {
		tokens <- call.RunToken
		select {
		case <-released:
		case <-ctx.Done():
		}
		say(bridge.Output{End: &bridge.End{}})
	}, p)
	go func() { // until the test lets go, which is when its context has ended
		resp, err := http.Post(w.URL+"/api/agui/chat", "application/json", strings.NewReader(inputBody("T", "R", "go")))
		if err != nil {
			w.chatted <- err.Error()
			return
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		w.chatted <- fmt.Sprint(string(text), err)
	}()
	w.token = <-tokens
	t.Cleanup(func() {
		w.release()
		<-w.chatted
	})
	return w
}

const oneUpstream = "upstreams:\n  - {name: main, url: URL/v1, key_file: k, models: ['m*']}\nprices:\n  - {model: 'm*', input: 2, cached_input: 1, output: 10}\n"

func (w *modelEnv) post(ctx context.Context, path, body string) *http.Response {
	w.t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.URL+path, strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+w.token)
	req.Header.Set("X-Secret-Of-The-Agent", "1")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = resp.Body.Close() })
	return resp
}

func (w *modelEnv) posted(path, body string) (*http.Response, string) {
	w.t.Helper()
	resp := w.post(w.t.Context(), path, body)
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return resp, string(text)
}

// recorded is the end of the call that a response is of, when it is kept.
func (w *modelEnv) recorded(resp *http.Response) store.ModelCall {
	w.t.Helper()
	id := resp.Header.Get("X-Aqueduct-Request-Id")
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		c, err := w.store.ModelCall(w.t.Context(), scope(), id)
		if err == nil && c.Status != store.ModelOpen {
			return c
		}
		if time.Now().After(end) {
			w.t.Fatalf("the call %s is %+v %v", id, c, err)
		}
	}
}

// TestModelStream: a stream passes byte for byte. Its usage is asked for and recorded, and given to the agent only where it
// asked for it too.
func TestModelStream(t *testing.T) {
	t.Parallel()
	onBothDatabases(t, testModelStream)
}

func testModelStream(t *testing.T, db database) {
	t.Helper()
	w := newModelEnvWith(t, oneUpstream, plan{open: db.open})
	whole := strings.Builder{}
	fmt.Fprintf(&whole, chunk, `"role":"assistant","content":""`)
	for i := range 5 {
		fmt.Fprintf(&whole, chunk, fmt.Sprintf(`"content":"word %d "`, i))
	}
	const done = "data: [DONE]\n\n"
	for body, want := range map[string]string{
		`{"model":"m1","stream":true,"messages":[]}`:                                                                  whole.String() + done,
		`{"stream_options":{"x":1},"stream":true,"model":"m1"}`:                                                       whole.String() + done,
		`{"stream_options":null,"stream":true,"model":"m1"}`:                                                          whole.String() + done,
		`{"model":"m1","stream":true,"stream_options":{"include_usage":true}}`:                                        whole.String() + lastChunk + done,
		`{"model":"x","model":"m1","stream":true,"deep":` + strings.Repeat("[", 200) + strings.Repeat("]", 200) + `}`: whole.String() + done,
	} {
		resp, got := w.posted("/v1/chat/completions", body)
		if resp.StatusCode != 200 || got != want || resp.Header.Get("Content-Type") != "text/event-stream" {
			t.Errorf("%.80s: %d\n%s\nwant\n%s", body, resp.StatusCode, got, want)
		}
		if resp.Header.Get("X-Request-Id") != "req_of_the_upstream" || resp.Header.Get("Set-Cookie") != "" {
			t.Errorf("the answer has %v", resp.Header)
		}
		call := w.upstream.last()
		var sent struct {
			StreamOptions map[string]any `json:"stream_options"`
		}
		if err := json.Unmarshal([]byte(call.body), &sent); err != nil || sent.StreamOptions["include_usage"] != true ||
			strings.Contains(body, `"x":1`) && sent.StreamOptions["x"] != 1.0 {
			t.Errorf("%.80s was sent as %s %v", body, call.body, err)
		}
		if call.header.Get("X-Secret-Of-The-Agent") != "" || strings.Contains(fmt.Sprint(call.header), w.token) {
			t.Errorf("the upstream got %v", call.header)
		}
		c := w.recorded(resp)
		if want := (store.ModelTokens{Input: 11, Cached: 3, Output: 7, Reasoning: 2}); c.Tokens != want || c.Status != store.ModelDone || c.Upstream != "main" ||
			c.Cost != 8*2+3*1+7*10 || c.FirstTokenAt.IsZero() {
			t.Errorf("recorded as %+v", c)
		}
	}
}

// TestModelAnswers: answers that are no chat stream pass as they are, and what they used is recorded.
func TestModelAnswers(t *testing.T) {
	t.Parallel()
	onBothDatabases(t, testModelAnswers)
}

func testModelAnswers(t *testing.T, db database) {
	t.Helper()
	w := newModelEnvWith(t, oneUpstream, plan{open: db.open})
	for call, want := range map[string]store.ModelTokens{
		"/v1/chat/completions": {Input: 11, Output: 7}, "/v1/embeddings": {Input: 4}, "/v1/responses": {Input: 5, Cached: 1, Output: 6, Reasoning: 4},
		`/v1/responses ,"stream":true`: {Input: 5, Cached: 1, Output: 6, Reasoning: 4},
	} {
		path, more, _ := strings.Cut(call, " ")
		body := `{"model":"m1","input":"hi"` + more + `}`
		resp, got := w.posted(path, body)
		direct, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.upstream.URL+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		direct.Header.Set("Authorization", "Bearer "+upstreamKey)
		plain, err := http.DefaultClient.Do(direct)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(plain.Body)
		_ = plain.Body.Close()
		if err != nil || resp.StatusCode != 200 || got != string(text) {
			t.Errorf("%s: %d, %d bytes, the upstream sent %d %v", path, resp.StatusCode, len(got), len(text), err)
		}
		if c := w.recorded(resp); c.Tokens != want || c.Route != strings.TrimPrefix(path, "/v1/") {
			t.Errorf("%s is recorded as %+v", path, c)
		}
	}
}

// TestModelFailures: what the upstream refuses reaches the agent as it is, and is on record.
func TestModelFailures(t *testing.T) {
	t.Parallel()
	w := newModelEnv(t, oneUpstream)
	for _, status := range []int{400, 401, 429, 500, 503} {
		resp, got := w.posted("/v1/chat/completions", fmt.Sprintf(`{"model":"m-fails-%d","stream":true}`, status))
		if resp.StatusCode != status || got != fmt.Sprintf(`{"error":{"message":"failed on purpose","type":"x","code":"c%d"}}`, status) || resp.Header.Get("Retry-After") != "7" {
			t.Errorf("%d: %d %s %v", status, resp.StatusCode, got, resp.Header)
		}
		if c := w.recorded(resp); c.Status != store.ModelFailed || c.Code != "upstream_status" || c.Tokens != (store.ModelTokens{}) {
			t.Errorf("%d is recorded as %+v", status, c)
		}
	}
}

// TestModelRefused: what is not passed on is refused in a form that clients of OpenAI's API read.
func TestModelRefused(t *testing.T) {
	t.Parallel()
	w := newModelEnv(t, oneUpstream+"currency: EUR\n")
	good := w.token
	for _, c := range []struct {
		token, body string
		status      int
		code        string
	}{
		{good, `{"model":"other"}`, 404, "model_unknown"},
		{good, `{"messages":[]}`, 400, "invalid_body"},
		{good, `{"model":"m","stream":"yes"}`, 400, "invalid_body"},
		{good, `{"model":"m"} {}`, 400, "invalid_body"},
		{good, `[]`, 400, "invalid_body"},
		{"run_" + strings.Repeat("0", 8), `{"model":"m"}`, 401, "unauthorized"},
		{good + "x", `{"model":"m"}`, 401, "unauthorized"},
		{upstreamKey, `{"model":"m"}`, 401, "unauthorized"},
	} {
		w.token = c.token
		resp, got := w.posted("/v1/chat/completions", c.body)
		var answer struct {
			Code  string
			Error struct{ Message, Type, Code string }
		}
		if err := json.Unmarshal([]byte(got), &answer); err != nil || resp.StatusCode != c.status || answer.Error.Code != c.code || answer.Code != c.code ||
			answer.Error.Message == "" || answer.Error.Type == "" {
			t.Errorf("%.20s: %d %s", c.body, resp.StatusCode, got)
		}
	}
	w.token = good
}

// TestS24Background: a response that an upstream goes on with when its agent has left is not begun: what it uses would be on no
// record and in no budget. A member in another spelling does not go on.
func TestS24Background(t *testing.T) {
	t.Parallel()
	w := newModelEnv(t, oneUpstream)
	for member, want := range map[string]int{
		`"background":true`: 400, `"background":true,"stream":true`: 400, `"background":1`: 400, `"background":false,"Background":true`: 200, `"background":false`: 200, `"background":null`: 200,
	} {
		if resp, got := w.posted("/v1/responses", `{"model":"m","input":"x",`+member+`}`); resp.StatusCode != want {
			t.Errorf("%s: %d %s", member, resp.StatusCode, got)
		}
	}
}

// TestModelFallback: the upstream that names a model comes before one with a pattern, and the next is tried where one
// fails before its answer.
func TestModelFallback(t *testing.T) {
	t.Parallel()
	w := newModelEnv(t, `upstreams:
  - {name: dead, url: "http://127.0.0.1:1/v1", models: ["m*"]}
  - {name: keyless, url: URL/v1, models: ["keyless"]}
  - {name: main, url: URL/v1, key_file: k, models: ["m*", "keyless"]}
  - {name: first, url: URL/v1, key_file: k, models: ["m-named"]}
`)
	upstream := func(model string) (store.ModelCall, int) {
		resp, _ := w.posted("/v1/chat/completions", `{"model":"`+model+`"}`)
		return w.recorded(resp), resp.StatusCode
	}
	if c, status := upstream("m1"); c.Upstream != "main" || status != 200 {
		t.Errorf("behind one that is away: %+v %d", c, status)
	}
	if c, status := upstream("m-named"); c.Upstream != "first" || status != 200 {
		t.Errorf("one that names the model: %+v %d", c, status)
	}
	if c, status := upstream("m-fails-500"); c.Upstream != "main" || status != 500 {
		t.Errorf("the last one's answer: %+v %d", c, status)
	}
	if c, status := upstream("keyless"); c.Upstream != "keyless" || status != 401 {
		t.Errorf("a refusal is not tried again: %+v %d", c, status)
	}
	trace := w.do("GET", "/v1/sessions/T/events?type=llm_call_done", "").body
	if !strings.Contains(trace, `"failed_upstreams":["dead"]`) {
		t.Errorf("the trace has %s", trace)
	}
}

// TestModelFallbackFromStalled: an upstream that fails and does not end its answer does not keep the next one from being tried.
func TestModelFallbackFromStalled(t *testing.T) {
	t.Parallel()
	w := newModelEnv(t, "upstreams:\n  - {name: stalls, url: URL/stalls/v1, key_file: k, models: ['m*']}\n  - {name: main, url: URL/v1, key_file: k, models: ['m*']}\n")
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if c := w.recorded(w.post(ctx, "/v1/chat/completions", `{"model":"m-stalls"}`)); c.Upstream != "main" || c.Status != store.ModelDone {
		t.Errorf("recorded as %+v", c)
	}
}

// TestModelUnreachable: without any answer the agent gets one of ours, without an address.
func TestModelUnreachable(t *testing.T) {
	t.Parallel()
	w := newModelEnv(t, "upstreams:\n  - {name: dead, url: \"http://127.0.0.1:1/v1\", models: [\"*\"]}\n")
	resp, got := w.posted("/v1/chat/completions", `{"model":"m"}`)
	if resp.StatusCode != 502 || !strings.Contains(got, `"model_unreachable"`) || strings.Contains(got, "127.0.0.1") {
		t.Errorf("%d %s", resp.StatusCode, got)
	}
	if c := w.recorded(resp); c.Status != store.ModelFailed || c.Code != "model_unreachable" {
		t.Errorf("recorded as %+v", c)
	}
}

// TestModelCut: an answer that breaks off breaks off for the agent too, and what came of it is estimated.
func TestModelCut(t *testing.T) {
	t.Parallel()
	onBothDatabases(t, testModelCut)
}

func testModelCut(t *testing.T, db database) {
	t.Helper()
	w := newModelEnvWith(t, oneUpstream, plan{open: db.open})
	resp := w.post(t.Context(), "/v1/chat/completions", `{"model":"m-cut","stream":true}`)
	text, err := io.ReadAll(resp.Body)
	if err == nil || !strings.HasSuffix(string(text), `{"delta":{"cont`) {
		t.Errorf("%v behind %s", err, text)
	}
	c := w.recorded(resp)
	if c.Status != store.ModelFailed || c.Code != "upstream_truncated" || !c.Tokens.Estimated || c.Tokens.Output < 5 || c.Tokens.Input == 0 || c.Cost == 0 {
		t.Errorf("recorded as %+v", c)
	}
}

// TestModelCallerLeaves: the upstream is left within a second, and what the agent got is on record.
func TestModelCallerLeaves(t *testing.T) {
	t.Parallel()
	onBothDatabases(t, testModelCallerLeaves)
}

func testModelCallerLeaves(t *testing.T, db database) {
	t.Helper()
	w := newModelEnvWith(t, oneUpstream, plan{open: db.open})
	ctx, leave := context.WithCancel(t.Context())
	resp := w.post(ctx, "/v1/chat/completions", `{"model":"m-hangs","stream":true}`)
	for lines := bufio.NewScanner(resp.Body); lines.Scan() && !strings.Contains(lines.Text(), "word 4"); {
	}
	leave()
	select {
	case <-w.upstream.gone:
	case <-time.After(time.Second):
		t.Error("the upstream was not left within a second")
	}
	c := w.recorded(resp)
	if c.Status != store.ModelCut || c.Code != "client_left" || c.Tokens.Output != 6 || !c.Tokens.Estimated || c.FirstTokenAt.IsZero() {
		t.Errorf("recorded as %+v", c)
	}
}

// endedOn waits for the end of the only call of a Turn.
func (w *modelEnv) endedOn(turn string) store.ModelUsage {
	w.t.Helper()
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		rows, err := w.store.UsageOfTurn(w.t.Context(), store.System(), turn)
		if err == nil && len(rows) == 1 {
			return rows[0]
		}
		if time.Now().After(end) {
			w.t.Fatalf("%+v %v", rows, err)
		}
	}
}

// TestModelLeftBeforeAnyEvent: a call that an upstream may be at work on is not free because its agent did not wait for the
// first event.
func TestModelLeftBeforeAnyEvent(t *testing.T) {
	t.Parallel()
	for _, model := range []string{"m-mute", "m-silent"} {
		t.Run(model, func(t *testing.T) {
			t.Parallel()
			w := newModelEnv(t, oneUpstream)
			run, err := w.store.FindRun(t.Context(), scope(), "R")
			if err != nil {
				t.Fatal(err)
			}
			body := `{"model":"` + model + `","stream":true,"messages":["` + strings.Repeat("x", 400) + `"]}`
			req := w.request(http.MethodPost, "/v1/chat/completions", body, bearerOf(w.token)...)
			ctx, leave := context.WithCancel(t.Context())
			left := make(chan struct{})
			go func() {
				defer close(left)
				if resp, err := http.DefaultClient.Do(req.WithContext(ctx)); err == nil {
					_ = resp.Body.Close()
				}
			}()
			<-w.upstream.came
			leave()
			<-left
			if c := w.endedOn(run.TurnID); !c.Tokens.Estimated || c.Tokens.Input != int64(len(body)/4) || c.Tokens.Output != 0 || c.Cost != 2*c.Tokens.Input {
				t.Errorf("recorded as %+v", c)
			}
		})
	}
}

// TestModelUsagePlaces: a usage that stands before the data of a large answer is found, and an answer without any is estimated.
func TestModelUsagePlaces(t *testing.T) {
	t.Parallel()
	w := newModelEnv(t, oneUpstream)
	for path, want := range map[string]store.ModelTokens{
		"/v1/embeddings m-usage-first": {Input: 4}, "/v1/embeddings m-no-usage": {Input: 10, Estimated: true}, "/v1/chat/completions m-no-usage": {Input: 10, Output: 135, Estimated: true},
	} {
		path, model, _ := strings.Cut(path, " ")
		body := `{"model":"` + model + `","input":"`
		resp, _ := w.posted(path, body+strings.Repeat("x", 42-len(body)-2)+`"}`)
		if c := w.recorded(resp); c.Tokens != want {
			t.Errorf("%s %s: %+v", path, model, c.Tokens)
		}
	}
}

// TestS24UsageForged: an upstream's count that no call can have does not make a call free, give a budget back, or keep the end
// of the call from being on record. A price that is less than nothing is none either.
func TestS24UsageForged(t *testing.T) {
	t.Parallel()
	onBothDatabases(t, func(t *testing.T, db database) {
		w := newModelEnvWith(t, oneUpstream+"budgets:\n  - {of: tenant, tokens: 4000000000000000000, cost: 9000000000000}\n", plan{open: db.open})
		for _, usage := range []string{
			`{"prompt_tokens":-5,"completion_tokens":-1000000}`, `{"prompt_tokens":9223372036854775807,"completion_tokens":9223372036854775807}`,
			`{"prompt_tokens":10,"completion_tokens":1,"prompt_tokens_details":{"cached_tokens":1000000000}}`,
			`{"prompt_tokens":10,"input_tokens":9223372036854775807,"output_tokens":1}`, `{"prompt_tokens":10,"completion_tokens":1,"prompt_tokens_details":{"cached_tokens":-7}}`,
			`{"prompt_tokens":1e400}`, `{}`,
		} {
			model, _ := json.Marshal("m-usage-of-" + usage)
			resp, text := w.posted("/v1/chat/completions", `{"model":`+string(model)+`,"messages":[]}`)
			if resp.StatusCode != 200 {
				t.Fatal(resp.StatusCode, text)
			}
			c := w.recorded(resp)
			if k := c.Tokens; k.Input < 0 || k.Output < 0 || k.Cached < 0 || k.Cached > k.Input || k.Reasoning < 0 || k.Input+k.Output <= 0 || c.Cost <= 0 {
				t.Errorf("%s is recorded as %+v, cost %d", usage, k, c.Cost)
			}
		}
		who := store.LocalPrincipal()
		for _, name := range []string{"tenant:tokens", "tenant:cost"} {
			key := store.BudgetKey{Tenant: who.Tenant, Budget: name, Period: time.Now().UTC().Format(time.DateOnly)}
			if use, err := w.store.BudgetUse(t.Context(), store.System(), key); err != nil || use.Used <= 0 {
				t.Errorf("%+v %v", use, err)
			}
		}
	})
}

// TestModelList: what can be called.
func TestModelList(t *testing.T) {
	t.Parallel()
	w := newModelEnv(t, "upstreams:\n  - {name: main, url: URL/v1, key_file: k, models: [exact, \"m-*\"]}\n  - {name: dead, url: \"http://127.0.0.1:1/v1\", models: [more]}\n")
	got := w.do("GET", "/v1/models", "", bearerOf(w.token)...)
	var list struct {
		Object string
		Data   []struct{ ID string }
	}
	if err := json.Unmarshal([]byte(got.body), &list); err != nil || got.status != 200 || list.Object != "list" {
		t.Fatal(got, err)
	}
	var ids []string
	for _, m := range list.Data {
		ids = append(ids, m.ID)
	}
	if want := []string{"exact", "m-listed", "more"}; !slices.Equal(ids, want) {
		t.Errorf("%v, want %v", ids, want)
	}
	if got := w.do("GET", "/v1/models", ""); got.status != 401 {
		t.Error(got)
	}
}

// readTo reads up to and with a text, as an agent does that goes on at once when it has what ends an answer.
func readTo(t *testing.T, from io.Reader, last string) {
	t.Helper()
	var text []byte
	for buf := make([]byte, 1<<10); !strings.HasSuffix(string(text), last); {
		n, err := from.Read(buf)
		if text = append(text, buf[:n]...); err != nil && !strings.HasSuffix(string(text), last) {
			t.Fatalf("%s: %v", text, err)
		}
	}
}

// TestModelUsageOfTurn: RUN_FINISHED adds up what the Turn's calls used, also those whose agent goes on in the moment in which
// it has the answer, plain or streamed; and the trace has each call under its Turn.
func TestModelUsageOfTurn(t *testing.T) {
	t.Parallel()
	onBothDatabases(t, testModelUsageOfTurn)
}

func testModelUsageOfTurn(t *testing.T, db database) {
	t.Helper()
	w := newModelEnvWith(t, oneUpstream, plan{open: db.open})
	const rounds = 10 // one may be in order by chance
	for range rounds {
		for body, last := range map[string]string{`{"model":"m1"}`: `"service_tier":"x"}`, `{"model":"m1","stream":true}`: "data: [DONE]\n\n"} {
			resp := w.post(t.Context(), "/v1/chat/completions", body)
			readTo(t, resp.Body, last)
			if c, err := w.store.ModelCall(t.Context(), scope(), resp.Header.Get("X-Aqueduct-Request-Id")); err != nil || c.Status != store.ModelDone {
				t.Fatalf("%s: the agent has the whole answer, and its call is %s %v", body, c.Status, err)
			}
		}
	}
	w.release()
	chatted := <-w.chatted
	w.chatted <- ""
	if want := `"usage":[{"provider":"main","model":"m1","inputTokens":220,"outputTokens":140,"totalTokens":360,"reasoningTokens":20,"cachedInputTokens":30}]`; !strings.Contains(chatted, want) {
		t.Errorf("no %s in %s", want, chatted)
	}
	var trace struct {
		Events []struct {
			Type    string
			RunID   string `json:"run_id"`
			Payload json.RawMessage
		}
	}
	if err := json.Unmarshal([]byte(w.do("GET", "/v1/sessions/T/events", "").body), &trace); err != nil {
		t.Fatal(err)
	}
	open, ended := map[string]bool{}, 0
	schemas := traceSchemas(t)
	for _, e := range trace.Events {
		var payload struct {
			RequestID string `json:"request_id"`
			Model     string
			Tokens    map[string]any
		}
		if !strings.HasPrefix(e.Type, "llm_call_") {
			continue
		}
		if wrong := schemas[e.Type].fits(e.Payload); wrong != nil {
			t.Errorf("%s: %v", e.Type, wrong)
		}
		if err := json.Unmarshal(e.Payload, &payload); err != nil {
			t.Fatal(err)
		}
		if e.Type == "llm_call_started" {
			open[payload.RequestID] = e.RunID != ""
			continue
		}
		if ended++; !open[payload.RequestID] || payload.Model != "m1" || payload.Tokens["input"] != 11.0 {
			t.Errorf("%s", e.Payload)
		}
	}
	if ended != 2*rounds {
		t.Errorf("%d calls on the trace", ended)
	}
}

// modelCases are the requests that get the codes of the model proxy.
func modelCases(t *testing.T, cases map[string]func() answer) {
	w := newModelEnvWith(t, "upstreams:\n  - {name: main, url: URL/v1, key_file: k, models: [\"m*\"]}\n  - {name: dead, url: \"http://127.0.0.1:1/v1\", models: [dead]}\n",
		plan{modelClient: &http.Client{Timeout: 100 * time.Millisecond}})
	asks := func(model string) func() answer {
		return func() answer {
			return w.do("POST", "/v1/chat/completions", `{"model":"`+model+`"}`, bearerOf(w.token)...)
		}
	}
	spent := withBudgets(t, "  - {of: run, tokens: 1}\n")
	cases["budget_exhausted"] = func() answer {
		first, _ := spent.posted("/v1/chat/completions", callM1)
		spent.recorded(first)
		waits := spent.calls()
		id, _ := spent.asked()
		spent.decide(id, `{"decision":"reject"}`)
		<-waits
		return spent.do("POST", "/v1/chat/completions", callM1, bearerOf(spent.token)...)
	}
	cases["model_unknown"], cases["model_unreachable"], cases["model_timeout"] = asks("other"), asks("dead"), asks("m-silent")
}
