package proxy

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"aqueduct/acpgateway/acp"
)

// agent is one process of a run's agent, from initialize to its end.
type agent struct {
	run     *run
	dir     string
	space   workspace
	mark    string // in the environment of all its processes
	proc    *process
	streams *pipes
	peer    *peer
	info    acp.InitializeResult
	raw     json.RawMessage // the same as it came
	context string          // for a new session; of the run's goroutine
	ctx     context.Context // ends with the agent
	cancel  context.CancelFunc
	gone    chan struct{} // closed when its end has been told

	mu        sync.Mutex
	reason    string                     // why we end it
	sessions  map[string]json.RawMessage // those it knows, with their config options
	modes     map[string]json.RawMessage // of those that told them when they were entered
	history   *history                   // of the session that is being taken up
	asks      map[acp.RequestID]*ask
	terminals map[string]*terminal
}

// launch prepares the workspace, starts the agent and speaks to it first.
func (r *run) launch(ctx context.Context, s start) (*agent, error) {
	w := r.p.workspace(r.id)
	place, err := r.p.furnish(ctx, w, r.id)
	if err != nil {
		return nil, err
	}
	dir, err := w.dir(cmp.Or(s.cwd, place))
	if err != nil {
		return nil, err
	}
	if err := r.prepare(ctx, w, dir, s.init); err != nil {
		return nil, err
	}
	var a *agent
	err = r.step(stageAgent, func() (err error) {
		if a, err = r.spawn(w, dir, s.init); err != nil {
			return err
		}
		if err = a.initialize(ctx); err != nil {
			a.end("initialize_failed")
		}
		return err
	})
	return a, err
}

// spawn starts the process and its readers.
func (r *run) spawn(w workspace, dir string, init *acp.Init) (*agent, error) {
	cmd := r.p.command(r.p.cfg.Command[0], r.p.cfg.Command[1:]...)
	mark := fmt.Sprintf("%s.%d", r.p.epoch, r.p.born.Add(1))
	cmd.Dir, cmd.Env = dir, append(r.p.environment(init), markName+"="+mark)
	streams, err := newPipes(cmd)
	if err != nil {
		return nil, err
	}
	proc, err := startProcess(cmd)
	streams.started()
	if err != nil {
		streams.close()
		return nil, fmt.Errorf("the agent's command could not be started: %w", err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(r.ctx))
	a := &agent{
		run: r, dir: dir, space: w, mark: mark, proc: proc, streams: streams, ctx: ctx, cancel: cancel, gone: make(chan struct{}), reason: "agent_exit",
		sessions: map[string]json.RawMessage{}, modes: map[string]json.RawMessage{}, asks: map[acp.RequestID]*ask{}, terminals: map[string]*terminal{},
	}
	a.peer = newPeer(ctx, streams.stdin, inbound{notification: a.notified, request: a.requested, trouble: func(err error) {
		r.text(acp.PrefixError + err.Error())
	}, console: func(line string) { r.text(acp.PrefixStdout + line) }})
	r.mu.Lock()
	r.agent = a
	instance := r.instance
	r.mu.Unlock()
	r.signal(&acp.TransportConnected{InstanceName: instance, At: stamp()})
	r.p.wg.Go(a.watch)
	return a, nil
}

// watch reads the agent until it is gone and tells its end: what it said first, then that it
// ended, then that what waited for it has failed.
func (a *agent) watch() {
	defer close(a.gone)
	defer a.cancel()
	var readers sync.WaitGroup
	readers.Go(func() { a.peer.read(a.streams.stdout) })
	readers.Go(func() { a.run.console(a.ctx, acp.PrefixStderr)(a.streams.stderr) })
	<-a.proc.exited
	killMarked(a.mark)
	a.streams.stdout.ending()
	a.streams.stderr.ending()
	readers.Wait()
	a.streams.close()
	a.releaseAll()
	a.farewell()
	a.peer.fail(errAgentClosed)
}

func (a *agent) farewell() {
	r, status := a.run, a.proc.status()
	a.mu.Lock()
	reason := a.reason
	a.mu.Unlock()
	r.mu.Lock()
	r.agent = nil
	instance := r.instance
	r.mu.Unlock()
	r.signal(&acp.TransportDisconnected{InstanceName: instance, Code: status.ExitCode, Signal: status.Signal, At: stamp(), Reason: reason})
	r.setStatus("stopped", nil)
	r.p.send(r.id, &acp.Exit{RunID: r.id, InstanceName: instance, Code: status.ExitCode, Signal: status.Signal})
}

// end stops the process and waits until its end has been told.
func (a *agent) end(reason string) {
	a.mu.Lock()
	select {
	case <-a.proc.exited:
	default:
		a.reason = reason
	}
	a.mu.Unlock()
	a.cancel() // nothing of it waits any more: not for room, not for a person
	a.proc.end(stopGrace)
	<-a.gone
}

func (a *agent) initialize(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, openTimeout, errors.New("the agent did not answer to initialize in time"))
	defer cancel()
	cfg := a.run.p.cfg
	var elicitation *acp.ElicitationCapabilities
	if a.run.p.offers.Load().Elicitation {
		elicitation = &acp.ElicitationCapabilities{Form: &struct{}{}, URL: &struct{}{}}
	}
	err := a.peer.call(ctx, acp.MethodInitialize, acp.InitializeParams{
		ProtocolVersion: acp.Version,
		ClientCapabilities: acp.ClientCapabilities{
			FS: acp.FileCapabilities{ReadTextFile: cfg.FS, WriteTextFile: cfg.FS}, Terminal: cfg.Terminal,
			Elicitation: elicitation,
			Meta:        &acp.ClientMeta{TerminalOutputDelta: true},
		},
		ClientInfo: acp.Implementation{Name: "aqueduct", Title: "Aqueduct", Version: cfg.Version},
	}, &a.raw, nil)
	if err != nil {
		return fmt.Errorf("initialize: %w", err)
	}
	if err := json.Unmarshal(a.raw, &a.info); err != nil {
		return fmt.Errorf("initialize: %w", err)
	}
	if a.info.ProtocolVersion != acp.Version {
		return fmt.Errorf("initialize: the agent speaks version %d of ACP, not %d", a.info.ProtocolVersion, acp.Version)
	}
	return nil
}

