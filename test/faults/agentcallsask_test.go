package faults_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"aqueduct/test/program"
)

// askedKills is how often the server is killed while a called agent asks.
const askedKills = 6

// TestAgentCallsAskedKilled: the server is killed while the question of a called agent is open in the chat of the root, and
// a person answers as soon as it is back. The answer counts, once, or is refused; either way both agents come to an end with
// a reason that the chat tells, nothing stays open, and no agent is called twice for one thing.
func TestAgentCallsAskedKilled(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, database string) {
		child, caller := newMortal(t, "asker"), newMortal(t, "caller")
		h := &serverEnv{t: t, database: database, agent: newAgent(t), flags: []string{"--agent", "caller=http://" + caller.at, "--agent", "child=http://" + child.at}}
		h.start(program.Shipped)
		for round := range askedKills {
			thread := fmt.Sprint("asked", round)
			in, err := h.stream("POST", "/api/agui/chat?agent=caller", prompt(thread, thread+"-r", "go"))
			if err != nil {
				t.Fatal(err)
			}
			for { // to the end of the Run, which shows the question
				if e, err := in.next(); err != nil || e.terminal() {
					break
				}
			}
			in.close()
			q := h.asked("permission")
			time.Sleep(time.Duration(round%3) * 100 * time.Millisecond)
			h.kill()
			h.start(program.Shipped)
			time.Sleep(time.Duration(round/3) * 2 * time.Second) // at once, or when the server has looked around
			won := h.answersAfterKill(t, q.ID)
			tree := h.atRest(t, thread+"-r")
			t.Logf("the answer counted: %t; the root is %s, the called agent %+v", won, tree.Status, tree.Children)
			h.nothingIsOpen(t, thread, q.ID, tree)
		}
		if caller.most() > 1 || child.most() > 1 {
			t.Errorf("a run of the caller was begun %d times, one of the child %d times", caller.most(), child.most())
		}
	})
}

// answersAfterKill decides a Question, twice, and tells whether that counted, once.
func (h *serverEnv) answersAfterKill(t *testing.T, id string) (won bool) {
	t.Helper()
	for i := range 2 {
		status, out, err := h.decide(id, "approve")
		switch {
		case err != nil || status != http.StatusOK && status != http.StatusConflict:
			t.Errorf("the answer gets %d %+v %v", status, out, err)
		case status == http.StatusOK && out.Won && i > 0:
			t.Error("a second answer counts")
		case status == http.StatusOK && out.Won:
			won = true
		}
	}
	return won
}

// nothingIsOpen checks that no question is open, and that the chat has how it went.
func (h *serverEnv) nothingIsOpen(t *testing.T, thread, id string, tree calledTree) {
	t.Helper()
	var list struct{ Approvals []approval }
	if _, err := h.get("/api/approvals?status=PENDING", &list); err != nil || len(list.Approvals) != 0 {
		t.Errorf("%d questions are open, %v", len(list.Approvals), err)
	}
	if status, out, err := h.decide(id, "reject"); err != nil || status != http.StatusConflict {
		t.Errorf("an answer afterwards gets %d %+v %v", status, out, err)
	}
	if len(tree.Children) != 1 {
		t.Fatalf("the tree is %+v", tree)
	}
	in, err := h.stream("POST", "/api/agui/connect", []byte(fmt.Sprintf(`{"threadId":%q,"protocolVersion":"1.0"}`, thread)))
	if err != nil {
		t.Fatal(err)
	}
	defer in.close()
	told := ""
	for {
		e, err := in.next()
		if err != nil {
			break
		}
		told += e.data + "\n"
	}
	if tree.Status == "FAILED" && !strings.Contains(told, `"RUN_ERROR"`) || strings.Contains(told, `"type":"interrupt"`) {
		t.Errorf("the root is %s, and who comes to the chat is told %s", tree.Status, told)
	}
}
