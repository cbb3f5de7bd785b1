package faults_test

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// again is the next call of the agent for a Turn; it must bring the answer about a tool call.
func (s *toolEnv) again(turn, id string) credentials {
	s.t.Helper()
	select {
	case c := <-s.payer.turns:
		if c.turn != turn || len(c.resume) != 1 || c.resume[0].ID != id || c.resume[0].Key != "once" {
			s.t.Fatalf("called again for %s with %+v, want %s and the tool call %s", c.turn, c.resume, turn, id)
		}
		return c
	case <-time.After(20 * time.Second):
		s.t.Fatalf("the agent is not called again\n%s", s.log())
		panic("unreachable")
	}
}

// TestResumableAgentKilled kills the server at each place between a person's question and the result of its tool. A resumable
// agent is called again, finds its call by its key, and gets one result of one run of the tool.
func TestResumableAgentKilled(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, database string) {
		for i, c := range []struct {
			name          string
			first, second string // where the first and the second server die: while the question is open, and after it
			ran           int    // how often the tool ran before the agent was called again
		}{
			{"while the question is open", "", "", 0},
			{"before the tool begins", "before_tool_dispatch:1", "", 0},
			{"before the agent is called again", "", "before_delivery:1", 0},
			{"when the agent is called again", "", "after_delivery:1", 0},
			{"before the tool begins, after the agent was called again", "", "before_tool_dispatch:1", 0},
			{"while the tool runs", "before_tool_result:1", "", 1},
		} {
			t.Run(c.name, func(t *testing.T) {
				s, thread := newToolEnv(t, database, asksFirst), fmt.Sprint("T", i)
				s.payer.resumable = true
				fail := func(at string) []string {
					if at == "" {
						return s.env
					}
					return append(s.env[:len(s.env):len(s.env)], "AQUEDUCT_FAILPOINT="+at)
				}
				s.start(fused, fail(c.first)...)
				cred := s.begin(s.server, thread)
				id := s.pay(cred).ToolCallID
				s.settled(t, thread)
				if c.first == "" {
					s.kill()
					s.start(fused, fail(c.second)...)
				}
				_, _, _ = s.decide(id, "approve") // the server may die of it
				if c.first != "" || c.second != "" {
					s.gone(20 * time.Second)
					s.payer.drain()
					s.start(fused, s.env...)
				}
				next := s.again(cred.turn, id)
				if n := s.till.called(id); n != c.ran && c.ran > 0 {
					t.Errorf("the tool ran %d times before the agent was called again, want %d", n, c.ran)
				}
				if old := s.waitFor(cred, id, time.Second); old.HTTP != 401 {
					t.Errorf("the token of the lost call is good for HTTP %d", old.HTTP)
				}
				if found := s.pay(next); found.ToolCallID != id && found.Status != "succeeded" {
					t.Errorf("the agent finds %+v, not the call %s", found, id)
				}
				if c.ran > 0 { // no row shows its outcome
					if status := s.answer(s.asked("input").ID, `{"payload":{"outcome":"succeeded","result":{"paid":true}}}`); status != 200 {
						t.Errorf("the answer is HTTP %d", status)
					}
				}
				if got := s.outcome(next, id); got.Status != "succeeded" || string(got.Result) != `{"paid":true}` {
					t.Errorf("the agent gets %+v", got)
				}
				s.payer.leave <- struct{}{}
				s.settled(t, thread)
				if n := s.till.called(id); n != 1 {
					t.Errorf("the tool ran %d times", n)
				}
				s.kill()
			})
		}
	})
}

// drain forgets calls of servers that are dead.
func (p *payer) drain() {
	for {
		select {
		case <-p.turns:
		default:
			return
		}
	}
}

// TestResumableAgentIsAway: the tool of an approved call does not run where the agent that asked cannot be called again.
func TestResumableAgentIsAway(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, database string) {
		s := newToolEnv(t, database, asksFirst)
		s.payer.resumable = true
		s.start(fused, s.env...)
		cred := s.begin(s.server, "T")
		id := s.pay(cred).ToolCallID
		s.settled(t, "T")
		s.kill()
		s.payer.CloseClientConnections()
		s.payer.Listener.Close()
		s.start(fused, s.env...)
		if status, _, err := s.decide(id, "approve"); err != nil || status != 200 {
			t.Fatalf("approved: HTTP %d %v", status, err)
		}
		if got := s.ended(cred.turn, id); got != "FAILED" {
			t.Errorf("the call ended %s", got)
		}
		s.settled(t, "T")
		if n := s.till.called(id); n != 0 {
			t.Errorf("the tool ran %d times, for no agent", n)
		}
	})
}

// TestRestartCancelsWordsSay: a question of an agent that cannot be called again is cancelled after a restart, and the
// reason names the restart.
func TestRestartCancelsWordsSay(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, database string) {
		s := newToolEnv(t, database, asksFirst)
		s.start(fused, s.env...)
		cred := s.begin(s.server, "T")
		id := s.pay(cred).ToolCallID
		s.settled(t, "T")
		s.kill()
		s.start(fused, s.env...)
		if got := s.ended(cred.turn, id); got != "FAILED" {
			t.Errorf("the call ended %s", got)
		}
		var row struct{ Status, Reason string }
		if _, err := s.get("/api/approvals/"+id, &row); err != nil {
			t.Fatal(err)
		}
		if row.Status != "CANCELLED" || !strings.Contains(row.Reason, "The server was restarted") {
			t.Errorf("the approval is %+v", row)
		}
		if n := s.till.called(id); n != 0 {
			t.Errorf("the tool ran %d times, for no agent", n)
		}
	})
}
