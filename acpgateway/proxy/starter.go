package proxy

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"sync/atomic"

	"aqueduct/acpgateway/wire"
	"aqueduct/internal/child"
)

// starter starts the agents of all runs: it furnishes the workspace, runs the init script, starts the process and
// initializes it. Each run calls it on its own goroutine; the counters are all that the runs share.
// An agent that does not get through initialize is ended again, so a run has either a working agent or none.
type starter struct {
	cfg        Config
	epoch      string // of this start of the proxy
	launcher   *launcher
	workspaces *workspaces
	link       *link
	wg         *sync.WaitGroup
	serial     atomic.Int64 // requests and terminals so far
	born       atomic.Int64 // agents so far
}

// origin is the run that an agent is started for.
type origin struct {
	ctx     context.Context // of the run
	id      string
	report  *reporter
	prompts *prompts
	started func(*agent) // called before the agent is read
	ended   func(status wire.ExitStatus, reason string)
}

// requestID names a request of an agent's to the gateway. The agent's own id would repeat after a restart.
// It begins with the epoch's first eight characters, which are others after a restart of the proxy.
func (st *starter) requestID() wire.RequestID {
	return wire.RequestID(fmt.Sprintf("%.8s-%d", st.epoch, st.serial.Add(1)))
}

// terminalID names a terminal. It need not outlive this process: terminals end with their agent.
func (st *starter) terminalID() string { return fmt.Sprintf("term-%d", st.serial.Add(1)) }

// launch prepares the workspace, starts the agent and speaks to it first.
func (st *starter) launch(ctx context.Context, o origin, s start) (*agent, error) {
	w := st.workspaces.of(o.id)
	place, err := st.workspaces.populate(ctx, w, o.id)
	if err != nil {
		return nil, err
	}
	dir, err := w.dir(cmp.Or(s.cwd, place))
	if err != nil {
		return nil, err
	}
	if err := st.prepare(ctx, o.report, w, dir, s.init); err != nil {
		return nil, err
	}
	var a *agent
	err = o.report.step(stageAgent, func() (err error) {
		if a, err = st.spawn(o, w, dir, s.init); err != nil {
			return err
		}
		// The run has had the agent since spawn, so a failure here ends it like any other agent, with the same
		// frames.
		if err = a.initialize(ctx); err != nil {
			a.end("initialize_failed")
		}
		return err
	})
	return a, err
}

// spawn starts the process and its readers.
//
// The agent's context is not the run's: when the run is closed the agent is asked to end, and what it still writes
// until then is reported.
func (st *starter) spawn(o origin, w workspace, dir string, init *wire.Init) (*agent, error) {
	launch := st.launcher.of(w)
	cmd := launch.command(st.cfg.Command[0], st.cfg.Command[1:]...)
	// The mark is in the environment, which every process inherits, however it was started.
	mark := fmt.Sprintf("%s.%d", st.epoch, st.born.Add(1))
	// It stands last, where it counts whatever the gateway's environment names.
	cmd.Dir, cmd.Env = dir, append(st.launcher.environment(st.launcher.allowed(init)), child.MarkName+"="+mark)
	streams, err := child.NewPipes(cmd)
	if err != nil {
		return nil, err
	}
	proc, err := child.Start(cmd)
	streams.Started()
	if err != nil {
		streams.Close()
		return nil, fmt.Errorf("the agent's command could not be started: %w", err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(o.ctx))
	var offered []wire.MCPServer
	if init != nil {
		offered = init.MCPServers
	}
	ss := &sessions{dir: dir, offered: offered, report: o.report, configs: map[string]json.RawMessage{}, modes: map[string]json.RawMessage{}}
	a := &agent{
		cfg: st.cfg, link: st.link, report: o.report, prompts: o.prompts, mark: mark, proc: proc, streams: streams,
		runCtx: o.ctx, ctx: ctx, cancel: cancel, onEnd: o.ended, gone: make(chan struct{}), reason: "agent_exit",
		sessions: ss,
		asks:     &asks{report: o.report, prompts: o.prompts, offers: st.link.offers.Load, newID: st.requestID, open: map[wire.RequestID]*ask{}},
		files:    newFiles(launch, w),
		terminals: &terminals{
			launch: launch, space: w, dir: dir, mark: mark, ctx: ctx, wg: st.wg, newID: st.terminalID, byID: map[string]*terminal{},
		},
	}
	a.peer = newPeer(ctx, streams.Stdin, inbound{notification: a.notified, request: a.requested, trouble: func(err error) {
		o.report.text(wire.PrefixError + err.Error())
	}, console: func(line string) { o.report.text(wire.PrefixStdout + line) }})
	ss.peer, ss.login.peer = a.peer, a.peer
	o.started(a)
	st.wg.Go(a.watch)
	return a, nil
}
