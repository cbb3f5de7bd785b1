package server_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"aqueduct/agui"
	"aqueduct/bridge"
	"aqueduct/bridge/approval"
	"aqueduct/store"
)

// TestAgentCallsInAll: a prompt leads to 256 calls in all, however deep they are and however few are at work; the next is
// refused, and its caller may go on.
func TestAgentCallsInAll(t *testing.T) {
	t.Parallel()
	onBothDatabases(t, func(t *testing.T, db database) {
		refused := make(chan called, 4)
		c := newCallEnv(t, map[string]agentScript{
			"scripted": func(c *callEnv, ctx context.Context, say func(...bridge.Output), call bridge.Call, _ []approval.Delivery) {
				for range store.MaxChildTurns/2 + 1 { // each leads to two
					if got := c.call(ctx, call, "middle", "go on"); got.status != http.StatusOK {
						refused <- got
						says(say, "refused")
						return
					}
				}
				says(say, "not refused")
			},
			"middle": func(c *callEnv, ctx context.Context, say func(...bridge.Output), call bridge.Call, _ []approval.Delivery) {
				if got := c.call(ctx, call, "leaf", "go on"); got.status != http.StatusOK {
					refused <- got
				}
				says(say, "done")
			},
			"leaf": func(_ *callEnv, _ context.Context, say func(...bridge.Output), _ bridge.Call, _ []approval.Delivery) {
				says(say, "done")
			},
		}, plan{open: db.open})
		if shown := joined(c.chat("t", "r", "go")); !strings.Contains(shown, `"refused"`) {
			t.Error("the root goes on as if nothing had been refused")
		}
		if no := <-refused; no.status != http.StatusTooManyRequests || !strings.Contains(no.body, `"agent_call_breadth"`) || !strings.Contains(no.body, "256") {
			t.Errorf("refused by %d %s", no.status, no.body)
		}
		all, err := c.store.ChildTurns(t.Context(), store.System(), c.agent.last().TurnID)
		if err != nil || len(all) != store.MaxChildTurns {
			t.Errorf("%d were called, %v", len(all), err)
		}
	})
}

// TestAgentCallsInAllAtOnce: it is so too for agents that call at once.
func TestAgentCallsInAllAtOnce(t *testing.T) {
	t.Parallel()
	onBothDatabases(t, func(t *testing.T, db database) {
		var begun atomic.Int32
		c := newCallEnv(t, map[string]agentScript{
			"scripted": func(c *callEnv, ctx context.Context, say func(...bridge.Output), call bridge.Call, _ []approval.Delivery) {
				var all sync.WaitGroup
				for range 8 {
					all.Go(func() { c.call(ctx, call, "middle", "go on") })
				}
				all.Wait()
				says(say, "done")
			},
			"middle": func(c *callEnv, ctx context.Context, say func(...bridge.Output), call bridge.Call, _ []approval.Delivery) {
				begun.Add(1)
				for c.call(ctx, call, "leaf", "go on").status == http.StatusOK {
				}
				says(say, "refused")
			},
			"leaf": func(_ *callEnv, _ context.Context, say func(...bridge.Output), _ bridge.Call, _ []approval.Delivery) {
				begun.Add(1)
				says(say, "done")
			},
		}, plan{open: db.open})
		c.chat("t", "r", "go")
		if n := begun.Load(); n != store.MaxChildTurns {
			t.Errorf("%d were called", n)
		}
	})
}

