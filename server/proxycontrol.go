// Commands to the machines where agents run: {"action":"stop","thread_id":…}. They are passed to the proxy as
// sandbox_control frames. This is the most powerful route of the API, hence the checks in a fixed order and an audit
// entry before anything is sent.

package server

import (
	"encoding/json"
	"errors"
	"net/http"
	"regexp"
	"time"

	"github.com/labstack/echo/v4"

	"aqueduct/bridge"
	"aqueduct/bridge/approval/audit"
	"aqueduct/internal/ids"
	"aqueduct/server/decode"
	"aqueduct/server/problem"
	"aqueduct/server/route"
	"aqueduct/store"
)

// proxyControl does things to the places where agents run: the sandbox_control of /ws/agent. It keeps nothing between
// requests; the audit of refusals is done by route.Controlled.
type proxyControl struct {
	threads *threads
	known   bridge.ProxyRegistry
	control bridge.Controller // nil when this server has no gateway
	in      *decode.Decoder
	deeds   proxyDeeds
}

// Mount adds both routes as Controlled: each attempt, refused or not, has an entry in the audit.
func (h *proxyControl) Mount(to *route.Routes) {
	to.Controlled(http.MethodPost, "/api/proxies/:id/prune", h.deeds.refused, h.prune)
	to.Controlled(http.MethodPost, "/api/proxies/:id/control", h.deeds.refused, h.act)
}

// pruneBody asks what would be removed, or removes it. A dry run is audited as well: it shows what is on the machine.
type pruneBody struct {
	DryRun bool `json:"dry_run"`
}

// prune removes what no Session of ours accounts for. It waits for the proxy's answer up to the gateway's own limit.
func (h *proxyControl) prune(c echo.Context) error {
	var body pruneBody
	id, err := h.read(c, &body)
	if err != nil {
		return err
	}
	if err := h.deeds.done(c, audit.ProxyControlled, id, map[string]any{"action": "prune", "dry_run": body.DryRun}); err != nil {
		return err
	}
	h.in.Awaits(c, 0)
	got, err := h.control.Prune(c.Request().Context(), id, body.DryRun)
	return reply(c, http.StatusOK, sandboxJSON(got), err)
}

// sandboxBody has the members of the message, but for env: an environment names commands that git and the loader run.
// Which members an action takes is checked by the proxy; here only what could do harm on its host is.
type sandboxBody struct {
	Action         string          `json:"action" validate:"required,oneof=inspect ensure_running stop remove prune_orphans gc remove_workspace report_inventory remove_image git_push"`
	RunID          string          `json:"run_id" validate:"max=200,excluded_with=ThreadID"` // as on /ws/agent: our Session
	ThreadID       string          `json:"thread_id" validate:"max=128"`
	InstanceName   string          `json:"instance_name" validate:"max=200"`
	Image          string          `json:"image" validate:"max=1000"`
	Branch         string          `json:"branch" validate:"max=250"`
	Remote         string          `json:"remote" validate:"max=100"`
	Cwd            string          `json:"cwd" validate:"max=4096"`
	Env            json.RawMessage `json:"env"` // refused
	TimeoutSeconds int             `json:"timeout_seconds" validate:"gte=0,lte=3600"`
	DryRun         bool            `json:"dry_run"`
	GC             struct {
		RemoveOrphans    bool `json:"remove_orphans"`
		RemoveWorkspaces bool `json:"remove_workspaces"`
		MaxDeleteCount   int  `json:"max_delete_count" validate:"gte=0,lte=1000000"`
	} `json:"gc"`
}

// Names of git's that cannot be read as a URL, a path, a refspec or an option.
var (
	// A leading "-" would be an option of git, a ":" begins a URL or a refspec, and "/" or ".." in a remote would be
	// a path.
	remoteName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]*$`)
	branchName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._/@#=,-]*$`)
)

