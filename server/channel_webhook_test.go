package server_test

import (
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
	"aqueduct/bridge/notify"
	"aqueduct/server/channel"
)

const hookSecret = notify.Secret("a secret of the channel")

// hooked is an env with a channel "im" that has a callback.
type hooked struct {
	*env
	messages chan channelMessage // as they came to the callback
	deaf     chan bool           // one entry makes the callback refuse one delivery
	slow     func() func()       // unless nil, called when a delivery comes; its result is called when the handler ends
}

func newHooked(t *testing.T, s script) *hooked {
	t.Helper()
	return newHookedWith(t, s, plan{})
}

func newHookedWith(t *testing.T, s script, p plan) *hooked {
	t.Helper()
	k := &hooked{messages: make(chan channelMessage, 1000), deaf: make(chan bool, 1)}
	callback := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || notify.Verify(hookSecret, r.Header.Get(notify.HeaderSignature), body, time.Now(), time.Minute) != nil {
			t.Errorf("badly signed: %v %s", err, body)
		}
		if k.slow != nil {
			defer k.slow()()
		}
		select {
		case <-k.deaf:
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		default:
		}
		var letter struct {
			Channel  string            `json:"channel"`
			UserID   string            `json:"user_id"`
			Messages []json.RawMessage `json:"messages"`
		}
		if json.Unmarshal(body, &letter) != nil || letter.Channel != "im" || letter.UserID != "ann" {
			t.Errorf("%s", body)
		}
		for _, raw := range letter.Messages {
			m := channelMessage{raw: string(raw)}
			if err := json.Unmarshal(raw, &m); err != nil {
				t.Error(err)
			}
			k.messages <- m
		}
	}))
	t.Cleanup(callback.Close)
	hooks := channel.Webhooks{{ID: "im", Tenant: "acme", Secret: hookSecret, Callback: callback.URL}}
	p.auth, p.hooks = static(t), hooks
	k.env = newEnvWith(t, s, p)
	notifier, err := notify.New(notify.Config{
		Store: k.store, Client: http.DefaultClient, Others: map[string]notify.Address{channel.OutboxKind: hooks.Delivery},
		Poll: 20 * time.Millisecond, Jitter: func() float64 { return 1 },
	})
	if err != nil {
		t.Fatal(err)
	}
	notifier.OnLanded(k.server.Landed)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	for _, run := range []func(context.Context) error{k.server.Carry, notifier.Run} {
		running.Go(func() {
			if err := run(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	return k
}

// post sends a signed message.
func (k *hooked) post(body string) answer {
	return k.do("POST", "/v1/ingress", body, "X-Aqueduct-Channel", "im", notify.HeaderSignature, notify.Sign(hookSecret, []byte(body), time.Now()))
}

// gather waits for so many messages, which come in the order of the log.
func (k *hooked) gather(n int) (all []channelMessage) {
	k.t.Helper()
	for end := time.After(20 * time.Second); len(all) < n; {
		select {
		case m := <-k.messages:
			all = append(all, m)
		case <-end:
			k.t.Fatal(gist(all))
		}
	}
	if !slices.IsSortedFunc(all, func(a, b channelMessage) int { return int(a.Seq - b.Seq) }) {
		k.t.Errorf("not in the order of the log: %s", gist(all))
	}
	return all
}

const invoked = `{"type":"agent_invoke","request_id":"r1","user_id":"ann","session_id":"s1","message":{"role":"user","content":"may I?"}}`

// TestIngressWebhook: a message in by a signed POST, what it leads to out to the callback,
// each once, over a question; a past run again, marked.
func TestIngressWebhook(t *testing.T) {
	t.Parallel()
	k := newHooked(t, asks)
	k.deaf <- true // at least once: the first delivery fails
	got := fields(t, k.post(invoked))
	runID, _ := got["run_id"].(string)
	if got["request_id"] != "r1" || runID == "" {
		t.Fatal(got)
	}
	if again := k.post(invoked); again.status != http.StatusAccepted || fields(t, again)["run_id"] != runID {
		t.Errorf("again: %v", again)
	}
	all := k.gather(4)
	q := all[len(all)-2]
	if gist(all) != "run_started | state RUNNING | approval_required | state WAITING_APPROVAL" || q.RunID != runID || q.SessionID != "s1" || q.RequestID != "r1" {
		t.Fatal(gist(all))
	}
	decide := func(request, decision string) answer {
		return k.post(fmt.Sprintf(`{"type":"approval_decision","request_id":%q,"user_id":"ann","run_id":%q,"approval_id":%q,"decision":%q}`, request, runID, q.ApprovalID, decision))
	}
	if got := decide("d1", "approve"); got.status != http.StatusAccepted || fields(t, got)["run_id"] != runID {
		t.Errorf("%v", got)
	}
	isProblem(t, decide("d2", "reject"), http.StatusConflict)
	all = append(all, k.gather(4)...)
	if got := gist(all[4:]); !strings.HasPrefix(got, "state RUNNING | delta ") || !strings.HasSuffix(got, " | state DONE | done") {
		t.Error(got)
	}
	replay := fmt.Sprintf(`{"type":"replay_run","request_id":"p1","user_id":"ann","run_id":%q}`, runID)
	for range 2 { // the second is the same request
		if got := k.post(replay); got.status != http.StatusAccepted {
			t.Errorf("%v", got)
		}
	}
	again := k.gather(len(all))
	for i, m := range again {
		if strings.Replace(m.raw, `"replay":true,`, "", 1) != all[i].raw || !m.Replay {
			t.Errorf("%s\nwas %s", m.raw, all[i].raw)
		}
	}
	if n := len(k.agent.prompts()); n != 2 || len(k.messages) != 0 {
		t.Errorf("%d calls, %d messages more", n, len(k.messages))
	}
}

// TestIngressWebhookTool: a channel with a callback is given its client's tool calls without an open connection.
func TestIngressWebhookTool(t *testing.T) {
	t.Parallel()
	w := &toolEnv{said: make(chan string, 1)}
	k := newHooked(t, func(_ context.Context, _ func(...bridge.Output), c bridge.Call, _ []approval.Delivery) {
		w.said <- picking(w, c)
	})
	w.env = k.env
	invoke := strings.Replace(invoked, `"message"`, `"tools":[{"name":"pick","description":"","parameters":{"type":"object"}}],"message"`, 1)
	if got := k.post(invoke); got.status != http.StatusAccepted {
		t.Fatal(got.status, got.body)
	}
	all := k.gather(4)
	if got := gist(all); got != "run_started | state RUNNING | tool_request | state WAITING_TOOL" {
		t.Fatalf("%s; the agent heard %s", got, <-w.said)
	}
	q := all[2]
	if got := k.post(fmt.Sprintf(`{"type":"tool_result","request_id":"t1","user_id":"ann","run_id":%q,"tool_call_id":%q,"ok":true,"result":{"picked":1}}`, q.RunID, q.ToolCallID)); got.status != http.StatusAccepted {
		t.Error(got.status, got.body)
	}
	if said := <-w.said; said != `succeeded {"picked":1}` {
		t.Error(said)
	}
	for k.gather(1)[0].Type != "done" {
	}
}

// TestIngressWebhookRefusals: unsigned, forged, old, for another channel, of another user.
func TestIngressWebhookRefusals(t *testing.T) {
	t.Parallel()
	k := newHooked(t, waits(nil))
	now := time.Now()
	for name, c := range map[string]struct{ channel, signature string }{
		"no signature":      {"im", ""},
		"another's secret":  {"im", notify.Sign("another secret, as long", []byte(invoked), now)},
		"another body":      {"im", notify.Sign(hookSecret, []byte(invoked+" "), now)},
		"six minutes old":   {"im", notify.Sign(hookSecret, []byte(invoked), now.Add(-6*time.Minute))},
		"six minutes early": {"im", notify.Sign(hookSecret, []byte(invoked), now.Add(6*time.Minute))},
		"another channel":   {"mi", notify.Sign(hookSecret, []byte(invoked), now)},
		"no channel":        {"", notify.Sign(hookSecret, []byte(invoked), now)},
	} {
		got := k.do("POST", "/v1/ingress", invoked, "X-Aqueduct-Channel", c.channel, notify.HeaderSignature, c.signature)
		if got.status != http.StatusUnauthorized {
			t.Errorf("%s: %d %s", name, got.status, got.body)
		}
	}
	runID := fields(t, k.post(invoked))["run_id"]
	for _, c := range []struct {
		body   string
		status int
	}{
		{strings.Replace(invoked, "may I?", "something else", 1), 409},
		{strings.Replace(invoked, "r1", "r2", 1), 409}, // it is still answering
		{strings.Replace(invoked, `"r1"`, `""`, 1), 400},
		{strings.Replace(invoked, `"ann"`, `""`, 1), 400},
		{strings.Replace(invoked, `"ann"`, `"system"`, 1), 401},
		{`{"type":"hello","request_id":"x","user_id":"ann"}`, 400},
		{fmt.Sprintf(`{"type":"cancel_run","request_id":"x","user_id":"bob","run_id":%q}`, runID), 404},
		{fmt.Sprintf(`{"type":"cancel_run","request_id":"x","user_id":"ann","run_id":%q}`, runID), 202},
	} {
		if got := k.post(c.body); got.status != c.status {
			t.Errorf("%s: %d %s", c.body, got.status, got.body)
		}
	}
	for k.gather(1)[0].Type != "done" {
	}
}

// TestWebhookDeliveriesComeInOrder: of a Session one delivery is under way at a time, so that a callback which
// refuses one, and takes a different time for each, gets the messages of all Turns in the order of the log.
func TestWebhookDeliveriesComeInOrder(t *testing.T) {
	t.Parallel()
	const turns, pieces = 2, 6
	k := newHooked(t, func(ctx context.Context, say func(...bridge.Output), _ bridge.Call, _ []approval.Delivery) {
		for i := range pieces {
			say(texts(fmt.Sprint("m", i), "a piece")...)
			select { // a model's pace: the pieces go out in several deliveries
			case <-time.After(60 * time.Millisecond):
			case <-ctx.Done():
			}
		}
	})
	var mu sync.Mutex
	underWay, most, n := 0, 0, 0
	k.slow = func() func() {
		mu.Lock()
		underWay++
		most = max(most, underWay)
		n++
		takes := time.Duration([]int{150, 0, 40}[n%3]) * time.Millisecond
		mu.Unlock()
		time.Sleep(takes) // a callback that answers the first of three last
		return func() {
			mu.Lock()
			underWay--
			mu.Unlock()
		}
	}
	began := time.Now()
	var all []channelMessage
	for i := range turns {
		k.deaf <- true // the first delivery is refused, and comes once more seconds later
		body := strings.NewReplacer("r1", fmt.Sprint("r", i), "may I?", "tell me").Replace(invoked)
		if got := k.post(body); got.status != http.StatusAccepted {
			t.Fatal(got)
		}
		for first, done := true, false; !done; first = false {
			select {
			case m := <-k.messages:
				if all = append(all, m); first != (m.Type == "run_started") {
					t.Fatal("a turn does not begin with its start: ", gist(all))
				}
				done = m.Type == "done"
			case <-time.After(30 * time.Second):
				t.Fatal(gist(all))
			}
		}
	}
	if !slices.IsSortedFunc(all, func(a, b channelMessage) int { return int(a.Seq - b.Seq) }) {
		t.Errorf("not in the order of the log: %s", gist(all))
	}
	if most != 1 {
		t.Errorf("%d deliveries of one Session were under way at once", most)
	}
	t.Logf("%d deliveries of %d turns in %v", n, turns, time.Since(began).Round(time.Millisecond))
}
