// This file keeps one server connected. A connection is a way (a process or an address), a session of the protocol
// over it, and the list of tools that was read through it; all three end together, and begin anew after a pause.

package mcpservers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"aqueduct/internal/retry"
	"aqueduct/internal/wake"
	"aqueduct/store"
)

const (
	// connectTime bounds how long a server may take until it is initialized and has listed its tools. npx downloads a package
	// at its first start.
	connectTime = 2 * time.Minute
	// firstPause and longestPause are between two starts of a server that fails. The pause doubles: a command that cannot work
	// must not keep the machine busy, and a server that comes back should not be waited for long.
	firstPause   = 500 * time.Millisecond
	longestPause = 30 * time.Second
	// steadyTime is how long a connection has to stand for the next pause to be the first again.
	steadyTime = time.Minute
	// publishPause is between two tries to keep a list while the store is away.
	publishPause = 2 * time.Second
	// listPause is between a report of a change and the reading of the list. It doubles with each report that follows, up to
	// longestListPause, and is the first again after twice that without one: a server that reports changes without end must keep
	// neither the store nor the log busy.
	listPause        = time.Second
	longestListPause = time.Minute
	// listEvery is how often a list is read without a report: many servers send none, or have no stream to send it on.
	listEvery = 5 * time.Minute
)

// server keeps one MCP server connected: one goroutine connects, reads the list of tools, and begins again when the
// connection ends. Calls come on other goroutines and use the session that stands.
type server struct {
	name        string
	version     string
	open        func() (way, error)
	publish     func(ctx context.Context, server string, list []store.Tool) error
	report      func()        // something is to be seen of it
	seen        chan struct{} // closed at its first report
	resultBytes int64
	logger      *slog.Logger
	changed     wake.Signal // the server's list of tools
	// reported is when a change was last waited for, and pause how long the next wait is. They belong to the goroutine of run, and
	// outlive a connection: a server must not get the first pause again by ending it.
	reported time.Time
	pause    time.Duration

	mu      sync.Mutex
	session *mcp.ClientSession // nil while it is away
	stands  chan struct{}      // closed while session is set
	lost    *mcp.ClientSession // the last one that its server did not know any more
	found   wake.Signal        // that one is lost
}

// newServer chooses the way: a command goes before a URL.
func newServer(cfg Config, of Server, epoch string) *server {
	seen := make(chan struct{})
	first := sync.OnceFunc(func() { close(seen) })
	s := &server{
		name: of.Name, version: cfg.Version, publish: cfg.Publish, report: func() { first(); cfg.Changed() }, seen: seen, resultBytes: cfg.ResultBytes,
		logger: cfg.Logger.With(slog.String("mcp_server", of.Name)), changed: wake.New(), stands: make(chan struct{}), found: wake.New(),
	}
	s.open = (&address{url: of.URL, token: of.Token, client: cfg.Client}).open
	if len(of.Command) > 0 {
		s.open = (&command{line: of.Command, pass: of.Pass, epoch: epoch, confine: cfg.Confine, logger: s.logger}).open
	}
	return s
}

// run connects again and again until ctx ends.
func (s *server) run(ctx context.Context) {
	pause := firstPause
	for {
		began := time.Now()
		err := s.serve(ctx)
		if ctx.Err() != nil {
			return
		}
		s.report()
		// A connection that stood is a server that works; its next failure is a new one.
		if time.Since(began) > steadyTime {
			pause = firstPause
		}
		s.logger.Warn("an MCP server is away; its tools cannot be called", slog.Any("error", err), slog.Duration("again_in", pause))
		if retry.Sleep(ctx, pause) != nil {
			return
		}
		pause = min(2*pause, longestPause)
	}
}

// way is an open way to a server.
type way struct {
	transport mcp.Transport
	end       func() // returns when nothing of it is left
}

// serve connects once, and returns why the connection ended.
func (s *server) serve(ctx context.Context) error {
	// Each defer below undoes one step, so that whichever of them fails, nothing of the connection is left when this
	// returns.
	to, err := s.open()
	if err != nil {
		return err
	}
	defer to.end()
	connecting, cancel := context.WithTimeoutCause(ctx, connectTime, errors.New("it did not answer in time"))
	defer cancel()
	session, err := s.handshake(connecting, to.transport)
	if err != nil {
		return errors.Join(err, context.Cause(connecting))
	}
	defer closed(session)
	offered, err := s.list(connecting, session)
	if err != nil {
		return errors.Join(err, context.Cause(connecting))
	}
	cancel()
	ended := make(chan error, 1)
	go func() { ended <- session.Wait() }() // ends with the session, which is closed below in any case
	s.setSession(session)
	defer s.setSession(nil)
	s.logger.Info("an MCP server is connected", slog.Int("tools", len(offered)))
	return s.follow(ctx, session, offered, ended)
}

