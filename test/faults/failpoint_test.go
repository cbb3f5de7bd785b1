package faults_test

import (
	"fmt"
	"testing"
	"time"

	"aqueduct/test/program"
)

// TestFailpoints: the server dies at each of the places where it hurts most, the first
// time it comes there or later. A client that was streaming, asked and answering finds
// everything it saw in the log, its Turn at an end or answerable, and the agent called at
// most once per dispatch.
func TestFailpoints(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, database string) {
		h := newServerEnv(t, database)
		h.kill()
		for _, c := range []struct {
			point string
			at    []int
			check func(starts, resumes, broken int) bool // of a death at the first time
		}{
			{"before_commit", []int{1, 2, 3, 5, 8, 11}, func(starts, resumes, broken int) bool {
				return starts == 1 && resumes == 1 && broken == 0 // it never began, and begins now
			}},
			{"after_commit", []int{1, 2, 3, 5, 8, 13}, func(starts, _, broken int) bool { return starts == 0 && broken == 1 }},
			{"before_dispatch", []int{1}, func(starts, _, broken int) bool { return starts == 0 && broken == 1 }},
			{"after_dispatch", []int{1}, func(starts, _, broken int) bool { return starts == 1 && broken == 1 }},
			{"before_delivery", []int{1}, func(starts, resumes, broken int) bool { return starts == 1 && resumes == 0 && broken == 1 }},
			{"after_delivery", []int{1}, func(starts, resumes, broken int) bool { return starts == 1 && resumes == 1 && broken == 1 }},
		} {
			for _, n := range c.at {
				t.Run(fmt.Sprint(c.point, ":", n), func(t *testing.T) {
					h := &serverEnv{t: t, database: database, agent: h.agent}
					l := newLedger(t, fmt.Sprintf("%s-%d", c.point, n), 10)
					h.start(fused, fmt.Sprintf("AQUEDUCT_FAILPOINT=%s:%d", c.point, n))
					other := newLedger(t, l.thread+"-other", 1)
					live(l, other, h.server)
					h.gone(20 * time.Second)
					h.start(program.Shipped)
					log := l.audit(h)
					other.audit(h) // it ends here, and not in the first commit of the next server
					var run runInfo
					if _, err := h.get("/api/runs/"+l.thread+"-r", &run); err != nil {
						t.Fatal(err)
					}
					starts, resumes := h.agent.called(run.TurnID)
					if n == 1 && !c.check(starts, resumes, broken(log)) || broken(log) > 1 {
						t.Errorf("started %d times, resumed %d times, %d Runs broken off", starts, resumes, broken(log))
					}
					if t.Failed() {
						t.Log(h.log())
					}
					h.kill()
				})
			}
		}
		if most := h.agent.most(); most > 1 {
			t.Errorf("a dispatch reached the agent %d times", most)
		}
	})
}

// live is a client's whole life on a thread: a prompt, a question, an answer in the chat, and
// then prompts on another thread. It ends when the server dies.
func live(l, other *ledger, s *server) {
	if _, err := l.post(s, l.thread+"-r", "ask 10 3ms"); err != nil {
		return
	}
	var info threadInfo
	if _, err := s.get("/api/threads/"+l.thread, &info); err != nil || len(info.Questions) != 1 {
		return
	}
	body := fmt.Sprintf(`{"threadId":%q,"runId":%q,"protocolVersion":"1.0","state":{},"messages":[],"tools":[],"context":[],`+
		`"forwardedProps":{},"resume":[{"interruptId":%q,"status":"resolved","payload":{"approved":true}}]}`,
		l.thread, l.thread+"-r2", info.Questions[0])
	in, err := s.stream("POST", "/api/agui/chat", []byte(body))
	if err != nil {
		return
	}
	if _, err := l.drain(in); err != nil {
		return // it ends when the server does
	}
	// On a slow machine one commit holds many events, and the one that the server dies of has not come yet.
	for i := range 100 {
		if _, err := other.post(s, fmt.Sprintf("%s-%d", other.thread, i), "count 1"); err != nil {
			return
		}
	}
}
