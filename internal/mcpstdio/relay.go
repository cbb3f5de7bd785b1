// This file is the relay: an MCP server towards the client at standard streams, an MCP client towards the server at
// the URL, and the list of tools that is kept the same on both sides. Policy, approvals and the trace are all behind
// the URL; nothing is kept here that a new process would miss.
//
// Three sorts of goroutines meet in a relay. The library handles each request of the client on a goroutine of its
// own, follow is one more, and notifications of progress come on those of the session with the server. What they
// share is guarded by mu, which is held for moments; what takes long is done by one of them at a time, by the channels
// refreshing and connecting, where waiting ends with the request.

package mcpstdio

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"aqueduct/internal/retry"
	"aqueduct/internal/wake"
)

// Config is what a relay needs.
type Config struct {
	URL    string       // of the server, as in http://127.0.0.1:8080/mcp
	Client *http.Client // shows the token
	// Version is this program's; the client and the server get it in the handshake.
	Version string
	// Prefix begins the names of the tools that are passed on, and is left out to the client; "" passes all on as they are.
	Prefix string
	// Changed rings when the server's tools are known, or will not be soon, and whenever they may have changed: the client waits
	// for the first ring to list them, and is notified of changes. With nil it lists what there is, and is not notified.
	Changed wake.Signal
	// In and Out are the client's, one JSON-RPC message a line. The client leaves by closing In.
	In  io.ReadCloser
	Out io.WriteCloser
}

const (
	// connectTime bounds the handshake with the server.
	connectTime = 30 * time.Second
	// longestMessage bounds one message of the client, and one event of the server's streams: both are held in memory
	// whole.
	longestMessage = 16 << 20
	// firstList bounds how long a client's first list waits for Changed. Most clients give up a request after a minute; what comes
	// later they are notified of.
	firstList = 50 * time.Second
	// mostTools and listTime bound a list, whose pages may have no end.
	mostTools = 10_000
	listTime  = 30 * time.Second
	// againPause is between two tries to read a list that has changed.
	againPause = time.Second
)

// relay is one client and the session with the server, which is made anew when it is lost.
type relay struct {
	cfg    Config
	server *mcp.Server
	listed chan struct{} // closed when the first list need not be waited for

	// refreshing is held over reading the server's list and changing the client's by it: an older list must not be applied
	// behind a newer one. It is taken before mu, and never under it.
	refreshing chan struct{} // holds a value then

	connecting chan struct{}  // holds a value while a session is made
	closing    sync.WaitGroup // sessions that are being closed

	mu       sync.Mutex         // is held for moments, since every request takes it
	upstream *mcp.ClientSession // nil: none yet, or lost
	client   *mcp.ServerSession // the one there is
	// known has the tools that the client is offered, each as the JSON it was offered with. The library notifies the client
	// at every AddTool, so a tool that has the same JSON must not be added again.
	known map[string]string
}

func newRelay(cfg Config) *relay {
	return &relay{
		cfg: cfg, listed: make(chan struct{}), connecting: make(chan struct{}, 1), refreshing: make(chan struct{}, 1), known: make(map[string]string),
	}
}

// Serve answers the client until it leaves or ctx ends.
func Serve(ctx context.Context, cfg Config) error {
	r := newRelay(cfg)
	r.server = mcp.NewServer(&mcp.Implementation{Name: "aqueduct", Title: "Aqueduct", Version: cfg.Version}, &mcp.ServerOptions{
		Capabilities: &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{ListChanged: cfg.Changed != nil}}, Logger: slog.New(slog.DiscardHandler),
	})
	// The end goes through these defers in reverse: what is under way is stopped, follow is waited for, and only then
	// is the session with the server closed, which both may use until then.
	defer r.close()
	ctx, stop := context.WithCancel(ctx)
	r.server.AddReceivingMiddleware(until(ctx), r.refreshed)
	var work sync.WaitGroup
	defer work.Wait()
	defer stop()
	work.Go(func() { r.follow(ctx) })
	err := r.server.Run(ctx, &mcp.IOTransport{Reader: cfg.In, Writer: cfg.Out, MaxLineLength: longestMessage})
	if ctx.Err() != nil || errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// follow brings the client's list up to date whenever the server's may have changed; the library notifies the client.
