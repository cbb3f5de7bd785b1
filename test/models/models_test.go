// Package models_test starts aqueduct with a model proxy in front of an upstream on loopback, has an agent hold a Turn open,
// and lets SDKs of others call models with that agent's run token: OpenAI's for JavaScript and Go, and the Vercel AI SDK.
package models_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"aqueduct/test/nodetest"
	"aqueduct/test/program"
)

func TestMain(m *testing.M) { os.Exit(program.Main(m)) }

// patience bounds every wait of these tests.
const patience = 30 * time.Second

// proxied is a running aqueduct, and the token of an agent whose Turn is under way.
type proxied struct {
	t             *testing.T
	url, upstream string
	token         string
	release       chan struct{}
	again         func() // kills the program with -9 and starts it anew, at another address
}

func newProxied(t *testing.T) *proxied {
	t.Helper()
	up, dir := newUpstream(t), t.TempDir()
	tokens, release := make(chan string, 1), make(chan struct{})
	agent := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		if r.URL.Path != "/invoke" {
			return
		}
		_ = http.NewResponseController(w).Flush()
		tokens <- r.Header.Get("X-Aqueduct-Run-Token")
		<-release
		fmt.Fprint(w, "event: done\ndata: {}\n\n")
	}))
	t.Cleanup(agent.Close)
	file := filepath.Join(dir, "models.yaml")
	if err := os.WriteFile(file, fmt.Appendf(nil, "upstreams:\n  - {name: loopback, url: %q, models: ['m-*']}\n", up.URL+"/v1"), 0o600); err != nil {
		t.Fatal(err)
	}
	p := &proxied{t: t, upstream: up.URL, release: release}
	args := []string{"--database", "sqlite:" + filepath.Join(dir, "a.db"), "--agent", "held=" + agent.URL, "--models-file", file}
	var kill func()
	p.url, kill = serve(t, args...)
	p.again = func() {
		kill()
		p.url, kill = serve(t, args...)
	}
	go func() {
		resp, err := p.do(http.MethodPost, "/api/agui/chat", `{"threadId":"T","runId":"R","messages":[{"id":"u","role":"user","content":"go"}],"state":{},"tools":[],"context":[],"forwardedProps":{}}`)
		if err == nil {
			_, _ = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
		}
	}()
	select {
	case p.token = <-tokens:
	case <-time.After(patience):
		t.Fatal("the agent is not called")
	}
	t.Cleanup(func() {
		select {
		case <-release:
		default:
			close(release)
		}
	})
	return p
}

