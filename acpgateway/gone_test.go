package acpgateway_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"aqueduct/bridge"
	"aqueduct/store"
)

// last is a thread's newest Turn.
func (h *acpEnv) last(thread string) store.Turn {
	h.t.Helper()
	run, err := h.store.LastRun(h.t.Context(), store.System(), h.session(thread).ID)
	if err != nil {
		h.t.Fatal(err)
	}
	turn, err := h.store.Turn(h.t.Context(), store.System(), run.TurnID)
	if err != nil {
		h.t.Fatal(err)
	}
	return turn
}

// A killed server takes the proxy inside it along. The prompt that was under way is known to be gone as soon as the
// proxy's next start registers, whether or not the agent had sent anything, and no prompt waits for its end.
func TestServerAndProxyKilled(t *testing.T) {
	t.Parallel()
	for _, said := range []string{"", "one "} {
		t.Run("said "+said, func(t *testing.T) {
			inEnv(t, plan{}, func(h *acpEnv) {
				p := newProxy(h, "p1").link()
				c := p.begin("t1", "hi")
				if said != "" {
					c.says("m", said)
				}
				h.settle()
				p.restart()
				p.reborn("e2")
				began := time.Now()
				p.link()
				for done := false; !done; done = h.last("t1").Status.Terminal() {
					if h.pass(100 * time.Millisecond); time.Since(began) > time.Minute {
						t.Fatal("the Run does not end")
					}
				}
				if took := time.Since(began); took > 500*time.Millisecond {
					t.Errorf("the Run whose agent is gone ended after %v", took)
				}
				began = time.Now()
				p.left()
				next := p.begin("t1", "again")
				if took := time.Since(began); took > 500*time.Millisecond {
					t.Errorf("the next prompt was sent after %v", took)
				}
				next.says("m", "here")
				next.ends()
				next.s.rest()
			})
		})
	}
}

// Stopping what the agent sends unprompted ends that Run at once and well, and stops no prompt, for there is none.
func TestUnpromptedRunIsStopped(t *testing.T) {
	inEnv(t, plan{}, func(h *acpEnv) {
		p := newProxy(h, "p1").link()
		c := p.begin("t1", "hi")
		c.ends()
		c.s.rest()
		h.settle()
		turn, err := h.gateway.Agent("dev").Resume(h.t.Context(), bridge.Call{SessionID: c.run, TurnID: uuid.NewString(), AgentID: "dev", Unprompted: true}, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer turn.Release()
		p.send(update(c.run, "", chunk("m", "by the way, ")))
		h.pass(200 * time.Millisecond)
		began := time.Now()
		if err := turn.Cancel(h.t.Context()); err != nil {
			t.Fatal(err)
		}
		var end *bridge.End
		for end == nil {
			out, err := turn.Next(h.t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, o := range out {
				end = o.End
			}
		}
		if took := time.Since(began); took > 0 || end.Failure != nil || strings.Contains(string(end.Result), "cancelled") {
			t.Errorf("after %v: %+v %s", took, end, end.Result)
		}
		p.silent()
	})
}
