package acpgateway_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"aqueduct/acpgateway"
	"aqueduct/acpgateway/wire"
	"aqueduct/server/auth"
	"aqueduct/store"
)

// closedWith reads until the gateway ends a connection, and tells its code.
func closedWith(conn *websocket.Conn) int {
	for {
		if _, _, err := conn.ReadMessage(); err != nil {
			return closeCode(err)
		}
	}
}

// A token that is none, another's, of another key, over, or in the URL: the upgrade succeeds,
// then the link is closed with 1008.
func TestTokenRefused(t *testing.T) {
	inEnv(t, plan{}, func(h *acpEnv) {
		other, err := auth.NewKeys(auth.NewKey())
		h.must(err)
		foreign, err := other.Issue(auth.Claims{Type: auth.TypeACPProxy, ProxyClaims: auth.ProxyClaims{ProxyID: "p1"}}, time.Hour)
		h.must(err)
		over, err := h.keys.Issue(auth.Claims{Type: auth.TypeACPProxy, ProxyClaims: auth.ProxyClaims{ProxyID: "p1"}}, time.Second)
		h.must(err)
		h.pass(time.Hour)
		for name, token := range map[string]string{"none": "", "bad": "nonsense", "foreign": foreign, "over": over} {
			if code := closedWith(h.dial(token)); code != websocket.ClosePolicyViolation {
				t.Errorf("%s: closed with %d", name, code)
			}
		}
		d := websocket.Dialer{NetDialContext: h.net.dial}
		conn, resp, err := d.DialContext(h.t.Context(), "ws://aqueduct/ws/agent?token="+h.token("p1", "dev"), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		defer conn.Close()
		if code := closedWith(conn); code != websocket.ClosePolicyViolation {
			t.Errorf("in the URL: closed with %d", code)
		}
		if h.online() != 0 {
			t.Error("a proxy is linked")
		}
	})
}

// A page that opens the socket is refused before the upgrade.
func TestPagesAreRefused(t *testing.T) {
	inEnv(t, plan{}, func(h *acpEnv) {
		d := websocket.Dialer{NetDialContext: h.net.dial}
		header := http.Header{"Authorization": {"Bearer " + h.token("p1", "dev")}, "Origin": {"http://aqueduct"}}
		_, resp, err := d.DialContext(h.t.Context(), "ws://aqueduct/ws/agent", header)
		if err == nil || resp == nil || resp.StatusCode != http.StatusForbidden {
			t.Fatalf("%v", err)
		}
		_ = resp.Body.Close()
	})
}

// register_agent must name the proxy that the token is for.
func TestAgentIDIsTheTokens(t *testing.T) {
	inEnv(t, plan{}, func(h *acpEnv) {
		victim := oldProxy(h, "p1").link()
		conn := h.dial(h.token("p2", "dev"))
		h.must(conn.WriteMessage(websocket.TextMessage, []byte(`{"type":"register_agent","agent":{"id":"p1","name":"x"}}`)))
		if code := closedWith(conn); code != websocket.ClosePolicyViolation {
			t.Errorf("closed with %d", code)
		}
		h.settleNow()
		if h.online() != 1 {
			t.Error("the proxy of that name is not linked any more")
		}
		c := victim.begin("t1", "hi")
		c.ends()
		c.s.rest()
	})
}

// A token for an Agent that another backend answers for is refused.
func TestAgentOfAnotherSort(t *testing.T) {
	inEnv(t, plan{}, func(h *acpEnv) {
		h.sessions.Agents().Add("http", nil)
		h.sessions.Agents().Add("taken", &acpgateway.Agent{})
		p := oldProxy(h, "p1")
		conn := h.dial(h.token("p1", "taken"))
		h.must(conn.WriteMessage(websocket.TextMessage, []byte(`{"type":"register_agent","agent":{"id":"`+p.id+`","name":"x"}}`)))
		if code := closedWith(conn); code != websocket.ClosePolicyViolation {
			t.Errorf("closed with %d", code)
		}
	})
}

// The id of an agent belongs to the proxies that serve it, or to who registered it.
func TestAgentIDHasOneOwner(t *testing.T) {
	inEnv(t, plan{}, func(h *acpEnv) {
		claim := func(id string) (free bool) {
			h.must(h.store.InTx(h.t.Context(), func(tx store.Tx) (err error) {
				free, err = tx.ClaimAgent(h.t.Context(), store.Agent{ID: id, Tenant: "acme", Owner: "ada", Source: store.AgentFromAPI, Protocol: store.AgentHTTP})
				return err
			}))
			return free
		}
		if !claim("planner") {
			t.Error("an id that nobody has is taken")
		}
		if !claim(store.AgentKey("acme", "second")) { // as where another tenant had the id when this one registered it
			t.Error("an id that nobody has is taken")
		}
		for _, id := range []string{"planner", "second"} {
			conn := h.dial(h.token("p1", id))
			h.must(conn.WriteMessage(websocket.TextMessage, []byte(`{"type":"register_agent","agent":{"id":"p1","name":"x"}}`)))
			if code := closedWith(conn); code != websocket.ClosePolicyViolation {
				t.Errorf("a proxy took the id of the registered agent %s: closed with %d", id, code)
			}
		}
		p := oldProxy(h, "p2").link()
		agent := p.begin("t1", "hi")
		agent.ends()
		agent.s.rest()
		if claim("dev") {
			t.Error("the id of a proxy's agent was registered")
		}
		row, err := h.store.Agent(h.t.Context(), store.System(), "dev")
		h.must(err)
		if row.Source == store.AgentFromAPI || row.Protocol != store.AgentACP || row.Tenant != "" {
			t.Errorf("%+v", row)
		}
	})
}

// Who does not register is not taken for anybody, and is cut off soon.
func TestFramesBeforeRegisterAgent(t *testing.T) {
	inEnv(t, plan{}, func(h *acpEnv) {
		p := oldProxy(h, "p1").link()
		c := p.begin("t1", "hi")
		conn := h.dial(h.token("p1", "dev"))
		before := h.refusals()
		for _, f := range []wire.Frame{update(c.run, c.prompt, chunk("m", "stolen")), c.result(), &wire.Heartbeat{AgentID: "p1"}} {
			body, err := wire.Encode(f)
			h.must(err)
			h.must(conn.WriteMessage(websocket.TextMessage, body))
		}
		h.refusedSince(before, "unregistered", 3)
		began := time.Now()
		if code := closedWith(conn); code == 0 {
			t.Log("closed without a code")
		}
		if took := time.Since(began); took > 11*time.Second {
			t.Errorf("cut off after %v", took)
		}
		c.ends()
		c.s.rest()
		h.reads("t1", "RUN", "DONE success")
	})
}

// A newer connection of a proxy wins over one of the same start or installation, and over one that does not answer: the
// older is closed with 4001, and its end does not unregister the newer.
func TestNewerConnectionWins(t *testing.T) {
	for name, again := range map[string]func(p *fakeProxy){
		"same start":        func(*fakeProxy) {},
		"same installation": func(p *fakeProxy) { p.reborn("e2") },
		"half open":         func(p *fakeProxy) { p.reborn("e2"); p.installation = "other" },
		"half open, old":    func(p *fakeProxy) { p.counts, p.installation = false, "" },
	} {
		t.Run(name, func(t *testing.T) {
			inEnv(t, plan{}, func(h *acpEnv) {
				p := newProxy(h, "p1")
				p.installation = "here"
				p.link()
				if strings.HasPrefix(name, "half open") {
					p.conn.SetPingHandler(func(string) error { return nil })
				}
				old := p.bye
				again(p)
				began := time.Now()
				p.link()
				if code := closeCode(<-old); code != 4001 {
					t.Errorf("closed with %d", code)
				}
				if took := time.Since(began); took > 3*time.Second || took > 0 && !strings.HasPrefix(name, "half open") {
					t.Errorf("it waited %v", took)
				}
				h.pass(30 * time.Second)
				if h.online() != 1 {
					t.Error("the newer connection is not registered")
				}
				c := p.begin("t1", "hi")
				c.ends()
				c.s.rest()
			})
		})
	}
}

// A second proxy under the id of one that is there is refused in words, as often as it comes; the first does not notice.
func TestSecondProxyOfOneIDIsRefused(t *testing.T) {
	for _, kind := range []func(*acpEnv, string) *fakeProxy{oldProxy, newProxy} {
		inEnvNamed(t, kind, func(h *acpEnv, p *fakeProxy) {
			p.link()
			c := p.begin("t1", "hi")
			c.says("m", "one ")
			for range 5 {
				second := kind(h, "p1")
				second.epoch = "of another"
				if second.counts {
					second.installation = "elsewhere"
				}
				conn := h.dial(h.token("p1", "dev"))
				body, err := wire.Encode(&wire.RegisterAgent{Agent: second.info()})
				h.must(err)
				h.must(conn.WriteMessage(websocket.TextMessage, body))
				_, _, err = conn.ReadMessage()
				var bye *websocket.CloseError
				if !errors.As(err, &bye) || bye.Code != 4009 || !strings.Contains(bye.Text, "another proxy is connected under this id") {
					t.Errorf("%v", err)
				}
				h.pass(time.Second)
			}
			c.says("m", "two")
			c.ends()
			c.s.rest()
			h.reads("t1", "RUN", "says: one two", "DONE success")
			p.silent()
		})
	}
}

// inEnvNamed runs a test with an old proxy or a new one.
func inEnvNamed(t *testing.T, kind func(*acpEnv, string) *fakeProxy, test func(h *acpEnv, p *fakeProxy)) {
	name := "old"
	if kind(nil, "").counts {
		name = "new"
	}
	t.Run(name, func(t *testing.T) {
		inEnv(t, plan{}, func(h *acpEnv) { test(h, kind(h, "p1")) })
	})
}

// A proxy that sends nothing for three heartbeats is gone; one that only sends heartbeats, or
// answers pings, stays.
func TestMissedHeartbeats(t *testing.T) {
	inEnv(t, plan{}, func(h *acpEnv) {
		quiet := oldProxy(h, "quiet").link()
		quiet.conn.SetPingHandler(func(string) error { return nil }) // a proxy's library that knows no pings
		beating := oldProxy(h, "beating").link()
		beating.conn.SetPingHandler(func(string) error { return nil })
		ponging := oldProxy(h, "ponging").link()
		for range 10 {
			h.pass(30 * time.Second)
			beating.write(&wire.Heartbeat{AgentID: "beating"})
		}
		h.settle()
		if h.online() != 2 {
			t.Errorf("%d proxies are linked", h.online())
		}
		rows, err := h.store.Proxies(h.t.Context(), store.System())
		h.must(err)
		status := map[string]store.ProxyStatus{}
		for _, r := range rows {
			status[r.ID] = r.Status
			if r.ID == "beating" && time.Since(r.LastSeen) > 2*time.Second {
				t.Errorf("last seen %v", r.LastSeen)
			}
			if r.ID == "quiet" && r.LastError == "" {
				t.Errorf("%+v", r)
			}
		}
		if status["quiet"] != store.ProxyOffline || status["beating"] != store.ProxyOnline || status["ponging"] != store.ProxyOnline {
			t.Errorf("%v", status)
		}
		beating.cut()
		ponging.cut()
	})
}

// What is known of a proxy is kept when it registers, and survives a restart.
func TestRegisteredProxyIsKept(t *testing.T) {
	inEnv(t, plan{}, func(h *acpEnv) {
		p := oldProxy(h, "p1")
		p.most = 3
		p.link()
		p.raw(`{"type":"sandbox_inventory","inventory_id":"i1","provider":"bwrap","runtime":null,"captured_at":"2000-01-01T00:00:00Z","instances":[]}`)
		p.raw(`{"type":"workspace_inventory","inventory_id":"i2","captured_at":"2000-01-01T00:00:00Z","workspace_provider":"host","workspaces":[]}`)
		h.settle()
		row := func() store.Proxy {
			r, err := h.store.Proxy(h.t.Context(), store.System(), "p1")
			h.must(err)
			return r
		}
		if r := row(); r.AgentID != "dev" || r.MaxConcurrent != 3 || r.Status != store.ProxyOnline || string(r.Capabilities) != `{"acpTunnel":true}` ||
			len(r.Sandboxes) == 0 || len(r.Workspaces) == 0 || r.ConnectedAt.IsZero() {
			t.Errorf("%+v", r)
		}
		p.restart()
		h.settle()
		if r := row(); r.MaxConcurrent != 3 || len(r.Sandboxes) == 0 {
			t.Errorf("%+v", r)
		}
		if linked, _ := h.gateway.Controller().Linked("p1"); linked {
			t.Error("linked after a restart")
		}
		p.link()
		if linked, busy := h.gateway.Controller().Linked("p1"); !linked || busy != 0 {
			t.Errorf("linked %v, busy %d", linked, busy)
		}
	})
}

// TestS14RevokedProxyLink: the link of a token that is revoked ends as if it had been refused, and another one is refused; the
// link of another proxy stays.
func TestS14RevokedProxyLink(t *testing.T) {
	inEnv(t, plan{revoke: true}, func(h *acpEnv) {
		revoked, other := oldProxy(h, "p1").link(), oldProxy(h, "p2").link()
		rows, err := h.store.Credentials(h.t.Context(), store.Installation(), store.CredentialFilter{Kind: store.CredentialProxy})
		h.must(err)
		var id string
		for _, row := range rows {
			if row.Name == "p1" {
				id = row.ID
			}
		}
		if len(rows) != 2 || id == "" {
			t.Fatalf("%+v", rows)
		}
		began := time.Now()
		h.must(h.store.InTx(h.t.Context(), func(tx store.Tx) error { // as another replica does it
			_, err := tx.RevokeCredential(h.t.Context(), store.Installation(), id, "ops", time.Now())
			return err
		}))
		if code := closeCode(<-revoked.bye); code != websocket.ClosePolicyViolation {
			t.Errorf("closed with %d", code)
		}
		t.Logf("the link ended %.1f s after the revocation", time.Since(began).Seconds())
		if took := time.Since(began); took > 15*time.Second {
			t.Errorf("the link ended after %s", took)
		}
		h.pass(time.Minute)
		select {
		case err := <-other.bye:
			t.Errorf("another proxy's link ended: %v", err)
		default:
		}
		if h.online() != 1 {
			t.Errorf("%d proxies are linked", h.online())
		}
	})
}
