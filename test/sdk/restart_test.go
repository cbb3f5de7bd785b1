package sdk_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// approvalsOfEach is how many approvals of each SDK's agent are open when the server is restarted: 6, or $AQUEDUCT_RESTART.
func approvalsOfEach(t *testing.T) int {
	t.Helper()
	text := os.Getenv("AQUEDUCT_RESTART")
	if text == "" {
		return 6
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// waiting is one call of a tool that waits for a person.
type waiting struct {
	agent, thread string
	amount        int
	approve       bool
	edited        int // the amount that a person approves instead, 0 for none
}

// TestRestartKeepsApprovals restarts the server while tool calls of agents with each SDK wait for a person. The questions
// stay open; each is decided once, some with edited arguments, each approved tool runs once, and each agent's answer is complete and written once.
func TestRestartKeepsApprovals(t *testing.T) {
	t.Parallel()
	for name, kill := range map[string]bool{"SIGTERM": false, "kill -9": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t)
			var all []waiting
			for i := range approvalsOfEach(t) {
				for j, id := range slices.Sorted(maps.Keys(other)) {
					amount := 1000 + 3*i + j
					w := waiting{id, fmt.Sprintf("restart-%s-%d", id, i), amount, i%4 != 3, 0}
					if i%4 == 1 {
						w.edited = 1
					}
					all = append(all, w)
				}
			}
			together(all, func(w waiting) { s.chat(t, w.agent, w.thread, fmt.Sprintf("transfer %d to ada", w.amount)) })
			before := s.openIDs(t)
			if len(before) != len(all) {
				t.Fatalf("%d questions are open before the restart, want %d", len(before), len(all))
			}
			s.restart(t, kill)
			if after := s.openIDs(t); !maps.Equal(before, after) {
				t.Errorf("after the restart %d questions are open, want the same %d", len(after), len(before))
			}
			together(all, func(w waiting) {
				body := fmt.Appendf(nil, `{"approved":%t}`, w.approve)
				if w.edited != 0 {
					body = fmt.Appendf(nil, `{"approved":true,"edited_args":{"amount":%d,"to":"ada"}}`, w.edited)
				}
				if _, err := s.try(http.MethodPost, "/api/approvals/"+before[w.thread]+"/decision", body); err != nil {
					t.Error(err)
				}
			})
			var want []string
			for _, w := range all {
				said := fmt.Sprintf("I will transfer %d to ada. |", w.amount)
				if w.approve {
					want = append(want, fmt.Sprintf(`{"amount":%d,"to":"ada"}`, cmp.Or(w.edited, w.amount)))
					said += "Done, receipt r-"
				} else {
					said += "It was not done (rejected)."
				}
				if got := s.finished(t, w.thread); !strings.HasPrefix(got, said) || strings.Count(got, "|") != 1 {
					t.Errorf("%s said %q, want %q", w.thread, got, said)
				}
			}
			paid := s.bank.executed()
			slices.Sort(paid)
			slices.Sort(want)
			if !slices.Equal(paid, want) {
				t.Errorf("paid %v, want each of %v once", paid, want)
			}
		})
	}
}

// together does something for each at the same time.
func together(all []waiting, do func(waiting)) {
	var wg sync.WaitGroup
	for _, w := range all {
		wg.Go(func() { do(w) })
	}
	wg.Wait()
}

// openIDs are the ids of the open questions, by their threads.
func (s *setting) openIDs(t *testing.T) map[string]string {
	t.Helper()
	text, err := s.try(http.MethodGet, "/api/approvals?status=PENDING&limit=200", nil)
	var page struct{ Approvals []approval }
	if err == nil {
		err = json.Unmarshal([]byte(text), &page)
	}
	if err != nil {
		t.Fatal(err)
	}
	ids := make(map[string]string)
	for _, a := range page.Approvals {
		ids[a.Thread] = a.ID
	}
	return ids
}