func (r *relay) follow(ctx context.Context) {
	if r.cfg.Changed == nil {
		close(r.listed)
		return
	}
	// listed is closed once, by the timer or by the first list that was read: Stop is true only where the timer has
	// neither fired nor been stopped before.
	late := time.AfterFunc(firstList, func() { close(r.listed) })
	defer late.Stop()
	for {
		select {
		case <-r.cfg.Changed:
		case <-ctx.Done():
			return
		}
		for r.refresh(ctx) != nil { // the server is away
			if retry.Sleep(ctx, againPause) != nil {
				return
			}
		}
		if late.Stop() {
			close(r.listed)
		}
	}
}

// until ends what is under way with ctx: the library waits for it, and the server may never answer.
func until(end context.Context) mcp.Middleware {
	return func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			defer context.AfterFunc(end, cancel)()
			return next(ctx, method, req)
		}
	}
}

// refreshed brings the list of tools up to date before it is looked at: when the client lists it, and when it calls a tool that
// is not on it. The list is the server's and may change at any time.
func (r *relay) refreshed(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		// There is one client, but its session is known from its requests alone. Progress of its calls goes there.
		if session, ok := req.GetSession().(*mcp.ServerSession); ok {
			r.mu.Lock()
			r.client = session
			r.mu.Unlock()
		}
		stale := method == "tools/list"
		if call, ok := req.(*mcp.CallToolRequest); ok {
			stale = !r.knows(call.Params.Name)
		}
		if stale {
			select {
			case <-r.listed:
			case <-ctx.Done():
				return nil, ctx.Err()
			}
			if err := r.refresh(ctx); err != nil {
				return nil, err
			}
		}
		return next(ctx, method, req)
	}
}

func (r *relay) knows(tool string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, ok := r.known[tool]
	return ok
}

// has reports whether the client's server has a tool in that form.
func (r *relay) has(tool, form string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.known[tool] == form
}

