package acpgateway_test

import (
	"strings"
	"testing"

	"aqueduct/acpgateway/wire"
	"aqueduct/bridge/approval"
	"aqueduct/store"
)

// runs is a request to run a command, under an id that the proxy chooses.
func (c *conversation) runs(request, command string) {
	c.wants(request, `{"toolCallId":"call-`+request+`","title":"Run it","kind":"execute","rawInput":{"command":"`+command+`"}}`, "Always")
}

// question is a Question as it stands.
func (h *acpEnv) question(id string) approval.Question {
	h.t.Helper()
	q, err := approval.Load(h.t.Context(), h.store, store.System(), id)
	h.must(err)
	return q
}

// changes counts the audit's entries of arguments that changed, and checks that each names both hashes.
func (h *acpEnv) changes() (n int) {
	h.t.Helper()
	all, err := h.store.Audit(h.t.Context(), store.System(), 0, 1000)
	h.must(err)
	for _, e := range all {
		if e.Action == "approval.arguments_changed" {
			n++
			if d := string(e.Payload); !strings.Contains(d, "args_sha256_before") || !strings.Contains(d, "args_sha256_after") {
				h.t.Errorf("%s", d)
			}
		}
	}
	return n
}

// TestS18ChangedArgumentsAreAskedAnew: a proxy that uses the id of a request again for another command gets no answer to
// the first one for it, whether that is open, was answered, or its answer is on its way. The same request again is
// answered as before.
func TestS18ChangedArgumentsAreAskedAnew(t *testing.T) {
	replaced := func(h *acpEnv, id string, n int) {
		h.t.Helper()
		q := h.question(id)
		if q.Approval.Status != store.ApprovalExpired || q.Approval.DecidedVia != approval.ViaChanged {
			h.t.Errorf("the old question is %s via %s", q.Approval.Status, q.Approval.DecidedVia)
		}
		if got := h.changes(); got != n {
			h.t.Errorf("%d changes in the audit, want %d", got, n)
		}
	}
	t.Run("answered", func(t *testing.T) {
		inEnv(t, plan{}, func(h *acpEnv) {
			p := newProxy(h, "p1").link()
			c := p.begin("t1", "hi")
			c.runs("7", "ls")
			c.s.rest()
			first := h.asked("t1")[0]
			s := h.answer("t1", first, "allow_once")
			c.allowed("7")
			c.runs("7", "ls")
			c.allowed("7") // it had no answer yet
			c.runs("7", "rm -rf /")
			s.rest()
			p.silent()
			open := h.asked("t1")
			if len(open) != 1 || open[0] == first || !strings.Contains(string(h.question(open[0]).Approval.Args), "rm -rf /") {
				t.Fatalf("open: %v", open)
			}
			if n := h.changes(); n != 1 {
				t.Errorf("%d changes in the audit", n)
			}
			h.answer("t1", open[0], "reject_once")
			if said := want[*wire.SessionPermission](p); said.RequestID != "7" || *said.OptionID != "p-no" {
				t.Errorf("%+v", said)
			}
		})
	})
	t.Run("open", func(t *testing.T) {
		inEnv(t, plan{}, func(h *acpEnv) {
			p := newProxy(h, "p1").link()
			c := p.begin("t1", "hi")
			c.runs("7", "ls")
			c.s.rest()
			first := h.asked("t1")[0]
			c.runs("7", "rm -rf /")
			h.settle()
			open := h.asked("t1")
			if len(open) != 1 || open[0] == first {
				t.Fatalf("open: %v, first %s", open, first)
			}
			replaced(h, first, 1)
			s := h.answer("t1", first, "allow_once") // too late, and for the other command
			s.rest()
			p.silent()
			h.answer("t1", open[0], "allow_once")
			c.allowed("7")
			p.silent()
		})
	})
	t.Run("on its way", func(t *testing.T) {
		inEnv(t, plan{}, func(h *acpEnv) {
			p := newProxy(h, "p1").link()
			c := p.begin("t1", "hi")
			c.runs("7", "ls")
			c.s.rest()
			first := h.asked("t1")[0]
			// The changed request is at the gateway, and perhaps not yet with the Turn, when a person approves the first.
			c.runs("7", "rm -rf /")
			s := h.answer("t1", first, "allow_once")
			s.rest()
			h.settle()
			for _, d := range p.left() {
				if said, ok := d.frame.(*wire.SessionPermission); ok && said.OptionID != nil && *said.OptionID == "p-once" {
					t.Errorf("the agent heard %+v", said)
				}
			}
			if open := h.asked("t1"); len(open) != 1 || open[0] == first {
				t.Errorf("open: %v", open)
			}
		})
	})
}
