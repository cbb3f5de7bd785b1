package faults_test

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"aqueduct/store/storetest"
	"aqueduct/test/program"
)

// twoForACP are two servers on one database. The proxy of the ACP agent links to the first, which both were there before.
func twoForACP(t *testing.T) (y *acpEnv, second *server) {
	t.Helper()
	y = newACPEnvAlone(t, storetest.Postgres(t), "AQUEDUCT_NAME=first")
	second = y.another(program.Shipped, append(y.env, "AQUEDUCT_NAME=second")...)
	first := y.server
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the first server:\n%s\nthe second:\n%s", first.log(), second.log())
		}
	})
	y.startProxy()
	y.linked()
	return y, second
}

// at is the environment with another server in the place of its own.
func (y *acpEnv) at(s *server) *acpEnv {
	h, other := *y.serverEnv, *y
	h.server, other.serverEnv = s, &h
	return &other
}

// TestACPAgentAtEveryReplica checks an agent whose proxy is linked to one server. The other server knows the agent too, with
// the first message and in the list. Its prompts are driven where the proxy is, in new threads and in those that the other
// server owned.
func TestACPAgentAtEveryReplica(t *testing.T) {
	t.Parallel()
	y, second := twoForACP(t)
	elsewhere := y.at(second)
	var words []string
	prompts := func(at *acpEnv, thread, run string, n int) {
		t.Helper()
		word := fmt.Sprintf("count %d 1ms", n)
		words = append(words, word)
		k := at.chat(thread, run, word)
		if last := k.over(); last.kind() != "RUN_FINISHED" {
			t.Fatalf("thread %s ended with %s\n%s\n%s", thread, last.data, y.log(), second.log())
		}
		y.numbered(k.all, n)
	}
	prompts(elsewhere, "new", "r1", 3) // at once, before the second server has to know the agent
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		var list struct {
			Agents []struct {
				ID     string `json:"agent_id"`
				Status string
			}
		}
		if _, err := second.get("/v1/agents", &list); err != nil {
			t.Fatal(err)
		}
		var status string
		for _, a := range list.Agents {
			if a.ID == proxyID {
				status = a.Status
			}
		}
		if status == "online" {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("the second server lists %+v", list)
		}
	}
	prompts(elsewhere, "new", "r2", 4)
	prompts(y, "new", "r3", 2)
	prompts(y, "home", "r4", 2)
	prompts(elsewhere, "home", "r5", 2)
	if _, err := newLedger(t, "moves", 2).post(second, "r6", "count 2"); err != nil { // the HTTP agent's, and so the second server's
		t.Fatal(err)
	}
	prompts(elsewhere, "moves", "r7", 5)
	if _, err := newLedger(t, "moves", 2).post(y.server, "r8", "count 2"); err != nil {
		t.Fatal(err)
	}
	y.prompted(words...)
}

// TestProxyMovesInMidPrompt moves the link of a proxy from one server to another while its agent answers, and back during the
// next prompt. The server that has lost the link gives the thread to the one that has it. No event is lost or doubled, and the
// agent is not asked twice.
func TestProxyMovesInMidPrompt(t *testing.T) {
	t.Parallel()
	y, second := twoForACP(t)
	first := y.server
	var words []string
	for i, to := range []*server{second, first, second} {
		n := 400 + 10*i
		words = append(words, fmt.Sprintf("count %d 5ms", n))
		run := fmt.Sprint("r", i)
		k := y.chat("t", run, words[i])
		k.until(50)
		y.wire.cut()
		y.wire.join(strings.TrimPrefix(to.url, "http://"))
		if last := k.over(); last.kind() != "RUN_FINISHED" {
			t.Fatalf("round %d ended with %s\n%s\n%s", i, last.data, first.log(), second.log())
		}
		y.numbered(k.all, n)
		y.at(to).kept(k)
	}
	y.prompted(words...)
}

// TestServerDrainsInPrompt: the server that has an agent's link is asked to end while the agent answers, and drains; a
// prompt that comes to the other server meanwhile is answered when the proxy has linked there.
func TestServerDrainsInPrompt(t *testing.T) {
	t.Parallel()
	y := newACPEnvAlone(t, storetest.Postgres(t), "AQUEDUCT_NAME=first", drains)
	second := y.another(program.Shipped, append(y.env, "AQUEDUCT_NAME=second")...)
	y.startProxy()
	y.linked()
	k := y.chat("t", "r", "count 300 5ms")
	k.until(20)
	y.signal(syscall.SIGTERM)
	for !strings.Contains(y.log(), "draining") {
		time.Sleep(time.Millisecond)
	}
	next := y.at(second).chat("next", "n", "count 3 1ms")
	if last := k.over(); last.kind() != "RUN_FINISHED" {
		t.Errorf("the run under way ended with %s\n%s", last.data, y.log())
	}
	y.numbered(k.all, 300)
	y.gone(40 * time.Second)
	y.wire.join(strings.TrimPrefix(second.url, "http://"))
	if last := next.over(); last.kind() != "RUN_FINISHED" {
		t.Errorf("the next run ended with %s\n%s", last.data, second.log())
	}
	y.numbered(next.all, 3)
	y.prompted("count 300 5ms", "count 3 1ms")
}