// notified passes on what the agent says, in the order it says it.
func (a *agent) notified(method string, params json.RawMessage) {
	a.run.p.out.Room(a.ctx)
	if method != acp.MethodUpdate {
		a.tell(method, params)
		return
	}
	var u acp.UpdateParams
	if err := json.Unmarshal(params, &u); err != nil || len(u.Update) == 0 {
		a.tell(method, params)
		return
	}
	a.run.update(u.SessionID, u.Update, a.repeats(u))
}

// tell passes on a notification that is no update.
func (a *agent) tell(method string, params json.RawMessage) {
	if !a.run.signal(&acp.AgentNotification{Method: method, Params: params}) {
		a.run.text(acp.PrefixError + "a notification of the agent was too large")
	}
}

// update sends an acp_update, under the prompt that is under way in its session.
func (r *run) update(session string, update json.RawMessage, replay bool) {
	f := &acp.ACPUpdate{RunID: r.id, PromptID: r.promptOf(session), Update: update, Replay: replay}
	if session != "" {
		f.SessionID = &session
	}
	if !r.p.send(r.id, f) {
		r.text(acp.PrefixError + "an update of the agent was too large and is left out")
	}
}

func (r *run) promptOf(session string) *string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.active == nil || r.active.answered || r.active.session != "" && r.active.session != session {
		return nil
	}
	id := r.active.id
	return &id
}

// requested is the reader's part of answering a request.
func (a *agent) requested(method string, params json.RawMessage) func(context.Context) (any, error) {
	cfg := a.run.p.cfg
	switch method {
	case acp.MethodRequestPermission:
		return a.ask(params)
	case acp.MethodElicit:
		if a.run.p.offers.Load().Elicitation {
			return a.elicit(params)
		}
	case acp.MethodReadTextFile, acp.MethodWriteTextFile:
		if cfg.FS {
			return func(context.Context) (any, error) { return a.file(method, params) }
		}
	case acp.MethodTerminalCreate, acp.MethodTerminalOutput, acp.MethodTerminalWait, acp.MethodTerminalKill, acp.MethodTerminalRelease:
		if cfg.Terminal {
			return func(ctx context.Context) (any, error) { return a.terminalCall(ctx, method, params) }
		}
	}
	return func(context.Context) (any, error) {
		return nil, &acp.Error{Code: acp.CodeMethodNotFound, Message: "method not found: " + method}
	}
}

// invalid is the answer to parameters that cannot be read.
func invalid(err error) error { return &acp.Error{Code: acp.CodeInvalidParams, Message: err.Error()} }