// closed closes a session. It waits for what is to be written to the server, which may read nothing; the way ends in any case.
func closed(session *mcp.ClientSession) {
	over := make(chan struct{})
	go func() { // ends with the way
		defer close(over)
		_ = session.Close()
	}()
	select {
	case <-over:
	case <-time.After(stopGrace):
	}
}

// handshake speaks first. This client offers a server nothing: no files, no model, no person to ask.
func (s *server) handshake(ctx context.Context, to mcp.Transport) (*mcp.ClientSession, error) {
	client := mcp.NewClient(&mcp.Implementation{Name: "aqueduct", Title: "Aqueduct", Version: s.version}, &mcp.ClientOptions{
		Capabilities:           &mcp.ClientCapabilities{},
		ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) { s.changed.Ring() },
		// A call that needs input is not sent again by the library: a call is executed once.
		MultiRoundTrip: &mcp.MultiRoundTripOptions{Disabled: true},
	})
	session, err := client.Connect(ctx, to, nil)
	if err != nil {
		return nil, fmt.Errorf("initialize: %w", err)
	}
	return session, nil
}

// follow publishes the list, again whenever the server reports that it changed, until the connection ends. While the
// store is away the list is tried again; calls of the tools that were published before are executed meanwhile. A list
// that cannot be read ends the connection.
func (s *server) follow(ctx context.Context, session *mcp.ClientSession, offered []*mcp.Tool, ended <-chan error) error {
	for {
		again := time.After(listEvery)
		if err := s.publish(ctx, s.name, s.rows(offered)); err != nil {
			if ctx.Err() == nil {
				s.logger.Warn("the tools of an MCP server were not kept, trying again", slog.Any("error", err))
			}
			again = time.After(publishPause) // the list is read once more as well
		} else {
			s.report()
		}
		if err := s.untilDue(ctx, session, again, ended); err != nil {
			return err
		}
		listing, cancel := context.WithTimeout(ctx, connectTime)
		list, err := s.list(listing, session)
		cancel()
		if err != nil {
			return err
		}
		offered = list
	}
}

// untilDue waits until the list is to be read: at again, or a pause after the server has reported a change. The error is why the
// connection ends.
func (s *server) untilDue(ctx context.Context, session *mcp.ClientSession, again <-chan time.Time, ended <-chan error) error {
	var due <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case err := <-ended:
			return errors.Join(errors.New("the connection has ended"), err)
		case <-s.found:
			if s.isLost(session) {
				return errors.New("it has lost the session")
			}
		case <-again:
			return nil
		case <-s.changed:
			if due == nil {
				due = time.After(s.nextPause(time.Now()))
			}
		case <-due:
			s.changed.Clear() // the list that is read now has all of these changes
			return nil
		}
	}
}

// nextPause returns how long to wait before a list is read that its server has reported as changed.
func (s *server) nextPause(now time.Time) time.Duration {
	if now.Sub(s.reported) > 2*longestListPause {
		s.pause = listPause
	}
	pause := s.pause
	s.reported, s.pause = now, min(2*pause, longestListPause)
	return pause
}

// lose has a session ended that its server does not know any more. It is called from the goroutine of a call; follow
// returns then, and serve closes the session.
func (s *server) lose(session *mcp.ClientSession) {
	s.mu.Lock()
	s.lost = session
	s.mu.Unlock()
	s.found.Ring()
}

func (s *server) isLost(session *mcp.ClientSession) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lost == session
}

// setSession sets the session that calls use; nil takes it away.
func (s *server) setSession(session *mcp.ClientSession) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.session != nil {
		s.stands = make(chan struct{})
	}
	if s.session = session; session != nil {
		close(s.stands)
	}
}

// current is the session that stands, and otherwise a channel that is closed when one does.
func (s *server) current() (*mcp.ClientSession, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.session, s.stands
}
