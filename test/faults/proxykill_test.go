package faults_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"aqueduct/store/storetest"
)

// brokenOnce: the Run that was broken off reports why, once, and all its output before is there;
// then the thread is used again.
func (y *acpEnv) brokenOnce(k *talk, code string, causes ...string) {
	y.t.Helper()
	last := k.over()
	if last.kind() != "RUN_ERROR" || codeOf(last) != code {
		y.t.Errorf("the stream ends with %s", last.data)
	}
	for _, cause := range causes {
		if !strings.Contains(last.data, cause) {
			y.t.Errorf("no %q in %s", cause, last.data)
		}
	}
	log := y.kept(k)
	if n := count(log, "RUN_ERROR"); n != 1 {
		y.t.Errorf("%d errors are told", n)
	}
	y.numbered(log, len(strings.Fields(text(log))))
	again := y.chat(k.thread, k.thread+"-again", "count 5 1ms again")
	if last := again.over(); last.kind() != "RUN_FINISHED" {
		y.t.Errorf("the thread's next Run ends with %s", last.data)
	}
	y.numbered(again.all, 5)
	whole := y.kept(k, again)
	if n := count(whole, "RUN_ERROR"); n != 1 {
		y.t.Errorf("%d errors are told in the end", n)
	}
	y.numbered(whole[len(log):], 5)
}

// TestAgentKilled: an agent that dies in mid-prompt costs one RUN_ERROR that tells how it
// died, and its thread goes on with a new one.
func TestAgentKilled(t *testing.T) {
	t.Parallel()
	y := newACPEnv(t, "sqlite:"+storetest.SQLite(t))
	killed := y.chat("killed", "killed-r", "count 5000 2ms")
	killed.until(50)
	if err := syscall.Kill(y.pid(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	y.brokenOnce(killed, "agent_exited", "SIGKILL")
	died := y.chat("died", "died-r", "die 20 2ms")
	y.brokenOnce(died, "agent_exited", "code 7", "these are my last words")
	y.prompted("count 5000 2ms", "count 5 1ms again", "die 20 2ms", "count 5 1ms again")
	if n := len(y.lines("load")); n != 2 {
		t.Errorf("%d of 2 sessions were loaded again", n)
	}
}

// TestProxyKilled: a proxy that is killed in mid-prompt and started again has lost its agents:
// one RUN_ERROR reports it, no prompt is given again, and the thread goes on.
func TestProxyKilled(t *testing.T) {
	t.Parallel()
	y := newACPEnv(t, "sqlite:"+storetest.SQLite(t))
	k := y.chat("t", "t-r", "count 5000 2ms")
	k.until(50)
	y.proxy.kill()
	agent := y.pid()
	y.startProxy()
	y.brokenOnce(k, "agent_proxy_restarted", "proxy was restarted")
	if raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", agent)); err == nil && !strings.Contains(string(raw), ") Z ") {
		t.Errorf("the agent of the proxy that was killed is still there: %s", raw)
	}
	y.prompted("count 5000 2ms", "count 5 1ms again")
}

// TestProxyKilledForLong: one that does not come back within the grace costs one RUN_ERROR at
// its end; one that comes later serves the thread's next prompt.
func TestProxyKilledForLong(t *testing.T) {
	t.Parallel()
	const grace = 2 * time.Second
	y := newACPEnv(t, "sqlite:"+storetest.SQLite(t), "AQUEDUCT_PROXY_GRACE="+grace.String())
	k := y.chat("t", "t-r", "count 5000 2ms")
	k.until(50)
	cut := time.Now()
	y.proxy.kill()
	k.over()
	if took := time.Since(cut); took < grace || took > grace+10*time.Second {
		t.Errorf("the Run ended after %v, the grace is %v", took, grace)
	}
	y.startProxy()
	y.linked()
	y.brokenOnce(k, "agent_link_lost")
	y.prompted("count 5000 2ms", "count 5 1ms again")
}

// TestServerKilledInPrompt: the server dies at random moments of a prompt. The proxy and its
// agent live on, the Run is taken up again, every number is in the log once, and the agent
// had the prompt once.
func TestServerKilledInPrompt(t *testing.T) {
	databases(t, func(t *testing.T, database string) {
		t.Parallel()
		rounds := 8
		if database[:6] != "sqlite" {
			rounds = 3
		}
		y := newACPEnv(t, database)
		var asked []string
		seen, after := 0, 0
		for round := range rounds {
			const numbers = 300 // a second and a half
			words := fmt.Sprintf("count %d 5ms 0 0 round %d", numbers, round)
			asked = append(asked, words)
			k := y.chat(fmt.Sprint("t", round), fmt.Sprint("r", round), words)
			k.until(1 + rand.IntN(numbers/2))
			y.kill()
			<-k.ended
			if round%3 == 2 { // and again, while it takes up what it finds
				y.revive()
				time.Sleep(time.Duration(rand.IntN(500)) * time.Millisecond)
				y.kill()
			}
			y.revive()
			log := y.kept(k)
			y.numbered(log, numbers)
			if started, failed := count(log, "RUN_STARTED"), count(log, "RUN_ERROR"); started != 1 || failed != 0 {
				t.Errorf("%d Runs, %d of them broken", started, failed)
			}
			seen += len(k.seen)
			after += len(log) - len(k.seen)
			if t.Failed() {
				t.Fatalf("round %d\n%s", round, y.log())
			}
			if round%3 == 2 {
				y.newProxy()
			}
		}
		y.prompted(asked...)
		if starts := len(y.lines("start")); starts != rounds {
			t.Errorf("%d agents were started for %d threads", starts, rounds)
		}
		t.Logf("%d kills: %d events seen before them, %d kept after", rounds, seen, after)
	})
}

