package faults_test

import (
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"aqueduct/store/storetest"
	"aqueduct/test/program"
)

// pair is a toolEnv with two servers, of different names, on one database. The environment's own is
// the first.
type pair struct {
	*toolEnv
	both [2]*server
}

func newPair(t testing.TB, policy string, first ...string) *pair {
	p := &pair{toolEnv: newToolEnv(t, storetest.Postgres(t), policy)}
	p.first(first...)
	p.both[1] = p.another(program.Shipped, append(p.env, "AQUEDUCT_NAME=second")...)
	return p
}

// first starts the first server, which fences its namesake before it.
func (p *pair) first(env ...string) {
	p.t.Helper()
	p.start(fused, append(append(env, p.env...), "AQUEDUCT_NAME=first")...)
	p.both[0] = p.server
}

const (
	pairRaces = 100
	pairBids  = 100 // in each, half of them to either server
)

// TestToolDecidedAtTwoServers: a hundred people, or one who clicks a hundred times, approve at
// two servers at once. One settles it, all others receive who did and how, the tool runs
// once, its agent has the result, and the chat goes on to its end.
func TestToolDecidedAtTwoServers(t *testing.T) {
	p := newPair(t, asksFirst)
	began := time.Now()
	var agents [pairRaces]credentials
	var calls, heard [pairRaces]toolCall
	var waiting sync.WaitGroup
	for i := range agents {
		home := p.both[i%2]
		agents[i] = p.begin(home, fmt.Sprint("T", i))
		if calls[i] = home.pay(agents[i]); calls[i].Status != "pending" {
			t.Fatalf("%+v", calls[i])
		}
		waiting.Go(func() { heard[i] = home.outcome(agents[i], calls[i].ToolCallID) })
	}
	asked := time.Now()
	wins := [2]int{}
	for i := range calls {
		at, err := p.raceAt(calls[i].ToolCallID)
		if err != nil {
			t.Fatalf("race %d: %v", i, err)
		}
		wins[at]++
	}
	raced := time.Now()
	waiting.Wait()
	for range agents {
		p.payer.leave <- struct{}{}
	}
	for i, call := range calls {
		if heard[i].Status != "succeeded" || string(heard[i].Result) != `{"paid":true}` {
			t.Errorf("the agent of race %d hears %+v", i, heard[i])
		}
		if _, turn := p.both[i%2].settled(t, fmt.Sprint("T", i)); turn.Turn.Status != "DONE" {
			t.Errorf("the turn of race %d is %s: %+v", i, turn.Turn.Status, turn)
		}
		if n := p.till.called(call.ToolCallID); n != 1 {
			t.Errorf("the call of race %d ran %d times", i, n)
		}
	}
	t.Logf("%d races of %d identical decisions in %v, after %v to ask and before %v to end; won at the first server %d, at the second %d", pairRaces, pairBids,
		raced.Sub(asked).Round(time.Millisecond), asked.Sub(began).Round(time.Millisecond), time.Since(raced).Round(time.Millisecond), wins[0], wins[1])
	if wins[0] == 0 || wins[1] == 0 {
		t.Error("these are no races")
	}
}

// raceAt has everybody approve a Question at once, and tells at which server it was settled.
func (p *pair) raceAt(id string) (won int, err error) {
	var told [pairBids]decided
	var failed atomic.Pointer[error]
	var all sync.WaitGroup
	start := make(chan struct{})
	for i := range told {
		all.Go(func() {
			<-start
			status, out, err := p.both[i%2].decide(id, "approve")
			if err == nil && status != http.StatusOK {
				err = fmt.Errorf("HTTP %d %v", status, out.Code)
			}
			if told[i] = out; err != nil {
				failed.Store(&err)
			}
		})
	}
	close(start)
	all.Wait()
	if err := failed.Load(); err != nil {
		return 0, *err
	}
	won = -1
	for i, d := range told {
		switch {
		case d.Won == d.Repeated, d.Status != "APPROVED", d.DecidedAt == "", d.DecidedAt != told[0].DecidedAt, d.DecidedBy != "local", d.DecidedVia != "rest":
			return 0, fmt.Errorf("one is told %+v, another %+v", told[0], d)
		case d.Won && won >= 0:
			return 0, fmt.Errorf("two won")
		case d.Won:
			won = i
		}
	}
	if won < 0 {
		return 0, fmt.Errorf("nobody won")
	}
	return won % 2, nil
}

// TestToolKilledAtAnotherServer: an agent whose Turn is the second server's has its call run
// by the first, which dies at it and does not come back. The second finds that its beat has
// stopped and asks a person, who answers there, where the agent still waits. The call is not
// run a second time.
func TestToolKilledAtAnotherServer(t *testing.T) {
	t.Parallel()
	for answer, want := range map[string]struct {
		status, result, code string
		calls                int
	}{
		`{"payload":{"outcome":"succeeded","result":{"seen":"in the books"}}}`: {"succeeded", `{"seen":"in the books"}`, "", 1},
		`{"payload":{"outcome":"run_again"}}`:                                  {"succeeded", `{"paid":true}`, "", 2},
		`{"decision":"reject"}`:                                                {"failed", "", "outcome_unknown", 1},
	} {
		t.Run(answer, func(t *testing.T) {
			t.Parallel()
			p := newPair(t, asksNobody, "AQUEDUCT_FAILPOINT=before_tool_result:1")
			second := p.both[1]
			c := p.begin(second, "T")
			if lost := p.both[0].pay(c); lost.err == nil {
				t.Fatalf("the server answers %+v", lost)
			}
			p.gone(20 * time.Second)
			died := time.Now()
			again := second.pay(c) // the agent tries again, with its key
			id := again.ToolCallID
			if again.Status != "pending" {
				t.Fatalf("%+v", again)
			}
			if still := second.waitFor(c, id, 3*time.Second); still.State != "RUNNING" || p.till.called(id) != 1 {
				t.Fatalf("%+v, called %d times", still, p.till.called(id))
			}
			q := second.asked("input")
			t.Logf("asked %v after the server's death", time.Since(died).Round(10*time.Millisecond))
			if q.Args.ToolCallID != id {
				t.Fatalf("asked about %+v", q)
			}
			if unknown := second.waitFor(c, id, time.Millisecond); unknown.State != "UNKNOWN" || p.till.called(id) != 1 {
				t.Fatalf("%+v, called %d times", unknown, p.till.called(id))
			}
			if status := second.answer(q.ID, answer); status != http.StatusOK {
				t.Fatalf("HTTP %d", status)
			}
			heard := second.waitFor(c, id, 20*time.Second)
			if heard.Status != want.status || string(heard.Result) != want.result || heard.Error.Code != want.code {
				t.Errorf("the agent hears %+v", heard)
			}
			p.payer.leave <- struct{}{}
			if _, turn := second.settled(t, "T"); turn.Turn.Status != "DONE" {
				t.Errorf("the turn is %s", turn.Turn.Status)
			}
			if want.result != "" {
				second.chatHas(t, "T", id, want.result)
			}
			if n := p.till.called(id); n != want.calls {
				t.Errorf("it was called %d times", n)
			}
			if status := p.another(program.Shipped, append(p.env, "AQUEDUCT_NAME=third")...).answer(q.ID, answer); status != http.StatusOK {
				t.Errorf("the same answer again, at a third server, is HTTP %d", status)
			}
		})
	}
}