// serve starts the program, and gives its URL and what kills it.
func serve(t *testing.T, args ...string) (string, func()) {
	t.Helper()
	path, err := program.Shipped()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, append([]string{"serve", "--listen", "127.0.0.1:0"}, args...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = cmd.Stdout
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	found, read := make(chan string, 1), make(chan struct{})
	go func() {
		defer close(read)
		address := regexp.MustCompile(`listening on .*?(127\.0\.0\.1:\d+)`)
		for sc := bufio.NewScanner(out); sc.Scan(); {
			if m := address.FindStringSubmatch(sc.Text()); m != nil {
				found <- "http://" + m[1]
			}
		}
	}()
	kill := sync.OnceFunc(func() {
		_ = cmd.Process.Kill()
		<-read
		_ = cmd.Wait()
	})
	t.Cleanup(kill)
	select {
	case url := <-found:
		return url, kill
	case <-read:
		t.Fatal("aqueduct ended before it listened")
	case <-time.After(patience):
		t.Fatal("aqueduct does not listen")
	}
	return "", nil
}

func (p *proxied) do(method, path, body string) (*http.Response, error) {
	req, err := http.NewRequest(method, p.url+path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	return http.DefaultClient.Do(req)
}

// judge runs a file of tests under node, and then holds what is on record against what the upstream says it used.
func (p *proxied) judge(file string) {
	p.t.Helper()
	report := nodetest.Run(p.t, []string{"MODELS_URL=" + p.url + "/v1", "RUN_TOKEN=" + p.token, "UPSTREAM_URL=" + p.upstream}, file)
	p.t.Logf("node --test %s\n%s", file, nodetest.Totals(report))
	p.recorded()
}

// modelCall is a call on the trace.
type modelCall struct {
	RequestID string `json:"request_id"`
	Route     string
	Model     string
	Status    string
	Tokens    struct {
		Input, Output int64
		Estimated     bool
	}
	Error struct{ Code string }
}

// calls waits until each call that began has ended, and gives the routes of all and their ends.
func (p *proxied) calls() (routes map[string]string, ended []modelCall) {
	p.t.Helper()
	var open map[string]bool
	for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		resp, err := p.do(http.MethodGet, "/v1/sessions/T/events?limit=1000", "")
		if err != nil {
			p.t.Fatal(err)
		}
		var trace struct {
			Events []struct {
				Type    string
				Payload json.RawMessage
			}
		}
		err = json.NewDecoder(resp.Body).Decode(&trace)
		_ = resp.Body.Close()
		if err != nil {
			p.t.Fatal(err)
		}
		open, routes, ended = make(map[string]bool), make(map[string]string), nil
		for _, e := range trace.Events {
			var c modelCall
			_ = json.Unmarshal(e.Payload, &c)
			switch e.Type {
			case "llm_call_started":
				open[c.RequestID], routes[c.RequestID] = true, c.Route
			case "llm_call_done":
				delete(open, c.RequestID)
				ended = append(ended, c)
			}
		}
		if len(ended) > 0 && len(open) == 0 {
			return routes, ended
		}
		if time.Now().After(end) {
			p.t.Fatalf("%d calls are open, %d ended", len(open), len(ended))
		}
	}
}

// recorded checks every call on the trace: each that began has ended, and the tokens are the upstream's own.
func (p *proxied) recorded() {
	p.t.Helper()
	routes, ended := p.calls()
	for _, c := range ended {
		want := map[string][2]int64{"chat/completions": {11, 7}, "embeddings": {4, 0}, "responses": {5, 6}}[routes[c.RequestID]]
		cut := c.Model == "m-cut" || c.Model == "m-hangs"
		got := [2]int64{c.Tokens.Input, c.Tokens.Output}
		switch {
		case cut && (!c.Tokens.Estimated || c.Tokens.Output < 5), !cut && c.Tokens.Estimated:
			p.t.Errorf("%+v", c)
		case c.Status == "DONE" && got != want:
			p.t.Errorf("the upstream used %v: %+v", want, c)
		}
	}
	p.t.Logf("%d calls on record", len(ended))
}

func TestOpenAIForJavaScript(t *testing.T) {
	t.Parallel()
	nodetest.Need(t, "node_modules/openai/package.json", "make setup-models")
	newProxied(t).judge("openai.test.mjs")
}

func TestVercelAISDK(t *testing.T) {
	t.Parallel()
	nodetest.Need(t, "node_modules/ai/package.json", "make setup-models")
	newProxied(t).judge("aisdk.test.mjs")
}

// TestOpenAIForGo: the official SDK for Go, unmodified.
func TestOpenAIForGo(t *testing.T) {
	t.Parallel()
	p := newProxied(t)
	client := openai.NewClient(option.WithBaseURL(p.url+"/v1"), option.WithAPIKey(p.token), option.WithMaxRetries(0))
	ask := func(model string) openai.ChatCompletionNewParams {
		return openai.ChatCompletionNewParams{Model: model, Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("hi")}}
	}
	got, err := client.Chat.Completions.New(t.Context(), ask("m-text"))
	if err != nil || got.Choices[0].Message.Content != "one two three four five" || got.Usage.TotalTokens != 18 {
		t.Errorf("%+v %v", got, err)
	}
	read := func(model string) (string, openai.ChatCompletionAccumulator, error) {
		stream := client.Chat.Completions.NewStreaming(t.Context(), ask(model))
		defer stream.Close()
		text, all := "", openai.ChatCompletionAccumulator{}
		for stream.Next() {
			chunk := stream.Current()
			all.AddChunk(chunk)
			text += chunk.Choices[0].Delta.Content
		}
		return text, all, stream.Err()
	}
	if text, _, err := read("m-text"); err != nil || text != "one two three four five " {
		t.Errorf("%q %v", text, err)
	}
	if _, all, err := read("m-tool"); err != nil || all.Choices[0].Message.ToolCalls[0].Function.Arguments != `{"city":"Oslo"}` {
		t.Errorf("%+v %v", all.Choices, err)
	}
	if text, _, err := read("m-cut"); err == nil || text != "one two three four five " {
		t.Errorf("cut in mid-stream: %q %v", text, err)
	}
	for _, status := range []int{400, 429, 500} {
		_, err := client.Chat.Completions.New(t.Context(), ask(fmt.Sprintf("m-%d", status)))
		var refused *openai.Error
		if !errors.As(err, &refused) || refused.StatusCode != status || refused.Message != "failed on purpose" || refused.Code != fmt.Sprintf("c%d", status) {
			t.Errorf("%d: %v", status, err)
		}
	}
	var refused *openai.Error
	if _, err := client.Chat.Completions.New(t.Context(), ask("other")); !errors.As(err, &refused) || refused.Code != "model_unknown" {
		t.Errorf("a model that there is not: %v", err)
	}
	p.aborts(client)
	p.recorded()
}

// aborts leaves a stream in its middle; the upstream sees it within a second.
func (p *proxied) aborts(client openai.Client) {
	p.t.Helper()
	ctx, abort := context.WithCancel(p.t.Context())
	defer abort()
	stream := client.Chat.Completions.NewStreaming(ctx, openai.ChatCompletionNewParams{Model: "m-hangs", Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("hi")}})
	defer stream.Close()
	for stream.Next() {
		if stream.Current().Choices[0].Delta.Content == "five " {
			abort()
		}
	}
	if !errors.Is(stream.Err(), context.Canceled) {
		p.t.Errorf("abort: %v", stream.Err())
	}
	resp, err := http.Get(p.upstream + "/left")
	if err != nil {
		p.t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		p.t.Error("the upstream was not left within a second")
	}
}

// TestKilledInTheMiddle: a call that was under way when its server was killed ends at the next start, once, with what it costs
// at least, and is in the usage of its Turn.
func TestKilledInTheMiddle(t *testing.T) {
	t.Parallel()
	p := newProxied(t)
	client := openai.NewClient(option.WithBaseURL(p.url+"/v1"), option.WithAPIKey(p.token), option.WithMaxRetries(0))
	stream := client.Chat.Completions.NewStreaming(t.Context(), openai.ChatCompletionNewParams{
		Model: "m-hangs", Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage(strings.Repeat("hi ", 400))},
	})
	defer stream.Close()
	if !stream.Next() {
		t.Fatal(stream.Err())
	}
	p.again()
	for range 2 {
		_, ended := p.calls()
		if len(ended) != 1 || ended[0].Status != "CUT" || ended[0].Error.Code != "server_gone" || !ended[0].Tokens.Estimated || ended[0].Tokens.Input < 300 {
			t.Fatalf("on record: %+v", ended)
		}
		p.again()
	}
	for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		resp, err := p.do(http.MethodGet, "/v1/sessions/T/events?type=run_failed", "")
		if err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if strings.Contains(string(text), `"model":"m-hangs","inputTokens":3`) {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("the Turn's end: %s", text)
		}
	}
}
