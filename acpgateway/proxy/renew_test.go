package proxy

import (
	"context"
	"encoding/base64"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"aqueduct/acpgateway/wire"
	"aqueduct/internal/bubbletest"
)

// dated is a token with these dates, whatever its signature.
func dated(made time.Time, life time.Duration) string {
	claims := fmt.Sprintf(`{"iat":%d,"exp":%d}`, made.Unix(), made.Add(life).Unix())
	return "e30." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".c2ln"
}

// TestAuthTokenIsRenewed: a token that the proxy was given in its settings is renewed like one that it got, and the newer
// of the two counts; one that was refused is not shown again.
func TestAuthTokenIsRenewed(t *testing.T) {
	t.Parallel()
	const life = 30 * 24 * time.Hour
	old, fresh := dated(time.Now().Add(-20*24*time.Hour), life), dated(time.Now(), life)
	asked := make(chan string, 8)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r.Header.Get("Authorization")
		_, _ = w.Write([]byte(`{"success":true,"data":{"token":"` + fresh + `","expires_at":"2030-01-01T00:00:00Z"}}`))
	}))
	t.Cleanup(srv.Close)
	file := filepath.Join(t.TempDir(), "token")
	e := &Enrolment{URL: srv.URL, Given: old, ID: "p1", File: file}
	for range 2 {
		if token, err := e.Token(t.Context()); err != nil || token != fresh {
			t.Errorf("%q %v", token, err)
		}
	}
	if n := len(asked); n != 1 || <-asked != "Bearer "+old {
		t.Errorf("the gateway was asked %d times", n)
	}
	kept, err := os.ReadFile(file)
	if err != nil || strings.TrimSpace(string(kept)) != fresh {
		t.Errorf("kept: %q %v", kept, err)
	}
	again := &Enrolment{URL: srv.URL, Given: old, ID: "p1", File: file} // started again with the same settings
	if token, err := again.Token(t.Context()); err != nil || token != fresh || len(asked) != 0 {
		t.Errorf("%q %v, asked %d times", token, err, len(asked))
	}
	newest := dated(time.Now().Add(time.Minute), life)
	changed := &Enrolment{URL: srv.URL, Given: newest, ID: "p1", File: file} // with another in its settings
	if token, err := changed.Token(t.Context()); err != nil || token != newest {
		t.Errorf("%q %v", token, err)
	}
	if token, err := changed.Again(t.Context(), newest); err != nil || token != fresh {
		t.Errorf("after a refusal: %q %v", token, err)
	}
	opaque := &Enrolment{URL: srv.URL, Given: "of-another-make", ID: "p1"}
	if token, err := opaque.Token(t.Context()); err != nil || token != "of-another-make" {
		t.Errorf("%q %v", token, err)
	}
}

// TestTheTokenIsRenewedWhileALinkHolds: a link may hold for longer than its token lives.
func TestTheTokenIsRenewedWhileALinkHolds(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		const life = 30 * 24 * time.Hour
		var log strings.Builder
		var asked atomic.Int64
		token := dated(time.Now(), life)
		cfg := Config{Renews: true, Log: slog.New(slog.NewTextHandler(&log, nil)), Token: func(context.Context) (string, error) {
			asked.Add(1)
			if made, ends, _ := times(token); time.Now().After(made.Add(ends.Sub(made) / 2)) {
				token = dated(time.Now(), life)
			}
			return token, nil
		}}
		l := newLink(cfg, nil)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); l.renew(ctx) }()
		time.Sleep(3 * life)
		stop()
		<-done
		if _, ends, _ := times(token); !time.Now().Before(ends) {
			t.Errorf("the token ended at %s, it is %s", ends, time.Now())
		}
		if n := asked.Load(); n < 100 || n > 3000 {
			t.Errorf("it was looked at %d times in %s", n, 3*life)
		}
		if said := log.String(); strings.Count(said, "the proxy's token") < 5 || strings.Contains(said, "level=WARN") || strings.Contains(said, token) {
			t.Errorf("the log has %d lines:\n%.2000s", strings.Count(said, "\n"), said)
		}
	})
}

