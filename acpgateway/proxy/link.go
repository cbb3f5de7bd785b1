package proxy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"runtime"
	"time"

	"github.com/gorilla/websocket"
	"golang.org/x/sync/errgroup"

	"aqueduct/acpgateway/acp"
)

const (
	dialTimeout  = 15 * time.Second
	writeTimeout = 30 * time.Second
	// ackWait is how long frames wait for register_ack, which tells how they are counted. A
	// gateway that never sends it gets them as the contract has them.
	ackWait = 10 * time.Second
	// inBytes bounds one message of the gateway; a prompt may hold images.
	inBytes = 64 << 20
	// silences is how many heartbeats without a sign of life make a link dead.
	silences = 3

	pauseFirst = 300 * time.Millisecond
	pauseMost  = 10 * time.Second
)

// keepLinked connects, and connects again.
func (p *Proxy) keepLinked(ctx context.Context) {
	pause := pauseFirst
	for ctx.Err() == nil {
		began := time.Now()
		err := p.link(ctx)
		if ctx.Err() != nil {
			return
		}
		if time.Since(began) > pauseMost {
			pause = pauseFirst
		}
		p.log.Warn("no link to the gateway", "err", err, "again_in", pause)
		// Spread, or all proxies of a gateway that restarts come back in the same moment.
		timer := time.NewTimer(pause/2 + rand.N(pause))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
		pause = min(2*pause, pauseMost)
	}
}

// link is one connection from its beginning to its end.
func (p *Proxy) link(ctx context.Context) error {
	conn, err := p.dial(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	defer p.out.Detach()
	g, ctx := errgroup.WithContext(ctx)
	registered := make(chan struct{}, 1)
	g.Go(func() error { return p.write(ctx, conn, registered) })
	g.Go(func() error { return p.read(conn, registered) })
	g.Go(func() error { // ends the reader, which knows no context
		<-ctx.Done()
		bye := websocket.FormatCloseMessage(websocket.CloseNormalClosure, "")
		_ = conn.WriteControl(websocket.CloseMessage, bye, time.Now().Add(time.Second)) // it may be gone
		return conn.Close()
	})
	return g.Wait()
}

// token is the one to connect with.
func (p *Proxy) token(ctx context.Context) (token string, err error) {
	if refused := p.refused.Load(); refused != nil && p.cfg.Register != nil {
		token, err = p.cfg.Register(ctx, *refused)
	} else {
		token, err = p.cfg.Token(ctx)
	}
	p.shown.Store(&token)
	return token, err
}

func (p *Proxy) dial(ctx context.Context) (*websocket.Conn, error) {
	token, err := p.token(ctx)
	if err != nil {
		return nil, fmt.Errorf("token: %w", err)
	}
	dialer := websocket.Dialer{HandshakeTimeout: dialTimeout, Proxy: http.ProxyFromEnvironment}
	conn, resp, err := dialer.DialContext(ctx, p.cfg.URL, http.Header{"Authorization": {"Bearer " + token}})
	if err != nil {
		if resp != nil {
			if resp.StatusCode == http.StatusUnauthorized {
				p.refused.Store(&token)
			}
			err = fmt.Errorf("%w: HTTP %s", err, resp.Status)
		}
		return nil, err
	}
	return conn, nil
}

// write is the only writer of frames: who we are, what is urgent, then the outbox.
func (p *Proxy) write(ctx context.Context, conn *websocket.Conn, registered <-chan struct{}) error {
	if err := p.introduce(conn); err != nil {
		return err
	}
	beat := time.NewTicker(p.cfg.Heartbeat)
	defer beat.Stop()
	list := time.NewTicker(p.cfg.Inventory)
	defer list.Stop()
	late := time.NewTimer(ackWait)
	defer late.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-registered:
			late.Stop()
			p.out.Attach(p.offers.Load().Seq)
		case <-late.C:
			p.out.Attach(false)
		case f := <-p.urgent:
			if err := writeFrame(conn, f); err != nil {
				return err
			}
		case <-beat.C:
			if err := p.beat(conn); err != nil {
				return err
			}
		case <-list.C:
			p.list()
		case <-p.out.Ready():
			if err := p.drain(conn); err != nil {
				return err
			}
		}
	}
}

// burst is how many frames go before the writer looks for what is urgent.
const burst = 64

func (p *Proxy) drain(conn *websocket.Conn) error {
	for range burst {
		l, body, ok := p.out.Take()
		if !ok {
			return nil
		}
		if err := writeText(conn, body); err != nil {
			p.out.PutBack(l)
			return err
		}
	}
	p.out.Wake()
	return nil
}

func (p *Proxy) introduce(conn *websocket.Conn) error {
	p.forgetUrgent()
	capabilities, err := p.announced()
	if err != nil {
		return err
	}
	me := acp.ProxyInfo{
		ID: p.cfg.ID, Name: p.cfg.Name, Capabilities: capabilities, MaxConcurrent: p.cfg.MaxConcurrent,
		Installation: p.installation, Runs: p.living(), Behind: p.out.Behind(),
	}
	if err := writeFrame(conn, &acp.RegisterAgent{Agent: me}); err != nil {
		return err
	}
	return p.inventories(conn)
}

