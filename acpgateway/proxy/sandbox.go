package proxy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"

	"aqueduct/acpgateway/wire"
)

// outcome is how a sandbox action went.
type outcome struct {
	err            error
	status         string
	stdout, stderr string
	exit           wire.ExitStatus
	details        any
}

// tailBytes is what of a command's output goes into a result.
const tailBytes = 8000

// sandboxes does the gateway's actions on instances and workspaces, and lists both. On this provider an instance is
// an agent's process, and a workspace its directory.
// The contract is written for providers with virtual machines; what has no meaning here is answered as unsupported.
type sandboxes struct {
	cfg        Config
	log        *slog.Logger
	link       *link
	runs       *runSet
	workspaces *workspaces
	launch     *launcher
}

// handle does one action and sends its result.
func (sb *sandboxes) handle(ctx context.Context, f *wire.SandboxControl, here []string) {
	sb.result(f, sb.act(ctx, f, here))
}

// act does the action; here are the runs there were when it was asked for.
func (sb *sandboxes) act(ctx context.Context, f *wire.SandboxControl, here []string) outcome {
	switch f.Action {
	case wire.ActionReportInventory:
		sb.workspaces.measure(ctx, sb.workspaceIDs())
		sb.link.sendNow(sb.sandboxInventory())
		sb.link.sendNow(sb.workspaceInventory())
		return outcome{}
	case wire.ActionPruneOrphans, wire.ActionGC:
		how := wire.GC{RemoveOrphans: true, RemoveWorkspaces: true}
		if f.GC != nil {
			how = *f.GC
		}
		return sb.collect(ctx, f, how, here)
	case wire.ActionRemoveImage:
		return outcome{err: errors.New("unsupported: there are no images here")}
	}
	if f.RunID == "" {
		f.RunID = sb.runOf(f.InstanceName)
	}
	if err := checkRunID(f.RunID); err != nil {
		return outcome{err: err}
	}
	return sb.actOnRun(ctx, f)
}

// runOf finds the run of an instance.
func (sb *sandboxes) runOf(instance string) string {
	for _, id := range sb.workspaceIDs() {
		if sb.instanceOf(id) == instance {
			return id
		}
	}
	return ""
}

// actOnRun does an action on one run. stop ends its agent and keeps the run, so that the next prompt starts another;
// remove ends the run as well. Both succeed where there is nothing to do: a gateway repeats an action whose result it
// lost.
func (sb *sandboxes) actOnRun(ctx context.Context, f *wire.SandboxControl) outcome {
	r := sb.runs.find(f.RunID)
	switch f.Action {
	case wire.ActionInspect:
		return sb.inspect(f.RunID, r)
	case wire.ActionEnsureRunning:
		return sb.ensureRunning(ctx, f)
	case wire.ActionStop:
		if r != nil {
			if a, err := r.living(); err == nil {
				a.end("stopped")
			}
		}
		return outcome{status: "stopped"}
	case wire.ActionRemove:
		if r != nil {
			sb.runs.forget(r)
		}
		return outcome{status: "missing"}
	case wire.ActionRemoveWorkspace:
		return outcome{err: sb.removeWorkspace(ctx, f.RunID), status: "missing"}
	case wire.ActionGitPush:
		return sb.gitPush(ctx, f)
	}
	return outcome{err: fmt.Errorf("unsupported: action %q is unknown", f.Action)}
}

// inspect is the status of a run's instance and the path of its workspace on this host, which a person needs to look
// into it.
func (sb *sandboxes) inspect(id string, r *run) outcome {
	status := "missing"
	if r != nil {
		r.mu.Lock()
		status = r.status
		r.mu.Unlock()
	}
	return outcome{status: status, details: map[string]string{"workspace": sb.workspaces.of(id).root}}
}

// ensureRunning starts the agent in the run's own order.
// It waits in the run's queue like a prompt, so it never starts a second agent.
func (sb *sandboxes) ensureRunning(ctx context.Context, f *wire.SandboxControl) outcome {
	r := sb.runs.get(f.RunID)
	// One place, so that the run's goroutine is not held up where this caller has given up.
	result := make(chan error, 1)
	r.enqueue(func(ctx context.Context) {
		_, err := r.ensure(ctx, start{cwd: f.Cwd, instance: f.InstanceName})
		result <- err
	}, func(err error) { result <- err })
	select {
	case err := <-result:
		if err != nil {
			return outcome{err: err, status: "error"}
		}
		return outcome{status: "running"}
	case <-ctx.Done():
		return outcome{err: context.Cause(ctx)}
	}
}

