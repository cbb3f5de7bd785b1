package proxy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"aqueduct/acpgateway/acp"
)

// outcome is how a sandbox action went.
type outcome struct {
	err            error
	status         string
	stdout, stderr string
	exit           acp.ExitStatus
	details        any
}

// tailBytes is what of a command's output goes into a result.
const tailBytes = 8000

// sandbox does one action and tells how it went.
func (p *Proxy) sandbox(ctx context.Context, f *acp.SandboxControl, here []string) {
	p.sandboxResult(f, p.act(ctx, f, here))
}

// act does the action; here are the runs there were when it was asked for.
func (p *Proxy) act(ctx context.Context, f *acp.SandboxControl, here []string) outcome {
	switch f.Action {
	case acp.ActionReportInventory:
		p.measure(ctx)
		p.now(p.sandboxInventory())
		p.now(p.workspaceInventory())
		return outcome{}
	case acp.ActionPruneOrphans, acp.ActionGC:
		how := acp.GC{RemoveOrphans: true, RemoveWorkspaces: true}
		if f.GC != nil {
			how = *f.GC
		}
		return p.collect(f, how, here)
	case acp.ActionRemoveImage:
		return outcome{err: errors.New("unsupported: there are no images here")}
	}
	if f.RunID == "" {
		f.RunID = p.runOf(f.InstanceName)
	}
	if err := checkRunID(f.RunID); err != nil {
		return outcome{err: err}
	}
	return p.actOnRun(ctx, f)
}

// runOf finds the run of an instance.
func (p *Proxy) runOf(instance string) string {
	for _, id := range p.workspaceIDs() {
		if p.instanceOf(id) == instance {
			return id
		}
	}
	return ""
}

func (p *Proxy) actOnRun(ctx context.Context, f *acp.SandboxControl) outcome {
	r := p.known(f.RunID)
	switch f.Action {
	case acp.ActionInspect:
		return p.inspect(f.RunID, r)
	case acp.ActionEnsureRunning:
		return p.ensureRunning(ctx, f)
	case acp.ActionStop:
		if r != nil {
			if a, err := r.living(); err == nil {
				a.end("stopped")
			}
		}
		return outcome{status: "stopped"}
	case acp.ActionRemove:
		if r != nil {
			p.forget(r)
		}
		return outcome{status: "missing"}
	case acp.ActionRemoveWorkspace:
		return outcome{err: p.removeWorkspace(f.RunID), status: "missing"}
	case acp.ActionGitPush:
		return p.gitPush(ctx, f)
	}
	return outcome{err: fmt.Errorf("unsupported: action %q is unknown", f.Action)}
}

func (p *Proxy) inspect(id string, r *run) outcome {
	status := "missing"
	if r != nil {
		r.mu.Lock()
		status = r.status
		r.mu.Unlock()
	}
	return outcome{status: status, details: map[string]string{"workspace": p.workspace(id).root}}
}

// ensureRunning starts the agent in the run's own order.
func (p *Proxy) ensureRunning(ctx context.Context, f *acp.SandboxControl) outcome {
	r := p.run(f.RunID)
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
func (p *Proxy) collect(f *acp.SandboxControl, how acp.GC, here []string) outcome {
	if f.ExpectedInstances == nil {
		// An empty list and a forgotten one look alike on some wires; only one may end everything.
		return outcome{err: errors.New("expected_instances is missing")}
	}
	expected := map[string]bool{}
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
		name := p.instanceOf(id)
		if expected[name] || how.MaxDeleteCount > 0 && len(done.Instances)+len(done.Workspaces) >= how.MaxDeleteCount {
			continue
		}
		if r := p.known(id); r != nil && how.RemoveOrphans {
			done.Instances = append(done.Instances, name)
			if !f.DryRun {
				p.forget(r)
			}
		}
		if how.RemoveWorkspaces && p.cfg.Workspaces != "" && (p.known(id) == nil || f.DryRun) {
			done.Workspaces = append(done.Workspaces, id)
			if !f.DryRun {
				errs = append(errs, p.removeWorkspace(id))
			}
		}
	}
	return outcome{err: errors.Join(errs...), details: done}
}

// removeWorkspace removes a run's directory, never one that all share.
func (p *Proxy) removeWorkspace(id string) error {
	if p.cfg.Workspaces == "" {
		return errors.New("unsupported: the workspace is shared by all runs")
	}
	p.mu.Lock()
	ending := p.ending[id]
	p.mu.Unlock()
	if ending != nil {
		<-ending.gone // its process may still write there
	}
	if r := p.known(id); r != nil {
		p.forget(r)
	}
	p.furnishing.Lock()
	defer p.furnishing.Unlock()
	return p.clear(p.ctx, id)
}

// tailOf keeps the last of an output.
func tailOf(into *string) func(io.Reader) {
	return func(r io.Reader) {
		t := &terminal{limit: tailBytes}
		t.read(r)
		*into = t.output().Output
	}
}

func (p *Proxy) sandboxResult(f *acp.SandboxControl, o outcome) {
	res := &acp.SandboxControlResult{
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
	p.send(f.RunID, res)
}

func orNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
