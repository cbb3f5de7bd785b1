package acpgateway_test

import (
	"context"
	"encoding/json"
	"errors"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"aqueduct/acpgateway/wire"
	"aqueduct/bridge"
	"aqueduct/internal/fault"
)

// controlled runs a control beside the test, and gives its error.
func (h *acpEnv) controlled(session string, c bridge.Control) <-chan error {
	done := make(chan error, 1)
	ctx := h.t.Context()
	go func() { done <- h.gateway.Controller().Control(ctx, session, c) }()
	return done
}

// code is that of a ControlError, "" for none.
func code(t *testing.T, err error) string {
	t.Helper()
	if err == nil {
		return ""
	}
	var e *fault.Error
	if !errors.As(err, &e) {
		t.Fatalf("not a ControlError: %v", err)
	}
	return e.Code
}

// session_set_mode, session_set_model, session_set_config_option, session_cancel and acp_close,
// each with its control_id, and what their results come to.
func TestControls(t *testing.T) {
	inEnv(t, plan{}, func(h *acpEnv) {
		p := newProxy(h, "p1").link()
		c := p.begin("t1", "hi")
		c.says("m", "x")
		h.settle()
		result := func(id, failure string) {
			p.send(&wire.SessionControlResult{RunID: c.run, ControlID: id, OK: failure == "", Error: failure})
		}

		done := h.controlled(c.run, bridge.Control{Action: bridge.ControlSetMode, Value: json.RawMessage(`"plan"`)})
		mode := want[*wire.SessionSetMode](p)
		if mode.ModeID != "plan" || mode.SessionID != agentSession || mode.RunID != c.run || mode.ControlID == "" {
			t.Errorf("%+v", mode)
		}
		result("another", "")
		result(mode.ControlID, "")
		if got := code(t, <-done); got != "" {
			t.Error(got)
		}

		done = h.controlled(c.run, bridge.Control{Action: bridge.ControlSetOption, Option: "fast", Value: json.RawMessage(`true`)})
		option := want[*wire.SessionSetConfigOption](p)
		if option.ConfigID != "fast" || string(option.Value) != "true" || option.ControlID == mode.ControlID {
			t.Errorf("%+v", option)
		}
		result(option.ControlID, "Error: no such option")
		if got := code(t, <-done); got != bridge.ControlFailed {
			t.Error(got)
		}

		done = h.controlled(c.run, bridge.Control{Action: bridge.ControlCancel})
		cancel := want[*wire.SessionCancel](p)
		result(cancel.ControlID, "")
		if got := code(t, <-done); got != "" {
			t.Error(got)
		}

		if got := code(t, <-h.controlled("nobody", bridge.Control{Action: bridge.ControlCancel})); got != bridge.ControlNoAgent {
			t.Error(got)
		}
		if got := code(t, <-h.controlled(c.run, bridge.Control{Action: "dance"})); got != bridge.ControlUnsupported {
			t.Error(got)
		}
		c.ends()
		c.s.rest()
		h.must(<-h.controlled(c.run, bridge.Control{Action: bridge.ControlClose}))
		want[*wire.Close](p)
		p.silent()
	})
}

