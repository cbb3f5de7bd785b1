package proxy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"

	"aqueduct/acpgateway/wire"
	"aqueduct/internal/child"
)

// agent is one process of a run's agent, from initialize to its end. Its goroutine is watch, which reads it until it is
// gone; the run's goroutine prompts it, and controls reach its parts. mu is for reason alone.
//
// It is started by starter.spawn and lives until its process has gone, by any of three ends: the run (close,
// keepalive), the proxy's end, or itself. Its parts have a lock each and know nothing of each other: sessions, asks
// (questions to people), files, terminals.
type agent struct {
	cfg     Config
	link    *link
	report  *reporter
	prompts *prompts
	mark    string // in the environment of all its processes
	proc    *child.Process
	streams *child.Pipes
	peer    *peer
	info    wire.InitializeResult
	raw     json.RawMessage // the same as it came
	context string          // for a new session; of the run's goroutine
	runCtx  context.Context // ends with the run
	ctx     context.Context // ends with the agent
	cancel  context.CancelFunc
	onEnd   func(status wire.ExitStatus, reason string)
	gone    chan struct{} // closed when its end has been reported

	sessions  *sessions
	asks      *asks
	files     *files
	terminals *terminals

	mu     sync.Mutex
	reason string // why we end it
}

// watch reads the agent until it is gone and reports its end: its output first, then that it
// ended, then that what waited for it has failed.
//
// The order is what the gateway relies on: everything the agent wrote, then acp_exit, then the failure of the prompt.
// In another order a Turn would fail before it got the last words.
func (a *agent) watch() {
	defer close(a.gone)
	defer a.cancel()
	var readers sync.WaitGroup
	readers.Go(func() { a.peer.read(a.streams.Stdout) })
	readers.Go(func() { a.report.console(a.ctx, wire.PrefixStderr)(a.streams.Stderr) })
	<-a.proc.Exited()
	// What the agent started and left behind may hold the pipes open, so it is killed before the rest of the output is
	// read.
	child.KillMarked(a.mark)
	a.streams.Stdout.Ending()
	a.streams.Stderr.Ending()
	readers.Wait()
	a.streams.Close()
	a.terminals.releaseAll()
	a.mu.Lock()
	reason := a.reason
	a.mu.Unlock()
	a.onEnd(statusOf(a.proc), reason)
	a.peer.fail(errAgentClosed)
}

// end stops the process and waits until its end has been reported.
// Any goroutine may call it, several at once too: all of them wait for the one end.
// The reason is noted only while the process lives: one that has exited by itself was not ended by us.
func (a *agent) end(reason string) {
	a.mu.Lock()
	select {
	case <-a.proc.Exited():
	default:
		a.reason = reason
	}
	a.mu.Unlock()
	a.cancel() // nothing of it waits any more: not for room, not for a person
	a.proc.End(stopGrace)
	<-a.gone
}

// initialize speaks first, as ACP has it: both sides name their version and what they can do. An agent of another
// version is refused, since nothing that follows could be relied on.
//
// Only capabilities that this proxy really has are announced: an agent that is offered files or a terminal uses them
// and not its own.
func (a *agent) initialize(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, openTimeout, errors.New("the agent did not answer to initialize in time"))
	defer cancel()
	cfg := a.cfg
	var elicitation *wire.ElicitationCapabilities
	if a.link.offers.Load().Elicitation {
		elicitation = &wire.ElicitationCapabilities{Form: &struct{}{}, URL: &struct{}{}}
	}
	err := a.peer.call(ctx, wire.MethodInitialize, wire.InitializeParams{
		ProtocolVersion: wire.Version,
		ClientCapabilities: wire.ClientCapabilities{
			FS: wire.FileCapabilities{ReadTextFile: cfg.FS, WriteTextFile: cfg.FS}, Terminal: cfg.Terminal,
			Elicitation: elicitation,
			Meta:        &wire.ClientMeta{TerminalOutputDelta: true},
		},
		ClientInfo: wire.Implementation{Name: "aqueduct", Title: "Aqueduct", Version: cfg.Version},
	}, &a.raw, nil)
	if err != nil {
		return fmt.Errorf("initialize: %w", err)
	}
	if err := json.Unmarshal(a.raw, &a.info); err != nil {
		return fmt.Errorf("initialize: %w", err)
	}
	if a.info.ProtocolVersion != wire.Version {
		return fmt.Errorf("initialize: the agent speaks version %d of ACP, not %d", a.info.ProtocolVersion, wire.Version)
	}
	a.sessions.capabilities, a.sessions.login.methods = a.info.AgentCapabilities, a.info.AuthMethods
	// Gemini CLI reads a file before it writes it, and takes an error for a reason to give up.
	a.files.emptyForMissing.Store(strings.Contains(strings.ToLower(a.info.AgentInfo.Name), "gemini"))
	return nil
}

// notified passes on the agent's notifications, in their order.
// Room blocks while the outbox to the gateway is full, which in the end blocks the agent on its pipe: the one back
// pressure there is.
func (a *agent) notified(method string, params json.RawMessage) {
	// The wait ends when the agent is being ended: what it still writes then goes out over the bound, and the end
	// need not wait for the gateway.
	a.link.out.Room(a.ctx)
	if method != wire.MethodUpdate {
		a.forward(method, params)
		return
	}
	var u wire.UpdateParams
	if err := json.Unmarshal(params, &u); err != nil || len(u.Update) == 0 {
		a.forward(method, params)
		return
	}
	a.report.update(u.SessionID, u.Update, a.sessions.repeats(u))
}

// forward passes on a notification that is no update.
func (a *agent) forward(method string, params json.RawMessage) {
	if !a.report.signal(&wire.AgentNotification{Method: method, Params: params}) {
		a.report.text(wire.PrefixError + "a notification of the agent was too large")
	}
}

// requested is the reader's part of answering a request.
// It decides on the reader's goroutine what a request is, and returns what is to be done for it elsewhere.
func (a *agent) requested(method string, params json.RawMessage) func(context.Context) (any, error) {
	cfg := a.cfg
	switch method {
	case wire.MethodRequestPermission:
		return a.asks.permission(params)
	// What the gateway offers is looked at again for each request: the one on the link may be another than at
	// initialize.
	case wire.MethodElicit:
		if a.link.offers.Load().Elicitation {
			return a.asks.elicit(params)
		}
	case wire.MethodReadTextFile, wire.MethodWriteTextFile:
		if cfg.FS {
			return func(ctx context.Context) (any, error) { return a.files.call(ctx, method, params) }
		}
	case wire.MethodTerminalCreate, wire.MethodTerminalOutput, wire.MethodTerminalWait, wire.MethodTerminalKill, wire.MethodTerminalRelease:
		if cfg.Terminal {
			return func(ctx context.Context) (any, error) { return a.terminals.call(ctx, method, params) }
		}
	}
	return func(context.Context) (any, error) {
		return nil, &wire.Error{Code: wire.CodeMethodNotFound, Message: "method not found: " + method}
	}
}

// invalid is the answer to parameters that cannot be read.
func invalid(err error) error { return &wire.Error{Code: wire.CodeInvalidParams, Message: err.Error()} }
