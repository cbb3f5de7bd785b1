package server_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"aqueduct/bridge"
	"aqueduct/bridge/approval"
	"aqueduct/store"
	"aqueduct/store/postgres"
	"aqueduct/store/storetest"
)

// TestAgentCallsCancelledElsewhere: two servers that do not get each other's rings, and a chain of calls that goes from one
// to the other and back. Cancelling the root, at either, ends all of them within a second.
func TestAgentCallsCancelledElsewhere(t *testing.T) {
	t.Parallel()
	dsn := storetest.Postgres(t)
	open := func(t testing.TB) (store.Store, error) {
		return postgres.Open(t.Context(), dsn, postgres.Options{Tracer: &sentPostgres})
	}
	began, ended := make(chan string, 8), make(chan string, 8)
	var servers [2]*callEnv
	// passes calls the next agent at a server, and stays until it is cancelled itself.
	passes := func(at int, to string) agentScript {
		return func(_ *callEnv, ctx context.Context, _ func(...bridge.Output), call bridge.Call, _ []approval.Delivery) {
			go servers[at].call(context.WithoutCancel(ctx), call, to, "go on")
			<-ctx.Done()
			ended <- call.AgentID
		}
	}
	agents := map[string]agentScript{
		"scripted": passes(1, "b"), "b": passes(0, "c"), "c": passes(1, "leaf"),
		"leaf": func(_ *callEnv, ctx context.Context, say func(...bridge.Output), call bridge.Call, _ []approval.Delivery) {
			says(say, "at work")
			began <- call.AgentID
			<-ctx.Done()
			ended <- call.AgentID
		},
	}
	for i := range servers {
		servers[i] = newCallEnv(t, agents, plan{open: open, name: fmt.Sprint("replica", i)})
	}
	for round := range 6 {
		run := fmt.Sprint("r", round)
		r := servers[0].open(servers[0].prompt("t"+run, run, "go"))
		<-began
		time.Sleep(time.Duration(round) * 150 * time.Millisecond) // another moment of the servers' looks
		asked := time.Now()
		if got := servers[round%2].do("POST", "/api/runs/"+run+"/cancel", "{}"); got.status != http.StatusAccepted && got.status != http.StatusOK {
			t.Fatal(got.status, got.body)
		}
		for range 4 {
			select {
			case <-ended:
			case <-time.After(20 * time.Second):
				t.Fatalf("not all have ended; the tree is %s", servers[0].tree(run))
			}
		}
		if took := time.Since(asked); took > time.Second {
			t.Errorf("cancelled at server %d: the last agent learned of it after %v", round%2, took)
		}
		r.rest()
		servers[0].settled(run, "scripted CANCELLED [b CANCELLED [c CANCELLED [leaf CANCELLED]]]")
	}
}

// TestAgentCallsUsageElsewhere: what an agent used that another server drove is in its caller's usage, also where both end
// before the caller's server knows of the call.
func TestAgentCallsUsageElsewhere(t *testing.T) {
	t.Parallel()
	dsn := storetest.Postgres(t)
	open := func(t testing.TB) (store.Store, error) {
		return postgres.Open(t.Context(), dsn, postgres.Options{Tracer: &sentPostgres})
	}
	var servers [2]*callEnv
	agents := map[string]agentScript{
		"scripted": func(_ *callEnv, ctx context.Context, say func(...bridge.Output), call bridge.Call, _ []approval.Delivery) {
			servers[1].call(ctx, call, "leaf", "go on")
			say(spent(10, 20))
		},
		"leaf": func(_ *callEnv, _ context.Context, say func(...bridge.Output), _ bridge.Call, _ []approval.Delivery) {
			say(spent(1, 2))
		},
	}
	for i := range servers {
		servers[i] = newCallEnv(t, agents, plan{open: open, name: fmt.Sprint("replica", i)})
	}
	for round := range 5 {
		run := fmt.Sprint("r", round)
		frames := servers[0].chat("t"+run, run, "go")
		if end := last(frames).data; !strings.Contains(end, `"inputTokens":11,"outputTokens":22`) {
			t.Errorf("the chat ends with %s", end)
		}
		if shown := joined(frames); !strings.Contains(shown, `"SUBAGENT_STARTED"`) || !strings.Contains(shown, `"SUBAGENT_FINISHED"`) {
			t.Errorf("the chat shows no called agent: %s", shown)
		}
	}
}
