package server_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"aqueduct/server/llmproxy"
)

// modelRoutes are the routes by which a model is called.
var modelRoutes = []string{"/v1/chat/completions", "/v1/embeddings", "/v1/responses"}

// TestS24TwinModels: of several members that a decoder could take for the model the upstream gets one, which is the one that was
// looked up and is on record.
func TestS24TwinModels(t *testing.T) {
	t.Parallel()
	w := newModelEnv(t, oneUpstream)
	for _, path := range modelRoutes {
		for _, body := range []string{
			`{"model":"expensive","model":"m1"}`, `{"model":"m1","Model":"expensive"}`, `{"MODEL":"expensive","model":"m1"}`,
			`{"mod\u0065l":"expensive","model":"m1"}`, `{"model":"expensive","mod\u0065l":"m1"}`, `{"model":{"x":1},"model":"m1"}`, `{"model":null,"model":"m1","moDel":["expensive"]}`,
		} {
			resp, got := w.posted(path, body)
			if resp.StatusCode != http.StatusOK {
				t.Errorf("%s %s: %d %s", path, body, resp.StatusCode, got)
				continue
			}
			sent := w.upstream.last().body
			if strings.Contains(sent, "expensive") || strings.Count(strings.ToLower(sent), `"model"`) != 1 {
				t.Errorf("%s %s is sent as %s", path, body, sent)
			}
			if c := w.recorded(resp); c.Model != "m1" {
				t.Errorf("%s %s is on record as %q", path, body, c.Model)
			}
		}
		for _, body := range []string{`{"model":"m1","model":"expensive"}`, `{"Model":"m1"}`, `{"model":["m1"]}`, `{"model":"m1","mod\u0065l":7}`} {
			if resp, got := w.posted(path, body); resp.StatusCode/100 != 4 {
				t.Errorf("%s %s: %d %s", path, body, resp.StatusCode, got)
			}
		}
	}
}

// TestS24NamesLeadNowhere: a model's name with line ends, paths, addresses or queries in it is refused or stays in the body: no header and no
// other path of the upstream is reached by it.
func TestS24NamesLeadNowhere(t *testing.T) {
	t.Parallel()
	w := newModelEnv(t, oneUpstream)
	for _, name := range []string{
		"m\r\nX-Injected: 1", "m\nX-Injected: 1", "m\r", "m\u2028x", "m\u0085x", "m/../../admin", "../models", "m%2e%2e%2fadmin", "m?x=1", "m#x", "m\\\\..\\\\admin",
		"http://127.0.0.1:1/m", "m@127.0.0.1:1", "m\u0000", "m/v1/files",
	} {
		for _, path := range modelRoutes {
			w.upstream.mu.Lock()
			w.upstream.calls = nil
			w.upstream.mu.Unlock()
			resp, got := w.posted(path, `{"model":"`+name+`"}`)
			if resp.StatusCode >= 500 {
				t.Errorf("%s: %d %s", name, resp.StatusCode, got)
			}
			w.upstream.mu.Lock()
			calls := slices.Clone(w.upstream.calls)
			w.upstream.mu.Unlock()
			for _, c := range calls {
				if c.path != path || c.header.Get("X-Injected") != "" {
					t.Errorf("%s is sent to %s with %v", name, c.path, c.header)
				}
			}
			if len(resp.Header.Values("X-Injected")) > 0 {
				t.Errorf("%s: the answer has %v", name, resp.Header)
			}
		}
	}
}

// TestS24SteeringMembers: a body that names the address, the key or the headers of the call is refused, and the key goes nowhere.
func TestS24SteeringMembers(t *testing.T) {
	t.Parallel()
	var stolen atomic.Int32
	thief := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { stolen.Add(1) }))
	defer thief.Close()
	w := newModelEnv(t, oneUpstream)
	for _, path := range modelRoutes {
		for _, member := range []string{"api_base", "base_url", "api_key", "headers", "extra_headers", "extra_body", "organization", "API_BASE", "Base_URL", "api_b\\u0061se", "user_config"} {
			body := fmt.Sprintf(`{"model":"m1","%s":%q}`, member, thief.URL)
			if resp, got := w.posted(path, body); resp.StatusCode != http.StatusBadRequest || !strings.Contains(got, "invalid_body") {
				t.Errorf("%s %s: %d %s", path, body, resp.StatusCode, got)
			}
		}
		// The agent's own headers say nothing either, and a member of that name deeper in the body is the model's business.
		req := w.request("POST", path, `{"model":"m1","metadata":{"api_base":"x"}}`, "Authorization", "Bearer "+w.token, "X-Api-Base", thief.URL,
			"Openai-Organization", "org-mine", "Api-Key", "mine")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			t.Errorf("%s: %d", path, resp.StatusCode)
		}
		if got := fmt.Sprint(w.upstream.last().header); strings.Contains(got, "mine") || strings.Contains(got, thief.URL) {
			t.Errorf("the upstream gets %s", got)
		}
	}
	if stolen.Load() > 0 {
		t.Error("another server was called")
	}
}

