package server_test

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"time"

	"aqueduct/bridge"
	"aqueduct/bridge/approval"
	"aqueduct/store"
)

// budgetCalls is a server whose agents call a model when the test asks for it.
type budgetCalls struct {
	*callEnv
	tell map[string]chan bool // by the prompt: another call of the model, or the end
	got  map[string]chan int  // by the prompt, how the calls are answered
	all  sync.WaitGroup       // the prompts
}

// newBudgetCalls makes one. An agent that is prompted with "parent" calls another, which is prompted with "child".
func newBudgetCalls(t *testing.T, db database, budgets string, names ...string) *budgetCalls {
	t.Helper()
	b := &budgetCalls{tell: make(map[string]chan bool), got: make(map[string]chan int)}
	for _, name := range names {
		b.tell[name], b.got[name] = make(chan bool), make(chan int, 1)
	}
	works := func(c *callEnv, ctx context.Context, say func(...bridge.Output), call bridge.Call, _ []approval.Delivery) {
		name := call.Messages[len(call.Messages)-1].Content.String()
		if name == "parent" {
			go c.call(ctx, call, "helper", "child")
		}
		for {
			select {
			case again := <-b.tell[name]:
				if !again {
					return
				}
				go func() { b.got[name] <- c.model(ctx, call) }()
			case <-ctx.Done():
				return
			}
		}
	}
	p, _ := withModels(t, oneUpstream+"budgets:\n"+budgets, plan{open: db.open})
	b.callEnv = newCallEnv(t, map[string]agentScript{"scripted": works, "helper": works}, p)
	if err := b.tools.Load(t.Context(), nil, func(string) error { return nil }); err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if name != "child" {
			b.all.Go(func() { b.chat(name, name, name) })
		}
	}
	return b
}

// questions waits until as many are open, and gives them by the thread in which they are asked.
func (b *budgetCalls) questions(n int) map[string]store.Approval {
	b.t.Helper()
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		rows, err := b.store.Approvals(b.t.Context(), store.System(), store.ApprovalFilter{Status: store.ApprovalPending}, store.Page{})
		if err == nil && len(rows) == n {
			open := make(map[string]store.Approval)
			for _, row := range rows {
				session, err := b.store.Session(b.t.Context(), store.System(), row.SessionID)
				if err != nil {
					b.t.Fatal(err)
				}
				open[session.ExternalID] = row
			}
			return open
		}
		if time.Now().After(end) {
			b.t.Fatalf("%d questions are open, not %d (%v)", len(rows), n, err)
		}
	}
}

// want waits for the answer of a call.
func (b *budgetCalls) want(name string, status int) {
	b.t.Helper()
	select {
	case got := <-b.got[name]:
		if got != status {
			b.t.Errorf("%s: a call of a model is answered %d, not %d", name, got, status)
		}
	case <-time.After(20 * time.Second):
		b.t.Fatalf("%s: a call of a model waits", name)
	}
}

func (b *budgetCalls) end() {
	for _, tell := range b.tell {
		tell <- false
	}
	b.all.Wait()
}

// TestBudgetAskedTwice: where two prompts of a user reach a limit, what is added by the question of one is for both: the other
// goes on, and its question is withdrawn. One that is rejected after that refuses nothing.
func TestBudgetAskedTwice(t *testing.T) {
	t.Parallel()
	for _, late := range []string{"", "reject"} {
		t.Run("late "+late, func(t *testing.T) {
			t.Parallel()
			onBothDatabases(t, func(t *testing.T, db database) {
				t.Helper()
				b := newBudgetCalls(t, db, "  - {of: user, tokens: 18}\n", "one", "two")
				b.tell["one"] <- true
				b.want("one", 200)
				b.tell["one"] <- true
				b.tell["two"] <- true
				open := b.questions(2)
				if got := b.decide(open["one"].ID, `{"decision":"approve","edited_args":{"budget":"user","unit":"tokens","limit":18,"add":150,"day":"`+time.Now().UTC().Format(time.DateOnly)+`"}}`); got.status != 200 {
					t.Fatal(got)
				}
				if late != "" {
					b.want("one", 200)
					b.decide(open["two"].ID, `{"decision":"`+late+`"}`)
					b.want("two", 200)
				} else {
					b.want("two", 200)
					b.want("one", 200)
					row, err := b.store.Approval(t.Context(), store.System(), open["two"].ID)
					if err != nil || row.Status != store.ApprovalCancelled || row.Reason == "" {
						t.Errorf("the question that nobody needs is %s %q %v", row.Status, row.Reason, err)
					}
				}
				b.questions(0)
				b.end()
			})
		})
	}
}

