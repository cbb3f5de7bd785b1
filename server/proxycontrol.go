package server

import (
	"context"
	"errors"
	"net/http"
	"regexp"
	"time"

	"github.com/labstack/echo/v4"

	"aqueduct/bridge"
	"aqueduct/bridge/audit"
	"aqueduct/bridge/proxies"
	"aqueduct/server/auth"
	"aqueduct/store"
)

// proxyControl does things to the places where agents run: the sandbox_control of
// /ws/agent.
type proxyControl struct {
	threads *threads
	known   *proxies.Registry
	control bridge.Controller // nil when this server has no gateway
	in      *intake
	deeds   proxyDeeds
}

func (h *proxyControl) mount(to *routes) {
	to.controlled(http.MethodPost, "/api/proxies/:id/prune", h.deeds, h.prune)
	to.controlled(http.MethodPost, "/api/proxies/:id/control", h.deeds, h.act)
}

type pruneBody struct {
	DryRun bool `json:"dry_run"`
}

// prune removes what no Session of ours accounts for.
func (h *proxyControl) prune(c echo.Context) error {
	var body pruneBody
	id, err := h.read(c, &body)
	if err != nil {
		return err
	}
	if err := h.deeds.done(c, audit.ProxyControlled, id, map[string]any{"action": "prune", "dry_run": body.DryRun}); err != nil {
		return err
	}
	h.in.awaits(c, 0)
	got, err := h.control.Prune(c.Request().Context(), id, body.DryRun)
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, sandboxOut(got))
}

// sandboxBody has the members of the message, but for env: an environment names commands that git and the loader run.
type sandboxBody struct {
	Action         string  `json:"action" validate:"required,oneof=inspect ensure_running stop remove prune_orphans gc remove_workspace report_inventory remove_image git_push"`
	RunID          string  `json:"run_id" validate:"max=200,excluded_with=ThreadID"` // as on /ws/agent: our Session
	ThreadID       string  `json:"thread_id" validate:"max=128"`
	InstanceName   string  `json:"instance_name" validate:"max=200"`
	Image          string  `json:"image" validate:"max=1000"`
	Branch         string  `json:"branch" validate:"max=250"`
	Remote         string  `json:"remote" validate:"max=100"`
	Cwd            string  `json:"cwd" validate:"max=4096"`
	Env            rawJSON `json:"env"` // refused
	TimeoutSeconds int     `json:"timeout_seconds" validate:"gte=0,lte=3600"`
	DryRun         bool    `json:"dry_run"`
	GC             struct {
		RemoveOrphans    bool `json:"remove_orphans"`
		RemoveWorkspaces bool `json:"remove_workspaces"`
		MaxDeleteCount   int  `json:"max_delete_count" validate:"gte=0,lte=1000000"`
	} `json:"gc"`
}

// Names of git's that cannot be read as a URL, a path, a refspec or an option.
var (
	remoteName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]*$`)
	branchName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._/@#=,-]*$`)
)

// check refuses what could make the proxy's host run something.
func (b sandboxBody) check() error {
	switch {
	case len(b.Env) > 0:
		return refuse(codeInvalidBody, "env is not taken: it names commands that git and the loader would run.")
	case b.Remote != "" && !remoteName.MatchString(b.Remote):
		return refuse(codeInvalidBody, "remote is the name of a remote that the repository has, no URL, path or option.")
	case b.Branch != "" && !branchName.MatchString(b.Branch):
		return refuse(codeInvalidBody, "branch is the name of a branch, no refspec and no option.")
	}
	return nil
}

