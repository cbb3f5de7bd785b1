package server

import (
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"aqueduct/bridge"
)

// proxyControl does things to the places where agents run: the sandbox_control of
// /ws/agent.
type proxyControl struct {
	threads *threads
	control bridge.Controller // nil when this server has no gateway
	in      *intake
}

func (h *proxyControl) mount(to *routes) {
	to.operators(http.MethodPost, "/api/proxies/:id/prune", h.prune)
	to.operators(http.MethodPost, "/api/proxies/:id/control", h.act)
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
	h.in.awaits(c, 0)
	got, err := h.control.Prune(c.Request().Context(), id, body.DryRun)
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, sandboxOut(got))
}

// sandboxBody has the members of the message. What is in env is for the proxy: it gets
// into no log line and no answer.
type sandboxBody struct {
	Action         string            `json:"action" validate:"required,oneof=inspect ensure_running stop remove prune_orphans gc remove_workspace report_inventory remove_image git_push"`
	RunID          string            `json:"run_id" validate:"max=200,excluded_with=ThreadID"` // as on /ws/agent: our Session
	ThreadID       string            `json:"thread_id" validate:"max=128"`
	InstanceName   string            `json:"instance_name" validate:"max=200"`
	Image          string            `json:"image" validate:"max=1000"`
	Branch         string            `json:"branch" validate:"max=1000"`
	Remote         string            `json:"remote" validate:"max=1000"`
	Cwd            string            `json:"cwd" validate:"max=4096"`
	Env            map[string]string `json:"env" validate:"max=100"`
	TimeoutSeconds int               `json:"timeout_seconds" validate:"gte=0,lte=3600"`
	DryRun         bool              `json:"dry_run"`
	GC             struct {
		RemoveOrphans    bool `json:"remove_orphans"`
		RemoveWorkspaces bool `json:"remove_workspaces"`
		MaxDeleteCount   int  `json:"max_delete_count" validate:"gte=0,lte=1000000"`
	} `json:"gc"`
}

func (h *proxyControl) act(c echo.Context) error {
	var body sandboxBody
	id, err := h.read(c, &body)
	if err != nil {
		return err
	}
	session := body.RunID
	if body.ThreadID != "" {
		s, err := h.threads.named(c, body.ThreadID)
		if err != nil {
			return err
		}
		session = s.ID
	}
	timeout := time.Duration(body.TimeoutSeconds) * time.Second
	h.in.awaits(c, timeout)
	got, err := h.control.Sandbox(c.Request().Context(), id, bridge.SandboxControl{
		Action: body.Action, SessionID: session, InstanceName: body.InstanceName, Image: body.Image, Branch: body.Branch,
		Remote: body.Remote, Cwd: body.Cwd, Env: body.Env, Timeout: timeout, DryRun: body.DryRun,
		RemoveOrphans: body.GC.RemoveOrphans, RemoveWork: body.GC.RemoveWorkspaces, MaxDeleteCount: body.GC.MaxDeleteCount,
	})
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, sandboxOut(got))
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
