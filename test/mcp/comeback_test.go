package mcp_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"aqueduct/test/nodetest"
	"aqueduct/test/program"
)

// revisions are those of the protocol that are spoken.
func revisions() []string {
	return []string{"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"}
}

// open waits for so many open questions.
func (e *env) open(n int) (ids []string) {
	e.t.Helper()
	e.eventually("open questions", func() error {
		ids = nil
		for _, q := range e.pending() {
			ids = append(ids, q.ID)
		}
		if len(ids) != n {
			return fmt.Errorf("%d questions, want %d", len(ids), n)
		}
		return nil
	})
	return ids
}

// TestMCPClientComesBack: a client that gave up and makes the same call again gets the first, which is neither asked for nor
// run twice; with other arguments it is another call, which is asked for. So in every revision, as an agent and as a program.
func TestMCPClientComesBack(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	e := newEnv(t, "--mcp", s.flag(), "--policy-file", policyFile(t))
	e.offers("shop.pay", true)
	var want []string
	for _, version := range revisions() {
		for _, token := range []string{e.token, program.Token()} {
			c := e.connect(token, nil, &mcp.ClientSessionOptions{ProtocolVersion: version})
			want = append(want, fmt.Sprintf(`{"amount":%d}`, len(want)+1))
			args := want[len(want)-1]
			ctx, leave := context.WithCancel(t.Context())
			done := begin(ctx, c, "shop.pay", args)
			first := e.open(1)[0]
			leave()
			if o := e.ended(done); !errors.Is(o.err, context.Canceled) {
				t.Errorf("%s: %s", version, o.text())
			}
			done = begin(t.Context(), c, "shop.pay", args)
			other := begin(t.Context(), c, "shop.pay", `{"amount":0}`)
			open := e.open(2)
			if !slices.Contains(open, first) {
				t.Errorf("%s: %v, without %s", version, open, first)
			}
			e.decide(first, `{"approved":true}`)
			if o := e.ended(done); !strings.HasPrefix(o.text(), "paid ") {
				t.Errorf("%s: %s", version, o.text())
			}
			e.decide(e.open(1)[0], `{"approved":false}`)
			if o := e.ended(other); !o.result.IsError {
				t.Errorf("%s: %s", version, o.text())
			}
		}
	}
	if got := s.notes("pay"); !slices.Equal(got, want) {
		t.Errorf("%v", got)
	}
}

// TestMCPTwoLikeCallsComeBack: of two calls that are the same and were left, each is gone on with by one that is made again.
func TestMCPTwoLikeCallsComeBack(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	e := newEnv(t, "--mcp", s.flag(), "--policy-file", policyFile(t))
	e.offers("shop.pay", true)
	for i, version := range []string{"2025-11-25", "2026-07-28"} {
		c := e.connect(program.Token(), nil, &mcp.ClientSessionOptions{ProtocolVersion: version})
		args := fmt.Sprintf(`{"amount":%d}`, i)
		twice := func(ctx context.Context) []<-chan outcome {
			return []<-chan outcome{begin(ctx, c, "shop.pay", args), begin(ctx, c, "shop.pay", args)}
		}
		ctx, leave := context.WithCancel(t.Context())
		first := twice(ctx)
		open := e.open(2)
		leave()
		for _, done := range first {
			e.ended(done)
		}
		again := twice(t.Context())
		for _, id := range open {
			e.decide(id, `{"approved":true}`)
		}
		for _, done := range again {
			if o := e.ended(done); !strings.HasPrefix(o.text(), "paid ") {
				t.Errorf("%s: %s", version, o.text())
			}
		}
		e.open(0)
		if got := s.notes("pay"); len(got) != 2*(i+1) {
			t.Errorf("%s: %v", version, got)
		}
	}
}

// TestMCPComesBackNPM: the same by npm's clients, which give up without closing the connection.
func TestMCPComesBackNPM(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	e := newEnv(t, "--mcp", s.flag(), "--policy-file", policyFile(t))
	e.offers("shop.pay", true)
	e.node("comeback.test.mjs")
	e.open(0)
	if got := s.notes("pay"); strings.Join(got, " ") != `{"amount":1} {"amount":2} {"amount":3} {"amount":4} {"amount":5} {"amount":6}` {
		t.Errorf("%v", got)
	}
}

// node runs a file of tests of npm's clients against the server.
func (e *env) node(file string) {
	e.t.Helper()
	path, err := program.Shipped()
	if err != nil {
		e.t.Fatal(err)
	}
	report := nodetest.Run(e.t, []string{
		"AQUEDUCT_URL=" + e.server.url, "USER_TOKEN=" + program.Token(), "AGENT_TOKEN=" + e.token, "AQUEDUCT_PROGRAM=" + path, "TOKEN_FILE=" + os.Getenv("AQUEDUCT_TOKEN_FILE"),
	}, file)
	e.t.Logf("node --test %s\n%s", file, nodetest.Totals(report))
}