// odd is an upstream that answers as a test wants.
func odd(t *testing.T, p plan, answer http.HandlerFunc, more string) *modelEnv {
	t.Helper()
	u := httptest.NewServer(answer)
	t.Cleanup(u.Close)
	p.modelClient = &http.Client{Transport: http.DefaultTransport} // follows redirects, but for what the proxy does about it
	return newModelEnvWith(t, "upstreams:\n  - {name: odd, url: "+u.URL+"/v1, key_file: k, models: ['odd*'], "+more+"}\n  - {name: main, url: URL/v1, key_file: k, models: ['m*']}\n", p)
}

// TestS24Redirects: a redirect is not followed, on any route and to any place: neither the key, in either header, nor the conversation
// goes there.
func TestS24Redirects(t *testing.T) {
	t.Parallel()
	for _, header := range []string{"", "key_header: api-key"} {
		var stolen atomic.Int32
		thief := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { stolen.Add(1) }))
		t.Cleanup(thief.Close)
		var status atomic.Int32
		var came atomic.Int32
		w := odd(t, plan{}, func(rw http.ResponseWriter, r *http.Request) {
			came.Add(1)
			if r.URL.Path == "/elsewhere" {
				stolen.Add(1)
				return
			}
			to := thief.URL + "/take"
			if r.URL.Query().Has("here") || came.Load()%2 == 0 {
				to = "/elsewhere"
			}
			rw.Header().Set("Location", to)
			rw.WriteHeader(int(status.Load()))
		}, header)
		for _, code := range []int{301, 302, 303, 307, 308} {
			status.Store(int32(code))
			for _, path := range modelRoutes {
				for range 2 {
					resp, got := w.posted(path, `{"model":"odd","messages":[{"role":"user","content":"secret words"}]}`)
					if resp.StatusCode != http.StatusBadGateway || !strings.Contains(got, "model_unreachable") || strings.Contains(got, thief.URL) || resp.Header.Get("Location") != "" {
						t.Errorf("%d %s: %d %s %v", code, path, resp.StatusCode, got, resp.Header)
					}
				}
			}
			w.do("GET", "/v1/models", "", bearerOf(w.token)...)
		}
		if stolen.Load() > 0 {
			t.Errorf("a redirect was followed %d times", stolen.Load())
		}
	}
}