// collect removes what the gateway does not expect.
//
// here was listed when the message came: a run that began since is not in the gateway's list of expected ones and must
// not be taken for an orphan.
func (sb *sandboxes) collect(ctx context.Context, f *wire.SandboxControl, how wire.GC, here []string) outcome {
	if f.ExpectedInstances == nil {
		// An empty list and a forgotten one look alike on some wires; only one may end everything.
		return outcome{err: errors.New("expected_instances is missing")}
	}
	expected := map[string]bool{}
	// A gateway may know an instance by its run alone: then it has the name that follows from the run's id.
	for _, e := range f.ExpectedInstances {
		expected[e.InstanceName] = true
		if e.RunID != "" {
			expected["tuixiu-run-"+e.RunID] = true
		}
	}
	done := struct {
		Instances  []string `json:"deleted_instances"`
		Workspaces []string `json:"deleted_workspaces"`
		DryRun     bool     `json:"dry_run"`
	}{[]string{}, []string{}, f.DryRun}
	var errs []error
	for _, id := range here {
		name := sb.instanceOf(id)
		if expected[name] || how.MaxDeleteCount > 0 && len(done.Instances)+len(done.Workspaces) >= how.MaxDeleteCount {
			continue
		}
		if r := sb.runs.find(id); r != nil && how.RemoveOrphans {
			done.Instances = append(done.Instances, name)
			if !f.DryRun {
				sb.runs.forget(r)
			}
		}
		if how.RemoveWorkspaces && sb.cfg.Workspaces != "" && (sb.runs.find(id) == nil || f.DryRun) {
			done.Workspaces = append(done.Workspaces, id)
			if !f.DryRun {
				errs = append(errs, sb.removeWorkspace(ctx, id))
			}
		}
	}
	return outcome{err: errors.Join(errs...), details: done}
}

// removeWorkspace removes a run's directory, never one that all share.
// The lock is the one under which workspaces are made: git fails when two commands change its list of worktrees at
// once.
func (sb *sandboxes) removeWorkspace(ctx context.Context, id string) error {
	if sb.cfg.Workspaces == "" {
		return errors.New("unsupported: the workspace is shared by all runs")
	}
	sb.runs.awaitEnd(id) // its process may still write there
	if r := sb.runs.find(id); r != nil {
		sb.runs.forget(r)
	}
	sb.workspaces.furnishing.Lock()
	defer sb.workspaces.furnishing.Unlock()
	return sb.workspaces.clear(ctx, id)
}

// tailOf keeps the last of an output.
func tailOf(into *string) func(io.Reader) {
	return func(r io.Reader) {
		t := &terminal{limit: tailBytes}
		t.read(r)
		*into = t.output().Output
	}
}

// result sends how an action went, in the run's order. An action that this provider does not have is refused with an error
// that begins with "unsupported", which the gateway shows as such and does not try again.
// It is a numbered frame also without a run, under the empty run_id: the gateway waits for it by request_id.
func (sb *sandboxes) result(f *wire.SandboxControl, o outcome) {
	res := &wire.SandboxControlResult{
		RunID: orNull(f.RunID), InstanceName: orNull(f.InstanceName), Action: f.Action, RequestID: orNull(f.RequestID),
		OK: o.err == nil, Status: o.status, Stdout: o.stdout, Stderr: o.stderr, Code: o.exit.ExitCode, Signal: o.exit.Signal,
	}
	if o.err != nil {
		res.Error = asText(o.err)
		if strings.HasPrefix(o.err.Error(), "unsupported") {
			res.Error = o.err.Error()
		}
	}
	if o.details != nil {
		raw, err := json.Marshal(o.details)
		if err == nil { // lists of texts always can be written
			res.Details = raw
		}
	}
	sb.link.send(f.RunID, res)
}

// orNull is null for an empty text: the contract has null, not "", for what an action does not name.
func orNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