// TestBudgetOfRunWithChildren: a prompt and the agents that it leads to wait for one question, in the chat of the person who
// prompted. One that is rejected refuses all of them.
func TestBudgetOfRunWithChildren(t *testing.T) {
	t.Parallel()
	for decision, status := range map[string]int{
		// Enough for both calls: one that is counted before the other looks would use up what the budget had at first.
		`"approve","edited_args":{"budget":"run","unit":"tokens","limit":18,"add":150}`: 200,
		`"reject"`: 402,
	} {
		t.Run(strconv.Itoa(status), func(t *testing.T) {
			t.Parallel()
			onBothDatabases(t, func(t *testing.T, db database) {
				t.Helper()
				b := newBudgetCalls(t, db, "  - {of: run, tokens: 18}\n", "parent", "child")
				b.tell["child"] <- true
				b.want("child", 200)
				b.tell["child"] <- true
				open := b.questions(1)
				b.tell["parent"] <- true
				q, asked := open["parent"]
				if !asked || b.questions(1)["parent"].ID != q.ID {
					t.Fatalf("asked: %+v", open)
				}
				select {
				case status := <-b.got["parent"]:
					t.Errorf("a call of the parent is answered %d while a person is asked", status)
				case <-time.After(100 * time.Millisecond):
				}
				if got := b.decide(q.ID, `{"decision":`+decision+`}`); got.status != 200 {
					t.Fatal(got)
				}
				b.want("child", status)
				b.want("parent", status)
				b.questions(0)
				b.end()
			})
		})
	}
}

// TestBudgetOfEndedChild: a call that waits for a budget does not go on for an agent whose run has ended meanwhile, though the
// question, which is its caller's, is approved: its token is good for nothing any more.
func TestBudgetOfEndedChild(t *testing.T) {
	t.Parallel()
	first, answered, release := make(chan int, 1), make(chan int, 1), make(chan bool)
	child := make(chan string, 1)
	p, upstream := withModels(t, oneUpstream+"budgets:\n  - {of: run, tokens: 18}\n", plan{})
	c := newCallEnv(t, map[string]agentScript{
		"scripted": func(c *callEnv, ctx context.Context, _ func(...bridge.Output), call bridge.Call, _ []approval.Delivery) {
			go c.call(ctx, call, "helper", "go")
			<-release
		},
		"helper": func(c *callEnv, ctx context.Context, _ func(...bridge.Output), call bridge.Call, _ []approval.Delivery) {
			child <- call.TurnID
			first <- c.model(ctx, call)
			go func() { answered <- c.model(context.WithoutCancel(ctx), call) }() // a process that goes on
			<-ctx.Done()
		},
	}, p)
	if err := c.tools.Load(t.Context(), nil, func(string) error { return nil }); err != nil {
		t.Fatal(err)
	}
	over := make(chan []frame, 1)
	go func() { over <- c.chat("t", "r", "go") }()
	b := &budgetCalls{callEnv: c}
	if status := <-first; status != 200 {
		t.Fatal(status)
	}
	q := b.questions(1)["t"]
	id := <-child
	if got := c.do("POST", "/api/runs/"+id+"/cancel", "{}"); got.status != http.StatusAccepted {
		t.Fatal(got)
	}
	eventually(t, func() error {
		turn, err := c.store.Turn(t.Context(), store.System(), id)
		if err == nil && !turn.Status.Terminal() {
			err = fmt.Errorf("the called agent is %s", turn.Status)
		}
		return err
	})
	if got := c.decide(q.ID, `{"decision":"approve"}`); got.status != 200 {
		t.Fatal(got)
	}
	if status := <-answered; status != http.StatusUnauthorized {
		t.Errorf("the call that waited is answered %d", status)
	}
	close(release)
	<-over
	upstream.mu.Lock()
	defer upstream.mu.Unlock()
	if n := len(upstream.calls); n != 1 {
		t.Errorf("the upstream was called %d times", n)
	}
}