// Every action of sandbox_control reaches the proxy with its members, and its result comes back.
func TestSandboxControl(t *testing.T) {
	inEnv(t, plan{}, func(h *acpEnv) {
		p := newProxy(h, "p1").link()
		c := p.begin("t1", "hi")
		h.settle()
		name := "tuixiu-run-" + c.run
		for _, want1 := range []struct {
			in  bridge.SandboxControl
			raw string
		}{
			{bridge.SandboxControl{Action: wire.ActionInspect, SessionID: c.run}, `{"type":"sandbox_control","action":"inspect","run_id":"RUN","instance_name":"NAME","request_id":"ID"}`},
			{bridge.SandboxControl{Action: wire.ActionEnsureRunning, SessionID: c.run}, `{"type":"sandbox_control","action":"ensure_running","run_id":"RUN","instance_name":"NAME","request_id":"ID"}`},
			{bridge.SandboxControl{Action: wire.ActionStop, InstanceName: "i"}, `{"type":"sandbox_control","action":"stop","instance_name":"i","request_id":"ID"}`},
			{bridge.SandboxControl{Action: wire.ActionRemove, InstanceName: "i"}, `{"type":"sandbox_control","action":"remove","instance_name":"i","request_id":"ID"}`},
			{bridge.SandboxControl{Action: wire.ActionPruneOrphans, DryRun: true}, `{"type":"sandbox_control","action":"prune_orphans","request_id":"ID","expected_instances":[{"instance_name":"NAME","run_id":"RUN"}],"dry_run":true,"gc":{"remove_orphans":true,"remove_workspaces":true}}`},
			{bridge.SandboxControl{Action: wire.ActionGC, RemoveOrphans: true, RemoveWork: true, MaxDeleteCount: 3}, `{"type":"sandbox_control","action":"gc","request_id":"ID","expected_instances":[{"instance_name":"NAME","run_id":"RUN"}],"gc":{"remove_orphans":true,"remove_workspaces":true,"max_delete_count":3}}`},
			{bridge.SandboxControl{Action: wire.ActionGC, RemoveOrphans: true}, `{"type":"sandbox_control","action":"gc","request_id":"ID","expected_instances":[{"instance_name":"NAME","run_id":"RUN"}],"gc":{"remove_orphans":true}}`},
			{bridge.SandboxControl{Action: wire.ActionRemoveWorkspace, SessionID: c.run}, `{"type":"sandbox_control","action":"remove_workspace","run_id":"RUN","instance_name":"NAME","request_id":"ID"}`},
			{bridge.SandboxControl{Action: wire.ActionReportInventory}, `{"type":"sandbox_control","action":"report_inventory","request_id":"ID"}`},
			{bridge.SandboxControl{Action: wire.ActionRemoveImage, Image: "img"}, `{"type":"sandbox_control","action":"remove_image","request_id":"ID","image":"img"}`},
			{bridge.SandboxControl{Action: wire.ActionGitPush, SessionID: c.run, Branch: "b", Remote: "origin", Cwd: "/workspace/w", Timeout: 90 * time.Second}, `{"type":"sandbox_control","action":"git_push","run_id":"RUN","instance_name":"NAME","request_id":"ID","branch":"b","remote":"origin","cwd":"/workspace/w","timeout_seconds":90}`},
		} {
			results := make(chan bridge.SandboxResult, 1)
			ctx := h.t.Context()
			go func() {
				r, err := h.gateway.Controller().Sandbox(ctx, "p1", want1.in)
				h.must(err)
				results <- r
			}()
			d := p.next()
			f, ok := d.frame.(*wire.SandboxControl)
			if !ok {
				t.Fatal(d.raw)
			}
			code, signal := 1, "SIGTERM"
			p.send(&wire.SandboxControlResult{
				RunID: &c.run, InstanceName: &name, Action: f.Action, RequestID: &f.RequestID, Error: "unsupported",
				Stdout: "out", Stderr: "err", Code: &code, Signal: &signal, Status: "stopped", Details: json.RawMessage(`{"x":1}`),
			})
			r := <-results
			if r.OK || r.Error != "unsupported" || r.Stdout != "out" || r.Stderr != "err" || *r.Code != 1 || r.Signal != "SIGTERM" || r.Status != "stopped" || string(r.Details) != `{"x":1}` {
				t.Errorf("%s: %+v", f.Action, r)
			}
			if got := sandboxRaw(d.raw, c.run, name, f.RequestID); got != want1.raw {
				t.Errorf("got\n%s\nwant\n%s", got, want1.raw)
			}
		}
		_, err := h.gateway.Controller().Sandbox(h.t.Context(), "nobody", bridge.SandboxControl{Action: wire.ActionInspect})
		if got := code(t, err); got != bridge.ControlUnknown {
			t.Error(got)
		}
		other := newProxy(h, "p2").link()
		_, err = h.gateway.Controller().Sandbox(h.t.Context(), "p2", bridge.SandboxControl{Action: wire.ActionInspect, SessionID: c.run})
		if got := code(t, err); got != bridge.ControlNoAgent {
			t.Error(got)
		}
		other.silent()
		p.cut()
		_, err = h.gateway.Controller().Sandbox(h.t.Context(), "p1", bridge.SandboxControl{Action: wire.ActionInspect})
		if got := code(t, err); got != bridge.ControlOffline {
			t.Error(got)
		}
	})
}