// lockedBuffer is a buffer for logs of several goroutines.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// TestS24KeysInErrors: an upstream that repeats the operator's key, in an error, an answer, a header or a stream that cuts it, does not give it to
// the agent; nor is it in the log, in the trace or in the error of an upstream that cannot be reached.
func TestS24KeysInErrors(t *testing.T) {
	t.Parallel()
	log := &lockedBuffer{}
	w := odd(t, plan{log: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))}, func(rw http.ResponseWriter, r *http.Request) {
		var body struct{ Model string }
		_ = json.NewDecoder(r.Body).Decode(&body)
		key := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		rw.Header().Set("Openai-Debug", key)
		rw.Header().Set("X-Request-Id", "req-"+key)
		rw.Header().Set("Content-Type", "application/json")
		switch body.Model {
		case "odd-dies":
			panic(http.ErrAbortHandler)
		case "odd-stream":
			rw.Header().Set("Content-Type", "text/event-stream")
			for _, piece := range []string{`data: {"choices":[{"delta":{"content":"key `, key[:5], key[5:] + `"}}]}` + "\n\n", "data: [DONE]\n\n"} {
				fmt.Fprint(rw, piece)
				_ = http.NewResponseController(rw).Flush()
			}
			return
		case "odd-cut": // breaks off behind the key's beginning
			rw.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprint(rw, "data: "+key)
			_ = http.NewResponseController(rw).Flush()
			panic(http.ErrAbortHandler)
		case "odd-200":
			fmt.Fprintf(rw, `{"choices":[],"echo":%q}`, key)
			return
		}
		var status int
		_, _ = fmt.Sscanf(body.Model, "odd-%d", &status)
		rw.WriteHeader(status)
		fmt.Fprintf(rw, `{"error":{"message":"Incorrect API key provided: %s."}}`, key)
	}, "")
	for _, model := range []string{"odd-400", "odd-401", "odd-403", "odd-429", "odd-500", "odd-503", "odd-200", "odd-stream", "odd-cut", "odd-dies"} {
		for _, path := range modelRoutes {
			if path == "/v1/embeddings" && (model == "odd-stream" || model == "odd-cut") {
				continue // they have no stream
			}
			resp := w.post(t.Context(), path, `{"model":"`+model+`","stream":`+fmt.Sprint(model == "odd-stream")+`}`)
			var got bytes.Buffer
			_, _ = got.ReadFrom(resp.Body) // one of them breaks off
			if all := got.String() + fmt.Sprint(resp.Header); strings.Contains(all, upstreamKey) || strings.Contains(all, "127.0.0.1") {
				t.Errorf("%s %s: %s", model, path, all)
			}
			if model == "odd-stream" && !strings.HasSuffix(got.String(), "data: [DONE]\n\n") {
				t.Errorf("the stream is %q", got.String())
			}
		}
	}
	if strings.Contains(log.String(), upstreamKey) {
		t.Errorf("the log has the key: %s", log.String())
	}
	if got := w.do("GET", "/v1/sessions/T/events", ""); strings.Contains(got.body, upstreamKey) {
		t.Errorf("the trace has the key: %s", got.body)
	}
	if _, err := llmproxy.Parse([]byte("upstreams:\n  - {name: x, url: \"http://user:"+upstreamKey+"@h/v1\", models: [m]}"), nil); err == nil || strings.Contains(err.Error(), upstreamKey) {
		t.Errorf("a file with a key in a URL: %v", err)
	}
}

// TestS24OthersCredentials: models are called with a run's token alone, while that runs: no user's token of any role, no token of a run that has ended, no
// other's.
func TestS24OthersCredentials(t *testing.T) {
	t.Parallel()
	h, _, callers := organisation(t, saysN(1))
	callers["none"], callers["static"] = "", goodToken
	for role, token := range callers {
		for _, path := range modelRoutes {
			if got := h.do("POST", path, `{"model":"m1"}`, bearerOf(token)...); got.status != http.StatusUnauthorized && got.status != http.StatusForbidden {
				t.Errorf("%s calls %s: %v", role, path, got)
			}
		}
		if got := h.do("GET", "/v1/models", "", bearerOf(token)...); got.status != http.StatusUnauthorized && got.status != http.StatusForbidden {
			t.Errorf("%s lists models: %v", role, got)
		}
	}
	w := newModelEnv(t, oneUpstream)
	turn, secret, _ := strings.Cut(strings.TrimPrefix(w.token, "run_"), "_")
	other := newModelEnv(t, oneUpstream)
	otherTurn, _, _ := strings.Cut(strings.TrimPrefix(other.token, "run_"), "_")
	good := w.token
	for _, token := range []string{"run_" + otherTurn + "_" + secret, "run_" + turn + "_", "run_" + turn + "_" + strings.ToUpper(secret) + "x", "run_session_" + turn + "_" + secret, other.token} {
		w.token = token
		if resp, got := w.posted("/v1/chat/completions", `{"model":"m1"}`); resp.StatusCode != http.StatusUnauthorized {
			t.Errorf("%.12s…: %d %s", token, resp.StatusCode, got)
		}
	}
	w.token = good
	w.release()
	eventually(t, func() error {
		resp, _ := w.posted("/v1/chat/completions", `{"model":"m1"}`)
		if resp.StatusCode != http.StatusUnauthorized {
			return fmt.Errorf("the token of a run that has ended: %d", resp.StatusCode)
		}
		return nil
	})
}
