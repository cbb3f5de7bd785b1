package proxy

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"aqueduct/acpgateway/wire"
)

func TestALineTooLongFailsItsRequestAndNothingElse(t *testing.T) {
	t.Parallel()
	r, w := io.Pipe()
	var troubles, notes int
	p := newPeer(context.Background(), io.Discard, inbound{
		notification: func(string, json.RawMessage) { notes++ },
		trouble:      func(error) { troubles++ },
	})
	p.limit = 200 << 10
	c, err := p.begin("session/prompt", struct{}{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		p.read(r)
	}()
	for _, line := range []string{
		`{"jsonrpc":"2.0","method":"session/update","params":"` + strings.Repeat("x", 300<<10) + `"}`,
		`{"jsonrpc":"2.0","id":1,"result":"` + strings.Repeat("x", 300<<10) + `"}`,
		`{"jsonrpc":"2.0","method":"session/update","params":{}}`,
	} {
		if _, err := io.WriteString(w, line+"\n"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := c.wait(context.Background()); wire.CodeOf(err) != wire.CodeInternal {
		t.Error(err)
	}
	_ = w.Close()
	<-done
	if troubles != 2 || notes != 1 {
		t.Errorf("%d troubles, %d notifications", troubles, notes)
	}
}

func TestAResponseComesAfterTheNotificationsBeforeIt(t *testing.T) {
	t.Parallel()
	var order []string
	p := newPeer(context.Background(), io.Discard, inbound{notification: func(m string, _ json.RawMessage) { order = append(order, m) }})
	c, err := p.begin("session/prompt", struct{}{}, func() { order = append(order, "answer") })
	if err != nil {
		t.Fatal(err)
	}
	p.read(strings.NewReader(`{"method":"a"}` + "\n" + `{"id":1,"result":{}}` + "\n" + `{"method":"b"}`))
	if _, err := c.wait(context.Background()); err != nil || strings.Join(order, " ") != "a answer b" {
		t.Errorf("%v %v", order, err)
	}
}

// untilNotified is a peer that answers every request with "yes" once a notification has come.
func untilNotified(out io.Writer) *peer {
	free := make(chan struct{})
	return newPeer(context.Background(), out, inbound{
		notification: func(string, json.RawMessage) { close(free) },
		request: func(string, json.RawMessage) func(context.Context) (any, error) {
			return func(context.Context) (any, error) { <-free; return "yes", nil }
		},
		trouble: func(error) {},
	})
}

func TestAnOpenRequestHoldsNothingUp(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	p := untilNotified(&out)
	p.read(strings.NewReader(`{"id":"q","method":"ask"}` + "\n" + `{"method":"n"}` + "\n"))
	if got := out.String(); got != `{"jsonrpc":"2.0","id":"q","result":"yes"}`+"\n" {
		t.Error(got)
	}
}

func TestCallsEndWithTheAgent(t *testing.T) {
	t.Parallel()
	p := newPeer(context.Background(), io.Discard, inbound{})
	c, err := p.begin("m", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	p.fail(errAgentClosed)
	if _, err := c.wait(context.Background()); !errors.Is(err, errAgentClosed) {
		t.Error(err)
	}
	if _, err := p.begin("m", nil, nil); !errors.Is(err, errAgentClosed) {
		t.Error(err)
	}
}

// TestOneRequestTooManyIsAnswered: an agent that has too many requests open gets an error for the next, and not silence.
func TestOneRequestTooManyIsAnswered(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	p := untilNotified(&out)
	var lines strings.Builder
	for i := range controls + 1 {
		fmt.Fprintf(&lines, `{"id":%d,"method":"ask"}`+"\n", i)
	}
	p.read(strings.NewReader(lines.String() + `{"method":"n"}` + "\n"))
	last := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"error":{"code":%d,`, controls, wire.CodeInternal)
	if got := out.String(); strings.Count(got, `"result":"yes"`) != controls || !strings.Contains(got, last) {
		t.Errorf("%d answers, and %q is not among them", strings.Count(got, "\n"), last)
	}
}

// TestACancelFindsAWholeRequest: a cancel that comes with a permission request answers it as cancelled.
func TestACancelFindsAWholeRequest(t *testing.T) {
	t.Parallel()
	var n int
	as := &asks{newID: func() wire.RequestID { n++; return wire.RequestID(fmt.Sprint(n)) }, open: map[wire.RequestID]*ask{}}
	done := make(chan struct{})
	var cancels sync.WaitGroup
	cancels.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
				as.cancel("")
			}
		}
	})
	as.report = &reporter{id: "r", link: newLink(Config{}, nil), log: slog.New(slog.DiscardHandler)}
	as.prompts = &prompts{}
	for range 200 {
		answer, err := as.permission([]byte(`{"sessionId":"s","options":[]}`))(context.Background())
		if raw, _ := json.Marshal(answer); err != nil || string(raw) != `{"outcome":{"outcome":"cancelled"}}` {
			t.Fatalf("%s %v", raw, err)
		}
	}
	close(done)
	cancels.Wait()
}