// What a list reports is kept for every Session's instance, in memory or not, and shown: when it was seen, what is missing or was
// deleted, how large a folder is.
func TestListedInstancesAreKept(t *testing.T) {
	inEnv(t, plan{}, func(h *acpEnv) {
		p := newProxy(h, "p1").link()
		a, b := p.begin("a", "hi"), p.begin("b", "hi")
		a.ends()
		b.ends()
		h.settle()
		p.restart() // neither is in memory now
		p.link()
		c := p.begin("c", "hi")
		c.ends()
		h.settle()
		p.raw(`{"type":"sandbox_inventory","inventory_id":"i1","provider":"bwrap","runtime":null,"captured_at":"2000-01-01T00:01:00Z","instances":[
			{"instance_name":"tuixiu-run-` + a.run + `","run_id":"` + a.run + `","status":"stopped","created_at":null,"last_seen_at":"2000-01-01T00:00:10Z"},
			{"instance_name":"tuixiu-run-` + c.run + `","run_id":"` + c.run + `","status":"running","created_at":null,"last_seen_at":"2000-01-01T00:00:20Z"}],
			"missing_instances":[{"instance_name":"tuixiu-run-` + b.run + `","run_id":"` + b.run + `"}],"deleted_instances":["old"],"deleted_workspaces":["w"]}`)
		p.raw(`{"type":"workspace_inventory","inventory_id":"i2","captured_at":"2000-01-01T00:00:00Z","workspace_provider":"host","workspaces":[
			{"workspace_provider":"host","run_id":"` + a.run + `","instance_name":"tuixiu-run-` + a.run + `","host_path":"/w/a","guest_path":"/workspace","exists":true,"mtime":"2000-01-01T00:00:05Z","size_bytes":4096}]}`)
		h.pass(5 * time.Second)
		for thread, want := range map[string]string{"a": "stopped bwrap 00:00:10", "b": "missing", "c": "running bwrap 00:00:20"} {
			row := h.instance(thread)
			got := row.Status
			if thread != "b" {
				got += " " + row.Provider + " " + row.LastSeen.UTC().Format(time.TimeOnly)
			}
			if got != want {
				t.Errorf("%s is kept as %q, not %q", thread, got, want)
			}
		}
		inv, err := h.gateway.Controller().Inventory(h.t.Context(), "p1")
		h.must(err)
		if len(inv.MissingInstances) != 1 || len(inv.DeletedInstances) != 1 || string(inv.DeletedWorkspaces[0]) != `"w"` || inv.Instances[0].LastSeen.IsZero() {
			t.Errorf("%+v", inv)
		}
		for range 2 {
			proxy, folder, err := h.gateway.Controller().Place(h.t.Context(), a.run)
			if err != nil || proxy != "p1" || folder != "/w/a" {
				t.Errorf("a works at %q %q %v", proxy, folder, err)
			}
			if proxy, folder, err = h.gateway.Controller().Place(h.t.Context(), uuid.NewString()); err != nil || proxy+folder != "" {
				t.Errorf("who is behind no proxy works at %q %q %v", proxy, folder, err)
			}
			p.restart() // it is known before the proxy lists it again
			p.link()
		}
		if w := inv.Workspaces[0]; w.SizeBytes == nil || *w.SizeBytes != 4096 || w.ModifiedAt.IsZero() || w.Gone {
			t.Errorf("%+v", w)
		}
	})
}

// A proxy without a thread is sent an empty list of what is expected: without the list it must refuse, just when all it has is orphans.
func TestPruneWithoutThreads(t *testing.T) {
	inEnv(t, plan{}, func(h *acpEnv) {
		p := oldProxy(h, "p1").link()
		for _, action := range []string{wire.ActionPruneOrphans, wire.ActionGC} {
			ctx, cancel := context.WithCancel(h.t.Context())
			go func() { _, _ = h.gateway.Controller().Sandbox(ctx, "p1", bridge.SandboxControl{Action: action}) }()
			if d := p.next(); !strings.Contains(d.raw, `"expected_instances":[]`) || !strings.Contains(d.raw, `"remove_workspaces":true`) {
				t.Errorf("%s", d.raw)
			}
			cancel()
		}
	})
}

// sandboxRaw is a frame with its ids named.
func sandboxRaw(raw, run, name, request string) string {
	raw = strings.NewReplacer(name, "NAME", run, "RUN", request, "ID").Replace(raw)
	return regexp.MustCompile(`,"seq":\d+`).ReplaceAllString(raw, "")
}