func (h *proxyControl) act(c echo.Context) error {
	var body sandboxBody
	id, err := h.read(c, &body)
	if err == nil {
		err = body.check()
	}
	if err != nil {
		return err
	}
	run, err := h.run(c, id, body)
	if err != nil {
		return err
	}
	timeout := time.Duration(body.TimeoutSeconds) * time.Second
	control := bridge.SandboxControl{
		Action: body.Action, SessionID: run, InstanceName: body.InstanceName, Image: body.Image, Branch: body.Branch,
		Remote: body.Remote, Cwd: body.Cwd, Timeout: timeout, DryRun: body.DryRun,
		RemoveOrphans: body.GC.RemoveOrphans, RemoveWork: body.GC.RemoveWorkspaces, MaxDeleteCount: body.GC.MaxDeleteCount,
	}
	if err := h.deeds.done(c, audit.ProxyControlled, id, body.deed(run)); err != nil {
		return err
	}
	h.in.awaits(c, timeout)
	got, err := h.control.Sandbox(c.Request().Context(), id, control)
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, sandboxOut(got))
}

// deed is what the audit keeps of a body.
func (b sandboxBody) deed(run string) map[string]any {
	details := map[string]any{"action": b.Action, "dry_run": b.DryRun}
	for name, value := range map[string]string{
		"run_id": run, "instance_name": b.InstanceName, "image": b.Image, "branch": b.Branch, "remote": b.Remote, "cwd": b.Cwd,
	} {
		if value != "" {
			details[name] = value
		}
	}
	return details
}

// runs says whether the action runs something, which needs a thread whose folder it happens in.
func (b sandboxBody) runs() bool { return b.Action == "ensure_running" || b.Action == "git_push" }

// run is the run_id that a body means, of a Session that the caller may see. An instance that no Session accounts for is
// every operator's; nothing is started or pushed there.
func (h *proxyControl) run(c echo.Context, proxyID string, b sandboxBody) (string, error) {
	switch {
	case b.ThreadID != "":
		s, err := h.threads.named(c, b.ThreadID)
		return s.ID, err
	case b.RunID != "":
		return b.RunID, h.visible(c, b.RunID)
	case b.InstanceName == "" && b.runs():
		return "", refuse(codeInvalidBody, "This action needs run_id or thread_id.")
	case b.InstanceName == "":
		return "", nil
	}
	rows, err := h.known.InstancesOf(c.Request().Context(), proxyID)
	if err != nil {
		return "", err
	}
	for _, row := range rows {
		if row.InstanceName == b.InstanceName {
			return row.SessionID, h.visible(c, row.SessionID)
		}
	}
	if b.runs() {
		return "", store.ErrNotFound
	}
	return "", nil
}

// visible is nil when a run_id is that of a Session the caller may see, or of an agent that was addressed in one.
func (h *proxyControl) visible(c echo.Context, runID string) error {
	if !bridge.ValidName(runID) {
		return store.ErrNotFound
	}
	ctx := c.Request().Context()
	in := auth.From(ctx).Scope()
	_, err := h.threads.store.Session(ctx, in, runID)
	if !errors.Is(err, store.ErrNotFound) {
		return err
	}
	return h.addressed(ctx, in, runID)
}

func (h *proxyControl) addressed(ctx context.Context, in store.Scope, runID string) error {
	row, err := h.known.Instance(ctx, runID)
	if err == nil && row.OfSession == "" {
		err = store.ErrNotFound
	}
	if err == nil {
		_, err = h.threads.store.Session(ctx, in, row.OfSession)
	}
	return err
}

// read takes the proxy's id and the body.
func (h *proxyControl) read(c echo.Context, body any) (id string, err error) {
	if id, err = pathID(c, "id"); err != nil {
		return "", err
	}
	if err := h.in.json(c, body); err != nil {
		return "", err
	}
	if h.control == nil {
		return "", noGateway()
	}
	return id, nil
}

// sandboxJSON is what the proxy answered; ok says whether it was done.
type sandboxJSON struct {
	OK      bool    `json:"ok"`
	Error   string  `json:"error,omitempty"`
	Stdout  string  `json:"stdout,omitempty"`
	Stderr  string  `json:"stderr,omitempty"`
	Code    *int    `json:"code,omitempty"`
	Signal  string  `json:"signal,omitempty"`
	Status  string  `json:"status,omitempty"`
	Details rawJSON `json:"details,omitempty"`
}

func sandboxOut(r bridge.SandboxResult) sandboxJSON { return sandboxJSON(r) }
