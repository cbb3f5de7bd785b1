package server_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"aqueduct/bridge"
	"aqueduct/bridge/approval"
	"aqueduct/internal/fault"
	"aqueduct/server/llmproxy"
	"aqueduct/store"
)

// withModels is a plan with the upstreams of a models file, in which URL stands for the one that is returned.
func withModels(t *testing.T, file string, p plan) (plan, *fakeUpstream) {
	t.Helper()
	u := newUpstream(t)
	var err error
	if p.models, err = llmproxy.Parse([]byte(strings.ReplaceAll(file, "URL", u.URL)), func(string) (string, error) { return upstreamKey, nil }); err != nil {
		t.Fatal(err)
	}
	return p, u
}

// model calls a model as an agent does, and gives the status.
func (c *callEnv) model(ctx context.Context, of bridge.Call) int {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.URL+"/v1/chat/completions", strings.NewReader(callM1))
	if err != nil {
		return 0
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+of.RunToken)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode
}

// looksWithTheEnd has the owner of a Session find what asks for a look at its children only together with what ends its Turn, as
// where the two come close together.
type looksWithTheEnd struct{ store.Store }

func (s looksWithTheEnd) PendingCommands(ctx context.Context, in store.Scope, sessionID string) ([]store.Command, error) {
	commands, err := s.Store.PendingCommands(ctx, in, sessionID)
	if !slices.ContainsFunc(commands, func(c store.Command) bool { return c.Kind.Ends() }) {
		commands = slices.DeleteFunc(commands, func(c store.Command) bool { return c.Kind == store.CommandLook })
	}
	return commands, err
}

// TestModelUsageOfEnds: a Turn has what its calls of models used however it ends, and with it that of the agents it called:
// of those that failed, and of those that are at work when it ends.
func TestModelUsageOfEnds(t *testing.T) {
	t.Parallel()
	fails := func(say func(...bridge.Output)) {
		say(bridge.Output{End: &bridge.End{Failure: fault.New("broken", "It broke.")}})
	}
	for name, want := range map[string]struct {
		calls int
		end   string
	}{
		"fails": {1, "RUN_ERROR"}, "is cancelled": {1, "RUN_FINISHED"}, "goes on behind a child that fails": {2, "RUN_FINISHED"},
		"fails with a child at work": {2, "RUN_ERROR"}, "is cancelled with a child at work": {2, "RUN_FINISHED"},
		"is cancelled before it is known that it has a child at work": {2, "RUN_FINISHED"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onBothDatabases(t, func(t *testing.T, db database) {
				t.Helper()
				childs, all := make(chan struct{}, 1), make(chan struct{}, 1) // the calls of models that have their answers
				open := db.open
				if strings.Contains(name, "before it is known") {
					open = func(t testing.TB) (store.Store, error) {
						s, err := db.open(t)
						return looksWithTheEnd{s}, err
					}
				}
				p, _ := withModels(t, oneUpstream, plan{open: open})
				c := newCallEnv(t, map[string]agentScript{
					"scripted": func(c *callEnv, ctx context.Context, say func(...bridge.Output), call bridge.Call, _ []approval.Delivery) {
						c.model(ctx, call)
						switch {
						case strings.Contains(name, "at work"):
							go c.call(ctx, call, "helper", "stay")
							<-childs
						case strings.Contains(name, "child"):
							c.call(ctx, call, "helper", "fail")
							return
						}
						all <- struct{}{}
						if strings.HasPrefix(name, "fails") {
							fails(say)
							return
						}
						<-ctx.Done()
					},
					"helper": func(c *callEnv, ctx context.Context, say func(...bridge.Output), call bridge.Call, _ []approval.Delivery) {
						c.model(ctx, call)
						if call.Messages[len(call.Messages)-1].Content.String() == "fail" {
							fails(say)
							return
						}
						childs <- struct{}{}
						<-ctx.Done()
					},
				}, p)
				r := c.open(c.prompt("t", "r", "go"))
				if strings.Contains(name, "cancelled") {
					<-all
					c.do("POST", "/api/runs/r/cancel", "{}")
				}
				frames := r.rest()
				last := frames[len(frames)-1].data
				usage := fmt.Sprintf(`"usage":[{"provider":"main","model":"m1","inputTokens":%d,"outputTokens":%d,`, 11*want.calls, 7*want.calls)
				if !strings.Contains(last, want.end) || !strings.Contains(last, usage) {
					t.Errorf("no %s with %s: %s", want.end, usage, last)
				}
				if tree := c.tree("r"); !strings.Contains(string(tree.Usage), fmt.Sprintf(`"inputTokens":%d`, 11*want.calls)) {
					t.Errorf("the Turn has %s", tree.Usage)
				}
			})
		})
	}
}