// TestAgentCallsLeftForGood: a caller that leaves and could come back, by its key, has the time of a client for it; then what
// it called is cancelled. One that is back in time finds it at work.
func TestAgentCallsLeftForGood(t *testing.T) {
	t.Parallel()
	const grace = time.Second
	onBothDatabases(t, func(t *testing.T, db database) {
		began, ended, back := make(chan struct{}, 1), make(chan time.Time, 1), make(chan called, 1)
		left := make(chan time.Time, 1)
		c := newCallEnv(t, map[string]agentScript{
			"scripted": func(c *callEnv, ctx context.Context, say func(...bridge.Output), call bridge.Call, _ []approval.Delivery) {
				for range 2 { // it leaves, is back in time, and leaves again
					going, leave := context.WithCancel(ctx)
					go func() {
						c.call(going, call, "leaf", "go on", `,"idempotency_key":"k"`)
						back <- called{}
					}()
					select {
					case <-began:
					case <-time.After(grace / 2):
					}
					leave()
					<-back
				}
				left <- time.Now()
				<-ended
				ended <- time.Now()
				says(say, "alone")
			},
			"leaf": func(_ *callEnv, ctx context.Context, say func(...bridge.Output), _ bridge.Call, _ []approval.Delivery) {
				says(say, "at work")
				began <- struct{}{}
				<-ctx.Done()
				ended <- time.Now()
			},
		}, plan{open: db.open, bridge: bridge.Limits{LeaveGrace: grace}})
		if shown := joined(c.chat("t", "r", "go")); !strings.Contains(shown, "alone") {
			t.Error(shown)
		}
		if waited := (<-ended).Sub(<-left); waited < grace*8/10 || waited > 3*grace {
			t.Errorf("what was called ended %v after its caller had left, which has %v to come back", waited, grace)
		}
		c.settled("r", "scripted DONE [leaf CANCELLED]")
	})
}

// spent is the end of an answer that has used tokens.
func spent(input, output int64) bridge.Output {
	return bridge.Output{End: &bridge.End{Usage: []agui.TokenUsage{{Model: "m", InputTokens: &input, OutputTokens: &output}}}}
}

// TestAgentCallsUsage: what called agents used is in their callers' usage, once, in the tree and at the end of the chat.
func TestAgentCallsUsage(t *testing.T) {
	t.Parallel()
	onBothDatabases(t, func(t *testing.T, db database) {
		c := newCallEnv(t, map[string]agentScript{
			"scripted": func(c *callEnv, ctx context.Context, say func(...bridge.Output), call bridge.Call, _ []approval.Delivery) {
				c.call(ctx, call, "middle", "go on")
				c.call(ctx, call, "leaf", "go on")
				says(say, "done")
				say(spent(1000, 2000))
			},
			"middle": func(c *callEnv, ctx context.Context, say func(...bridge.Output), call bridge.Call, _ []approval.Delivery) {
				c.call(ctx, call, "leaf", "go on")
				says(say, "done")
				say(spent(100, 200))
			},
			"leaf": func(_ *callEnv, _ context.Context, say func(...bridge.Output), _ bridge.Call, _ []approval.Delivery) {
				says(say, "done")
				say(spent(1, 2))
			},
		}, plan{open: db.open})
		used := func(input, output int) string {
			return fmt.Sprintf(`"inputTokens":%d,"outputTokens":%d`, input, output)
		}
		for round := range 5 {
			run := fmt.Sprint("r", round)
			frames := c.chat("t"+run, run, "go")
			if end := last(frames); end.typ() != "RUN_FINISHED" || !strings.Contains(end.data, used(1102, 2204)) {
				t.Errorf("the chat ends with %s", end.data)
			}
			tree := c.tree(run)
			if len(tree.Children) != 2 || len(tree.Children[0].Children) != 1 {
				t.Fatalf("the tree is %s", tree)
			}
			for name, of := range map[string]struct {
				is   string
				want string
			}{
				"the root":        {string(tree.Usage), used(1102, 2204)},
				"the middle":      {string(tree.Children[0].Usage), used(101, 202)},
				"the middle's":    {string(tree.Children[0].Children[0].Usage), used(1, 2)},
				"the root's leaf": {string(tree.Children[1].Usage), used(1, 2)},
			} {
				if !strings.Contains(of.is, of.want) {
					t.Errorf("%s has used %s, not %s", name, of.is, of.want)
				}
			}
		}
	})
}