// announced is what the proxy can and what was set beside it. What it says of itself counts.
func (p *Proxy) announced() (json.RawMessage, error) {
	own, err := json.Marshal(p.capabilities())
	if err != nil || len(p.cfg.Capabilities) == 0 {
		return own, err
	}
	all := make(map[string]json.RawMessage)
	if err := errors.Join(json.Unmarshal(p.cfg.Capabilities, &all), json.Unmarshal(own, &all)); err != nil {
		return nil, err
	}
	return json.Marshal(all)
}

// forgetUrgent drops what was meant for the last link.
func (p *Proxy) forgetUrgent() {
	for {
		select {
		case <-p.urgent:
		default:
			return
		}
	}
}

type capabilities struct {
	Runtime struct {
		Platform string `json:"platform"`
		Arch     string `json:"arch"`
	} `json:"runtime"`
	Sandbox struct {
		Provider          string `json:"provider"`
		TerminalEnabled   bool   `json:"terminalEnabled"`
		WorkspaceProvider string `json:"workspaceProvider"`
		WorkingDir        string `json:"workingDir,omitempty"` // of all agents, where they share one
		GitPush           bool   `json:"gitPush"`
	} `json:"sandbox"`
	Tunnel bool `json:"acpTunnel"`
	acp.Offers
}

func (p *Proxy) capabilities() capabilities {
	var c capabilities
	c.Runtime.Platform, c.Runtime.Arch = runtime.GOOS, runtime.GOARCH
	c.Sandbox.Provider, c.Sandbox.WorkspaceProvider = provider, workspaceProvider
	c.Sandbox.TerminalEnabled, c.Sandbox.GitPush = p.cfg.Terminal, true
	if p.cfg.Workspaces == "" {
		c.Sandbox.WorkingDir = p.cfg.Cwd
	}
	c.Tunnel = true
	c.Offers = acp.Offers{Seq: true, PermissionCancelled: true, MarksReplay: true, Epoch: p.epoch}
	return c
}

func (p *Proxy) beat(conn *websocket.Conn) error {
	at, err := json.Marshal(stamp())
	if err != nil {
		return err
	}
	if err := writeFrame(conn, &acp.Heartbeat{AgentID: p.cfg.ID, Timestamp: at}); err != nil {
		return err
	}
	return conn.WriteControl(websocket.PingMessage, nil, time.Now().Add(writeTimeout))
}

func (p *Proxy) inventories(conn *websocket.Conn) error {
	if err := writeFrame(conn, p.sandboxInventory()); err != nil {
		return err
	}
	return writeFrame(conn, p.workspaceInventory())
}

func writeFrame(conn *websocket.Conn, f acp.Frame) error {
	body, err := acp.Encode(f)
	if err != nil {
		return err
	}
	return writeText(conn, body)
}

func writeText(conn *websocket.Conn, body []byte) error {
	if err := conn.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
		return err
	}
	return conn.WriteMessage(websocket.TextMessage, body)
}

// read hands on what the gateway says. It never waits for an agent.
func (p *Proxy) read(conn *websocket.Conn, registered chan<- struct{}) error {
	conn.SetReadLimit(inBytes)
	alive := func() error { return conn.SetReadDeadline(time.Now().Add(silences * p.cfg.Heartbeat)) }
	conn.SetPongHandler(func(string) error { return alive() })
	for {
		if err := alive(); err != nil {
			return err
		}
		kind, data, err := conn.ReadMessage()
		if websocket.IsCloseError(err, websocket.ClosePolicyViolation) {
			p.refused.Store(p.shown.Load()) // how the contract tells it: after the upgrade
		}
		if err != nil {
			return err
		}
		if kind != websocket.TextMessage {
			continue
		}
		head, frame, err := acp.Decode(data)
		if err != nil {
			// As the contract's proxy does: there is nobody to tell.
			p.log.Warn("a message of the gateway was not understood", "type", head.Type, "err", err)
			continue
		}
		switch f := frame.(type) {
		case *acp.RegisterAck:
			if !f.Success {
				return errors.New("the gateway refused to register this proxy")
			}
			p.acknowledged(f.Offers)
			p.log.Info("linked to the gateway", "url", p.cfg.URL, "id", p.cfg.ID, "counts", f.Offers.Seq)
			select {
			case registered <- struct{}{}:
			default:
			}
		case *acp.Ack:
			p.out.Ack(f.RunID, f.Seq)
		default:
			if p.fresh(head) {
				p.handle(frame)
			}
		}
	}
}

func (p *Proxy) acknowledged(offers acp.Offers) {
	p.mu.Lock()
	if offers.Epoch != p.peer {
		p.peer = offers.Epoch
		clear(p.seen)
	}
	p.mu.Unlock()
	p.offers.Store(&offers)
}

// fresh notes a counted frame and says whether it has not come before.
func (p *Proxy) fresh(head acp.Head) bool {
	if head.Seq == 0 {
		return true
	}
	p.mu.Lock()
	seen := p.seen[head.RunID]
	p.seen[head.RunID] = max(seen, head.Seq)
	p.mu.Unlock()
	p.now(&acp.Ack{RunID: head.RunID, Seq: max(seen, head.Seq)})
	return head.Seq > seen
}