// lockedLog is a log that is read while it is written.
type lockedLog struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lockedLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lockedLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// TestTheEndOfATokenIsTold: where nothing renews a token, its end is logged at the start and warned of before it comes.
func TestTheEndOfATokenIsTold(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		const life = 24 * time.Hour
		var log lockedLog
		token := dated(time.Now(), life)
		cfg := Config{Renews: true, Log: slog.New(slog.NewTextHandler(&log, nil)), Token: func(context.Context) (string, error) { return token, nil }}
		l := newLink(cfg, nil)
		if _, err := l.token(t.Context()); err != nil {
			t.Fatal(err)
		}
		until := "until=" + time.Now().Add(life).Format("2006-01-02")
		if said := log.String(); !strings.Contains(said, "level=INFO") || !strings.Contains(said, until) {
			t.Errorf("at the start: %s", said)
		}
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); l.renew(ctx) }()
		time.Sleep(17 * time.Hour)
		bubbletest.Wait()
		if said := log.String(); strings.Contains(said, "WARN") {
			t.Errorf("too early: %s", said)
		}
		time.Sleep(3 * time.Hour)
		stop()
		<-done
		if said := log.String(); strings.Count(said, "level=WARN") != 1 || !strings.Contains(said, "ends soon") {
			t.Errorf("before its end: %s", said)
		}
	})
}

// TestInventoryIntervalOfZeroIsNever: the lists go out when the proxy links, and not again.
func TestInventoryIntervalOfZeroIsNever(t *testing.T) {
	t.Parallel()
	g := newGateway(t, oldAck)
	g.start(func(c *Config) { c.Inventory = -1 })
	g.openRun()
	g.prompt("p", "hello")
	if said, _ := g.said(); said != "hi" {
		t.Error(said)
	}
}

// TestEnvironmentOfTheGatewayIsNarrowed: the agent gets what is allowed of it, its init script all.
func TestEnvironmentOfTheGatewayIsNarrowed(t *testing.T) {
	t.Parallel()
	g := newGateway(t, oldAck)
	g.start(func(c *Config) { c.EnvAllowed = []string{"TUIXIU_A"} })
	g.send(`{"type":"acp_open","run_id":"r","init":{"script":"echo $TUIXIU_A$TUIXIU_B","env":{"TUIXIU_A":"a","TUIXIU_B":"b"}}}`)
	if s := signal[*wire.Text](g); s.Text != "[init] ab" {
		t.Errorf("the script: %+v", s)
	}
	if o := want[*wire.Opened](g); !o.OK {
		t.Fatal(o.Error)
	}
	g.prompt("p", "env $TUIXIU_A-$TUIXIU_B")
	if said, _ := g.said(); said != "a-" {
		t.Errorf("the agent: %q", said)
	}
}

// TestDownloadsAreBounded: an archive that is larger than the settings allow is not taken.
func TestDownloadsAreBounded(t *testing.T) {
	t.Parallel()
	uri := shelf(t, zipped(t, "a", strings.Repeat("x", 4096)))
	for most, ok := range map[int64]bool{0: true, 1 << 20: true, 32: false} {
		g := newGateway(t, oldAck)
		g.start(func(c *Config) { c.DownloadMost = most })
		g.send(fmt.Sprintf(`{"type":"acp_open","run_id":"r","init":{"agentInputs":{"version":1,"items":[{"id":"1","apply":"downloadExtract","source":{"type":"httpZip","uri":%q},"target":{"root":"WORKSPACE","path":"skills"}}]}}}`, uri+"/0"))
		if o := want[*wire.Opened](g); o.OK != ok || !ok && !strings.Contains(o.Error, "larger than 32 bytes") {
			t.Errorf("%d: %+v", most, o)
		}
	}
}
