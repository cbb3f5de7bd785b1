package faults_test

import (
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"aqueduct/bridge"
	"aqueduct/bridge/httpagent"
	"aqueduct/bridge/outbound"
	"aqueduct/internal/app"
	"aqueduct/internal/app/apptest"
	aqueduct "aqueduct/server"
	"aqueduct/server/auth"
	"aqueduct/store/sqlite"
	"aqueduct/store/storetest"
)

// oneEnd checks that a Run has one terminal event, the last, and gives its code.
func oneEnd(t *testing.T, run []event) string {
	t.Helper()
	for i, e := range run {
		if e.terminal() != (i == len(run)-1) {
			t.Errorf("event %d of %d is %s", i+1, len(run), e.kind())
		}
	}
	if len(run) == 0 {
		t.Fatal("nothing was streamed")
	}
	last := run[len(run)-1]
	if last.kind() != "RUN_ERROR" {
		return last.kind()
	}
	for _, internal := range []string{"internal words", "127.0.0.1", "goroutine", "dial tcp"} {
		if strings.Contains(last.data, internal) {
			t.Errorf("the client is told %s", last.data)
		}
	}
	return codeOf(last)
}

// mischief is what agents do, and the stable code that reports which.
var mischief = []struct{ prompt, code string }{
	{"status500", "upstream_status"},
	{"page", "upstream_not_a_stream"},
	{"cut", "upstream_truncated"},
	{"half", "upstream_truncated"},
	{"reset", "upstream_truncated"},
	{"notjson", "upstream_malformed"},
	{"notobject", "upstream_malformed"},
	{"binary", "upstream_malformed"},
	{"badstate", "RUN_FINISHED"},
	{"error", "model_overloaded"},
	{"twice", "RUN_FINISHED"},
	{"gib-line", "upstream_event_too_large"},
	{"gib-lines", "upstream_event_too_large"},
	{"gib-name", "upstream_event_too_large"},
}

// TestUpstreamFaults: whatever an agent does, its Run has one terminal event that names
// the fault, what it had sent before is kept, the thread goes on, and memory is bounded.
func TestUpstreamFaults(t *testing.T) {
	t.Parallel()
	h := newServerEnv(t, "sqlite:"+storetest.SQLite(t))
	if _, err := newLedger(t, "warm", 200).post(h.server, "warm-r", "count 200"); err != nil {
		t.Fatal(err)
	}
	before := h.peak()
	for _, m := range mischief {
		begun := time.Now()
		l := newLedger(t, m.prompt, 0)
		run, err := l.post(h.server, m.prompt+"-r", m.prompt)
		if err != nil {
			t.Errorf("%s: %v", m.prompt, err)
			continue
		}
		if got := oneEnd(t, run); got != m.code {
			t.Errorf("%s ends with %s, not %s: %s", m.prompt, got, m.code, run[len(run)-1].data)
		}
		if said := text(run); said != "so far " && m.prompt != "status500" && m.prompt != "page" {
			t.Errorf("%s: %q is kept", m.prompt, said)
		}
		if took := time.Since(begun); took > 10*time.Second {
			t.Errorf("%s took %v", m.prompt, took)
		}
		if run, err := l.post(h.server, m.prompt+"-again", "count 1"); err != nil || oneEnd(t, run) != "RUN_FINISHED" {
			t.Errorf("%s: the thread does not go on: %v", m.prompt, err)
		}
	}
	grown := h.peak() - before
	t.Logf("peak memory grew by %d MiB over %d faults, three of 1 GiB", grown>>20, len(mischief))
	if grown > 128<<20 {
		t.Errorf("peak memory grew by %d MiB", grown>>20)
	}
}

// TestUpstreamUnreachable: no agent listens at the address.
func TestUpstreamUnreachable(t *testing.T) {
	t.Parallel()
	h := newServerEnv(t, "sqlite:"+storetest.SQLite(t))
	in, err := h.stream("POST", "/api/agui/chat?agent=nowhere", prompt("n", "n-r", "count 1"))
	if err != nil {
		t.Fatal(err)
	}
	run, err := newLedger(t, "n", 0).drain(in)
	if got := oneEnd(t, run); err != nil || got != "upstream_unreachable" {
		t.Errorf("ends with %s, %v", got, err)
	}
}

// TestUpstreamLimits: an agent that hangs, drips or never stops is cut at its limit, which
// its code names.
func TestUpstreamLimits(t *testing.T) {
	t.Parallel()
	const limit = 300 * time.Millisecond
	for _, c := range []struct {
		prompt, code string
		limits       httpagent.Limits
	}{
		{"headless", "upstream_first_byte_timeout", httpagent.Limits{FirstByte: limit}},
		{"hang", "upstream_idle_timeout", httpagent.Limits{Idle: limit}},
		{"drip", "upstream_idle_timeout", httpagent.Limits{Idle: limit}},
		{"endless", "upstream_total_timeout", httpagent.Limits{Total: limit, Idle: time.Minute}},
	} {
		t.Run(c.prompt, func(t *testing.T) {
			t.Parallel()
			a := newAgent(t)
			s := inProcess(t, a, c.limits)
			begun := time.Now()
			run, err := newLedger(t, "t", 0).post(s, "r", c.prompt)
			if got := oneEnd(t, run); err != nil || got != c.code {
				t.Errorf("ends with %s, %v", got, err)
			}
			if took := time.Since(begun); took < limit || took > limit+5*time.Second {
				t.Errorf("took %v", took)
			}
		})
	}
}

// inProcess is the server within the test, for limits the program has no flags for.
func inProcess(t *testing.T, a *agent, limits httpagent.Limits) *server {
	t.Helper()
	st, err := sqlite.Open(t.Context(), storetest.SQLite(t), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	gate, err := outbound.New(outbound.Config{Allow: []string{"127.0.0.0/8"}, Limits: limits.Outbound()})
	if err != nil {
		t.Fatal(err)
	}
	upstream := httpagent.New(httpagent.Config{ID: "fake", URL: a.URL, Limits: limits, Gate: gate})
	agents := bridge.NewDirectory()
	agents.Add("fake", upstream)
	made, err := app.New(app.Config{
		Store: st, Broker: storetest.Broker(), Name: "test", Logger: slog.New(slog.DiscardHandler), Auth: auth.None(), Agents: agents, Metrics: aqueduct.NewMetrics(),
	})
	if err != nil {
		t.Fatal(err)
	}
	stop := apptest.Run(t, made)
	web := httptest.NewServer(made.Server)
	t.Cleanup(func() {
		made.Server.Drain()
		web.Close()
		stop()
		upstream.Close()
		_ = st.Close() // its folder goes with the test
	})
	return &server{t: t, url: web.URL}
}