// Inventories are compared with Sessions: what is unknown here, what is missing there. A prune
// names what is expected.
func TestInventories(t *testing.T) {
	inEnv(t, plan{}, func(h *acpEnv) {
		p := newProxy(h, "p1").link()
		a, b := p.begin("a", "hi"), p.begin("b", "hi")
		inv, err := h.gateway.Controller().Inventory(h.t.Context(), "p1")
		h.must(err)
		if !inv.CapturedAt.IsZero() {
			t.Errorf("%+v", inv)
		}
		p.raw(`{"type":"sandbox_inventory","inventory_id":"i1","provider":"bwrap","runtime":null,"captured_at":"2000-01-01T00:01:00Z","instances":[
			{"instance_name":"tuixiu-run-` + a.run + `","run_id":"` + a.run + `","status":"running","created_at":null,"last_seen_at":null},
			{"instance_name":"stray","run_id":null,"status":"running","created_at":null,"last_seen_at":null}]}`)
		p.raw(`{"type":"workspace_inventory","inventory_id":"i2","captured_at":"2000-01-01T00:00:00Z","workspace_provider":"host","workspaces":[
			{"workspace_provider":"host","run_id":"x","instance_name":"stray","host_path":"/w/stray","guest_path":"/workspace","exists":true,"mtime":null,"size_bytes":null}]}`)
		h.settle()
		inv, err = h.gateway.Controller().Inventory(h.t.Context(), "p1")
		h.must(err)
		found := map[string]string{}
		for _, i := range inv.Instances {
			found[i.InstanceName] = i.SessionID
			if i.Unknown {
				found[i.InstanceName] = "unknown"
			}
			if i.Missing {
				found[i.InstanceName] = "missing"
			}
		}
		if inv.CapturedAt.IsZero() || len(found) != 3 || found["tuixiu-run-"+a.run] != a.run || found["stray"] != "unknown" || found["tuixiu-run-"+b.run] != "missing" {
			t.Errorf("%+v", inv)
		}
		if len(inv.Workspaces) != 1 || !inv.Workspaces[0].Unknown || inv.Workspaces[0].Path != "/w/stray" {
			t.Errorf("%+v", inv.Workspaces)
		}
		ctx, cancel := context.WithCancel(h.t.Context())
		defer cancel()
		go func() { _, _ = h.gateway.Controller().Prune(ctx, "p1", true) }()
		f := want[*wire.SandboxControl](p)
		for f.Action == "report_inventory" { // asked for by each comparison
			f = want[*wire.SandboxControl](p)
		}
		if f.Action != "prune_orphans" || !f.DryRun || len(f.ExpectedInstances) != 2 {
			t.Errorf("%+v", f)
		}
	})
}

// What is set at an agent, and what becomes of a control that is refused or not answered.
func TestControlsInAConversation(t *testing.T) {
	perform(t, []script{
		// A model is set by the method that ACP no longer has; an agent without it (-32601) by the config option that
		// chooses the model; one with neither cannot.
		{name: "model", steps: `
			new p1; chat prompts hi; agent says x; settle
			control set_model $run "big"; p1 gets session_set_model model_id=big
			agent refuses Error: "Method not found": session/set_model (-32601); outcome control_unsupported
			agent update {"sessionUpdate":"config_option_update","configOptions":[{"id":"model","name":"Model","category":"model","type":"select","currentValue":"small","options":[{"value":"small","name":"S"},{"value":"big","name":"B"}]}]}
			settle; control set_model $run "big"; p1 gets session_set_model model_id=big
			agent refuses Error: "Method not found": session/set_model (-32601)
			p1 gets session_set_config_option config_id=model raw~'"value":"big"'; agent obeys; outcome ok`},
		// What was set is emitted at once, though the agent does not report it, and is in the state with the next Run.
		{name: "settings", steps: `
			old p1; chat prompts hi; agent mode ask; ends; chat ends
			control set_mode $run "code"; p1 gets session_set_mode; agent obeys; outcome ok
			control set_model $run "big"; p1 gets session_set_model; agent obeys; outcome ok
			agent update {"sessionUpdate":"config_option_update","configOptions":[{"id":"fast","currentValue":"on"}]}; settle
			settings $run mode=code model=big options~fast
			chat reads RUN | DONE success
			chat prompts again; agent ends; chat ends; settle; chat acp modeId=code modelId=big`},
		// A control without an answer ends after a minute; one to a proxy that is away, or goes, at once.
		{name: "not answered", steps: `
			new p1; chat prompts hi; agent says x; settle
			clock; control set_mode $run "plan"; p1 gets session_set_mode; outcome control_timeout; took 1m..1m1s; agent obeys
			control set_mode $run "plan"; p1 gets session_set_mode; cuts; outcome agent_offline
			control set_mode $run "x"; outcome agent_offline
			control set_model $run "x"; outcome agent_offline
			control close $run "x"; outcome agent_offline`},
	})
}