// check refuses what could make the proxy's host run something. The proxy checks again by itself; this check is for
// the person, who gets a sentence instead of a failed command.
func (b sandboxBody) check() error {
	switch {
	case len(b.Env) > 0:
		return problem.Refuse(problem.InvalidBody, "env is not taken: it names commands that git and the loader would run.")
	case b.Remote != "" && !remoteName.MatchString(b.Remote):
		return problem.Refuse(problem.InvalidBody, "remote is the name of a remote that the repository has, no URL, path or option.")
	case b.Branch != "" && !branchName.MatchString(b.Branch):
		return problem.Refuse(problem.InvalidBody, "branch is the name of a branch, no refspec and no option.")
	}
	return nil
}

// act sends one command to a proxy and returns its answer. The order matters: the body is checked for what could run
// a command on the proxy's host, then the Session that it names must be visible to the caller, then the audit has the
// entry, and only then is the proxy asked. The write deadline is moved behind the audit: a git push may take an hour,
// and the answer comes on the same connection.
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
	h.in.Awaits(c, timeout)
	got, err := h.control.Sandbox(c.Request().Context(), id, control)
	return reply(c, http.StatusOK, sandboxJSON(got), err)
}

// deed is what the audit keeps of a body. Empty members are left out, so that an entry shows what was asked for and
// nothing else.
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

// runs reports whether the action runs something, which needs a thread whose folder it happens in.
func (b sandboxBody) runs() bool { return b.Action == "ensure_running" || b.Action == "git_push" }

// run is the run_id that a body means, of a Session that the caller may see. An instance that no Session accounts for is
// every operator's; nothing is started or pushed there.
func (h *proxyControl) run(c echo.Context, proxyID string, b sandboxBody) (string, error) {
	switch {
	case b.ThreadID != "":
		s, err := sessionFor(c, h.threads.store, b.ThreadID)
		return s.ID, err
	// The id is passed on as it came, after it was found to be visible.
	case b.RunID != "":
		return b.RunID, h.visible(c, b.RunID)
	case b.InstanceName == "" && b.runs():
		return "", problem.Refuse(problem.InvalidBody, "This action needs run_id or thread_id.")
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

// visible is nil when a run_id is that of a Session the caller may see, or of an agent that was addressed in one. An
// agent that was addressed in another agent's thread has an instance of its own, whose row names the Session it
// belongs to.
func (h *proxyControl) visible(c echo.Context, runID string) error {
	if !ids.ValidName(runID) {
		return store.ErrNotFound
	}
	ctx, in := scoped(c)
	_, err := h.threads.store.Session(ctx, in, runID)
	if !errors.Is(err, store.ErrNotFound) {
		return err
	}
	// An agent that was addressed in a thread works under an id of its own.
	row, err := h.known.Instance(ctx, runID)
	if err == nil && row.OfSession == "" {
		err = store.ErrNotFound
	}
	if err == nil {
		_, err = h.threads.store.Session(ctx, in, row.OfSession)
	}
	return err
}

// read takes the proxy's id and the body. Without a gateway the answer is that of an unknown proxy, after the body
// was checked.
func (h *proxyControl) read(c echo.Context, body any) (id string, err error) {
	if id, err = decode.PathID(c, "id"); err != nil {
		return "", err
	}
	if err := h.in.JSON(c, body); err != nil {
		return "", err
	}
	if h.control == nil {
		return "", noGateway()
	}
	return id, nil
}

// sandboxJSON is what the proxy answered; ok is whether it was done. It has the members of bridge.SandboxResult in
// the same order, so that one converts to the other; the compiler notices when they part.
type sandboxJSON struct {
	OK      bool            `json:"ok"`
	Error   string          `json:"error,omitempty"`
	Stdout  string          `json:"stdout,omitempty"`
	Stderr  string          `json:"stderr,omitempty"`
	Code    *int            `json:"code,omitempty"`
	Signal  string          `json:"signal,omitempty"`
	Status  string          `json:"status,omitempty"`
	Details json.RawMessage `json:"details,omitempty"`
}
