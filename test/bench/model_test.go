package bench

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// targetModel is what a streamed answer of a model may cost through us, in bare reverse proxies of it.
const targetModel = 1.3

const (
	modelCallers = 16
	modelChunks  = 300                  // of one answer: some hundred words
	modelPace    = 2 * time.Millisecond // between two chunks: a fast model
	modelAnswers = 6                    // of each caller
)

// serveReverse is the bare reverse proxy.
func serveReverse(l net.Listener, upstream string) error {
	to, err := url.Parse(upstream)
	if err != nil {
		return err
	}
	proxy := httputil.NewSingleHostReverseProxy(to)
	proxy.FlushInterval = -1
	proxy.Transport = &http.Transport{MaxIdleConnsPerHost: modelCallers, DisableCompression: true}
	return http.Serve(l, proxy)
}

// BenchmarkModel is a streamed chat completion through us, recorded on SQLite, and through a bare reverse proxy: CPU an
// answer.
func BenchmarkModel(b *testing.B) {
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		rc := http.NewResponseController(w)
		for i := range modelChunks {
			fmt.Fprintf(w, `data: {"id":"chatcmpl-123456789","object":"chat.completion.chunk","created":1700000000,"model":"m","service_tier":"default","system_fingerprint":"fp_1234567890","choices":[{"index":0,"delta":{"content":"word %d "},"logprobs":null,"finish_reason":null}],"usage":null}`+"\n\n", i)
			_ = rc.Flush()
			time.Sleep(modelPace)
		}
		fmt.Fprint(w, `data: {"id":"c","choices":[],"usage":{"prompt_tokens":9,"completion_tokens":300,"total_tokens":309}}`+"\n\ndata: [DONE]\n\n")
	}))
	defer upstream.Close()
	turns := make(chan http.Header, 1)
	agent := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		_ = http.NewResponseController(w).Flush()
		turns <- r.Header
		<-r.Context().Done()
	}))
	defer agent.Close()
	defer agent.CloseClientConnections()
	dir := b.TempDir()
	file := filepath.Join(dir, "models.yaml")
	if err := os.WriteFile(file, fmt.Appendf(nil, "upstreams:\n- {name: u, url: %q, models: ['*']}\n", upstream.URL+"/v1"), 0o600); err != nil {
		b.Fatal(err)
	}
	us := startProcess(b, exec.Command(shipped(b), "serve", "--listen", "127.0.0.1:0", "--database", "sqlite:"+filepath.Join(dir, "a.db"),
		"--agent", "a="+agent.URL, "--models-file", file))
	bare := startRole(b, "reverse", upstream.URL)
	resp, err := http.Post(us.url+"/api/agui/chat", "application/json", bytes.NewReader([]byte(`{"threadId":"T","runId":"R","protocolVersion":"1.0","messages":[{"id":"u1","role":"user","content":"hi"}]}`)))
	if err != nil {
		b.Fatal(err)
	}
	defer resp.Body.Close()
	token := (<-turns).Get("x-aqueduct-run-token")
	for round := range rounds {
		var cpu [2]time.Duration
		for i, p := range []process{bare, us} {
			if cpu[i], err = modelCrowd(p, token, i == 0); err != nil {
				b.Fatal(err)
			}
		}
		ratio := float64(cpu[1]) / float64(cpu[0])
		b.Logf("round %d: %v CPU an answer through a reverse proxy, %v through us: %.2f times; the target is %.1f", round+1, cpu[0], cpu[1], ratio, targetModel)
		b.ReportMetric(ratio, "x-cpu")
	}
}

// modelCrowd is what an answer costs a process while many are streamed. A bare reverse proxy now and then breaks an answer off,
// where its server closes the request's body before its transport has seen the end of it: then it is asked again, if it may.
func modelCrowd(p process, token string, again bool) (time.Duration, error) {
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: modelCallers}}
	defer client.CloseIdleConnections()
	before, err := cpuOf(p.pid)
	if err != nil {
		return 0, err
	}
	var failed atomic.Pointer[error]
	var all sync.WaitGroup
	for range modelCallers {
		all.Go(func() {
			for range modelAnswers {
				err := modelAnswer(client, p.url, token)
				if again && errors.Is(err, io.ErrUnexpectedEOF) {
					err = modelAnswer(client, p.url, token)
				}
				if err != nil {
					failed.CompareAndSwap(nil, &err)
					return
				}
			}
		})
	}
	all.Wait()
	if err := failed.Load(); err != nil {
		return 0, *err
	}
	after, err := cpuOf(p.pid)
	return (after - before) / (modelCallers * modelAnswers), err
}

func modelAnswer(client *http.Client, base, token string) error {
	req, err := http.NewRequest(http.MethodPost, base+"/v1/chat/completions", bytes.NewReader([]byte(`{"model":"m","stream":true,"messages":[{"role":"user","content":"Tell me something."}]}`)))
	if err != nil {
		return err
	}
	req.Header = http.Header{"Content-Type": {"application/json"}, "Authorization": {"Bearer " + token}}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err == nil && !bytes.HasSuffix(text, []byte("data: [DONE]\n\n")) {
		err = fmt.Errorf("%d: %.200s", resp.StatusCode, text)
	}
	return err
}