// refresh makes the client's list that of the server. A tool that is as it was stays: the client is notified of changes.
func (r *relay) refresh(ctx context.Context) error {
	select {
	case r.refreshing <- struct{}{}:
		defer func() { <-r.refreshing }()
	case <-ctx.Done():
		return ctx.Err()
	}
	session, err := r.session(ctx)
	if err != nil {
		return err
	}
	now, listed := make(map[string]string), 0
	listing, cancel := context.WithTimeout(ctx, listTime)
	defer cancel()
	for tool, err := range session.Tools(listing, nil) {
		if err != nil {
			return r.lost(session, err)
		}
		if listed++; listed > mostTools {
			return fmt.Errorf("the server lists more than %d tools", mostTools)
		}
		name, ok := strings.CutPrefix(tool.Name, r.cfg.Prefix)
		if !ok {
			continue
		}
		shown := *tool
		shown.Name = name
		raw, err := json.Marshal(shown)
		if err != nil {
			return err
		}
		if r.has(name, string(raw)) || r.add(&shown) {
			now[name] = string(raw)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for name := range r.known {
		if _, ok := now[name]; !ok {
			r.server.RemoveTools(name)
		}
	}
	r.known = now
	return nil
}

// add offers a tool to the client, unless the library has a fault to find with its schema, which others wrote: it panics then.
func (r *relay) add(tool *mcp.Tool) (added bool) {
	defer func() {
		if recover() != nil {
			r.server.RemoveTools(tool.Name) // of what had that name before, the client would show the old form
			added = false
		}
	}()
	r.server.AddTool(tool, r.call)
	return true
}

// call passes a call on, and what it leads to back. A question to the person at the client comes back as a result that asks;
// the library asks older clients in their way, and makes the call again with the answer.
func (r *relay) call(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	session, err := r.session(ctx)
	if err != nil {
		return nil, err
	}
	// The session with the server was opened without capabilities: follow may open it before the client has stated
	// any. Those of the client go with each call, as the revision of 2026 has it.
	params := &mcp.CallToolParams{
		Meta: mcp.Meta{mcp.MetaKeyClientCapabilities: capabilities(req)}, Name: r.cfg.Prefix + req.Params.Name, Arguments: req.Params.Arguments,
		InputResponses: req.Params.InputResponses, RequestState: req.Params.RequestState,
	}
	if len(req.Params.Arguments) == 0 {
		params.Arguments = json.RawMessage("{}")
	}
	if token := req.Params.GetProgressToken(); token != nil {
		params.Meta["progressToken"] = token // SetProgressToken takes no number as it was decoded
	}
	result, err := session.CallTool(ctx, params)
	if err != nil {
		return nil, r.lost(session, err)
	}
	return result, nil
}

// capabilities are those of the client that the server has to know of: whether its person can be asked. Clients of the revision
// of 2026 state them with each request, others at the beginning.
func capabilities(req *mcp.CallToolRequest) any {
	if declared, ok := req.Params.Meta[mcp.MetaKeyClientCapabilities]; ok {
		return declared
	}
	none := map[string]any{}
	init := req.Session.InitializeParams()
	if init == nil || init.Capabilities == nil || init.Capabilities.Elicitation == nil {
		return none
	}
	return map[string]any{"elicitation": map[string]any{"form": none}}
}

// session is the one with the server, made where there is none. One request at a time makes it: those that come
// meanwhile wait, and use this session.
func (r *relay) session(ctx context.Context) (*mcp.ClientSession, error) {
	if session := r.there(); session != nil {
		return session, nil
	}
	select {
	case r.connecting <- struct{}{}:
		defer func() { <-r.connecting }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if session := r.there(); session != nil {
		return session, nil
	}
	session, err := r.connect(ctx)
	if err != nil {
		return nil, fmt.Errorf("%s cannot be reached, or does not take the token: %w", r.cfg.URL, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.upstream = session
	return session, nil
}

// there is the session that there is; nil for none.
func (r *relay) there() *mcp.ClientSession {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.upstream
}

// connect makes a session.
func (r *relay) connect(ctx context.Context) (*mcp.ClientSession, error) {
	client := mcp.NewClient(&mcp.Implementation{Name: "aqueduct mcp", Version: r.cfg.Version}, &mcp.ClientOptions{
		Capabilities:   &mcp.ClientCapabilities{},
		MultiRoundTrip: &mcp.MultiRoundTripOptions{Disabled: true}, // the client's own answers are passed on
		ProgressNotificationHandler: func(ctx context.Context, n *mcp.ProgressNotificationClientRequest) {
			if client := r.current(); client != nil {
				_ = client.NotifyProgress(ctx, n.Params) // a client that is gone needs none
			}
		},
	})
	ctx, cancel := context.WithTimeout(ctx, connectTime)
	defer cancel()
	return client.Connect(ctx, &mcp.StreamableClientTransport{Endpoint: r.cfg.URL, HTTPClient: r.cfg.Client, MaxEventSize: longestMessage}, nil)
}

func (r *relay) current() *mcp.ServerSession {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.client
}

// lost has the next request make a new session, unless the server itself answered with the error, or the client gave
// its request up: both leave the session as it is. It returns err.
func (r *relay) lost(session *mcp.ClientSession, err error) error {
	var answered *jsonrpc.Error
	if errors.As(err, &answered) || errors.Is(err, context.Canceled) {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.upstream == session {
		r.upstream = nil
		r.drop(session)
	}
	return err
}

// drop closes a session aside: the library waits for the calls that are held on it, which may take as long as a person does.
// They go on and give their results.
func (r *relay) drop(session *mcp.ClientSession) {
	r.closing.Go(func() { _ = session.Close() }) // it is lost, or the process ends
}

// close closes all sessions. What was under way has ended, so it waits for their servers at most as long as the library does.
func (r *relay) close() {
	if session := r.there(); session != nil {
		r.drop(session)
	}
	r.closing.Wait()
}