// TestServerKilledAsAPromptBegins: the server dies before, while and after it gives the prompt
// away. The agent has it at most once, and the Run is whole or reports once why it is not.
func TestServerKilledAsAPromptBegins(t *testing.T) {
	t.Parallel()
	y := newACPEnv(t, "sqlite:"+storetest.SQLite(t))
	whole, broke := 0, 0
	for round := range 6 {
		const numbers = 20
		words := fmt.Sprintf("count %d 2ms 0 0 round %d", numbers, round)
		k := y.chat(fmt.Sprint("t", round), fmt.Sprint("r", round), words)
		time.Sleep(time.Duration(rand.IntN(60)) * time.Millisecond)
		y.kill()
		<-k.ended
		y.revive()
		y.linked()
		log := y.kept(k)
		switch prompts := y.lines("prompt " + words); {
		case len(prompts) > 1:
			t.Errorf("the agent had the prompt %d times", len(prompts))
		case count(log, "RUN_ERROR") == 0:
			y.numbered(log, numbers)
			whole++
		default:
			if broken(log) != 1 {
				t.Errorf("%d errors are told", broken(log))
			}
			broke++
		}
		if t.Failed() {
			t.Fatalf("round %d\n%s", round, y.log())
		}
		y.newProxy()
	}
	t.Logf("%d Runs were whole, %d told that they are not", whole, broke)
}

// TestServerKilledWhileAsking: the server dies with a question open and is answered after its
// restart. The agent goes on with the one prompt it has; what it sent meanwhile is there once.
func TestServerKilledWhileAsking(t *testing.T) {
	databases(t, func(t *testing.T, database string) {
		t.Parallel()
		y := newACPEnv(t, database)
		for round, answer := range []string{"approve", "reject"} {
			const before, meanwhile, after = 10, 40, 15
			words := fmt.Sprintf("ask %d 10ms %d %d", before, meanwhile, after)
			k := y.chat(fmt.Sprint("t", round), fmt.Sprint("r", round), words)
			if last := k.over(); last.kind() != "RUN_FINISHED" || !strings.Contains(last.data, "interrupt") {
				t.Fatalf("the Run ends with %s", last.data)
			}
			y.kill()
			y.wrote("waits", round+1) // it speaks on without a server
			y.revive()
			info, _ := y.settled(t, k.thread)
			if len(info.Questions) != 1 {
				t.Fatalf("open: %v", info.Questions)
			}
			if status, out, err := y.decide(info.Questions[0], answer); err != nil || status != 200 || !out.Won {
				t.Fatalf("HTTP %d %+v %v", status, out, err)
			}
			y.wrote("answer", round+1)
			log := y.kept(k)
			y.numbered(log, before+meanwhile+after)
			if n := broken(log); n != 0 {
				t.Errorf("%d errors are told", n)
			}
			if t.Failed() {
				t.Fatalf("%s\n%s", answer, y.log())
			}
		}
		y.prompted("ask 10 10ms 40 15", "ask 10 10ms 40 15")
		if got, want := y.lines("answer"), []string{
			`{"outcome":{"outcome":"selected","optionId":"yes"}}`, `{"outcome":{"outcome":"selected","optionId":"no"}}`,
		}; !slices.Equal(got, want) {
			t.Errorf("the agent was answered %q", got)
		}
	})
}

// TestLinkCut: the link is cut in mid-prompt, with what is on its way, twice for a moment and
// then for two seconds: one stream carries every number once.
func TestLinkCut(t *testing.T) {
	t.Parallel()
	y := newACPEnv(t, "sqlite:"+storetest.SQLite(t))
	const numbers = 1500
	k := y.chat("t", "t-r", fmt.Sprintf("count %d 3ms", numbers))
	for _, at := range []int{100, 200} {
		k.until(at)
		y.wire.cut()
		y.reconnect()
	}
	k.until(300)
	y.wire.cut()
	time.Sleep(2 * time.Second)
	y.reconnect()
	if last := k.over(); last.kind() != "RUN_FINISHED" {
		t.Errorf("the Run ends with %s", last.data)
	}
	y.numbered(k.all, numbers)
	y.numbered(y.kept(k), numbers)
	y.prompted(fmt.Sprintf("count %d 3ms", numbers))
}
