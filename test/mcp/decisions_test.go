package mcp_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"aqueduct/test/nodetest"
	"aqueduct/test/npmmcp"
	"aqueduct/test/program"
)

// front is a way from a client to the shop's tools, whose calls a person decides: /mcp of a server, or aqueduct mcp --wrap.
type front struct {
	*env
	shop   shop
	client *mcp.ClientSession
	own    string // before the names that the client has
	named  string // before those that the person sees
	kill   func()
	// again is the front after its program has ended.
	again func() front
}

// how is what a front is started with.
type how struct {
	by   func() (string, error)
	vars []string
}

func shipped() how { return how{by: program.Shipped} }

// deadly is the program that is killed between the commit of an approval and the call of the tool.
func deadly() how { return how{fused, []string{"AQUEDUCT_FAILPOINT=before_tool_dispatch:1"}} }

// fronts are the ways, by the revision that the client speaks.
func fronts() map[string]func(*testing.T, how, string) front {
	return map[string]func(*testing.T, how, string) front{"http": httpFront, "wrap": wrapFront}
}

// decisionRules lets pay be edited, and has a question about env expire soon.
func decisionRules(t *testing.T, server string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "policy.yaml")
	rules := fmt.Sprintf("rules:\n  - {name: editable, tool: %[1]s.pay, verdict: require_approval, may_edit: true}\n"+
		"  - {name: hurry, tool: %[1]s.env, verdict: require_approval, ttl: 1s}\n", server)
	if err := os.WriteFile(path, []byte(rules), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func httpFront(t *testing.T, as how, version string) front {
	t.Helper()
	s, rules, db := newShop(t), decisionRules(t, "shop"), "sqlite:"+filepath.Join(t.TempDir(), "a.db")
	var open func(how) front
	open = func(as how) front {
		e := &env{t: t, server: serveBy(t, as.by, as.vars, "--database", db, "--mcp", s.flag(), "--policy-file", rules)}
		f := front{env: e, shop: s, own: "shop.", named: "shop.", again: func() front { return open(shipped()) }}
		f.kill = func() { e.server.end(syscall.SIGKILL) }
		f.client = e.connect(program.Token(), nil, &mcp.ClientSessionOptions{ProtocolVersion: version})
		f.eventually("the shop's tools", func() error {
			r, err := f.client.ListTools(t.Context(), nil)
			if err == nil && len(r.Tools) == 0 {
				err = errors.New("none")
			}
			return err
		})
		return f
	}
	return open(as)
}

func wrapFront(t *testing.T, as how, version string) front {
	t.Helper()
	s, rules, state := newShop(t), decisionRules(t, "wrapped"), t.TempDir()
	_, command, _ := strings.Cut(s.flag(), "=")
	var open func(how) front
	open = func(as how) front {
		c := newStdioBy(t, as.by, as.vars, nil, version, "--wrap", command, "--state", state, "--policy-file", rules)
		f := front{env: &env{t: t, server: &server{}}, shop: s, client: c.ClientSession, named: "wrapped.", again: func() front { return open(shipped()) }}
		f.server.url, f.user = c.page(t, state)
		f.kill = func() { _ = c.cmd.Process.Kill() }
		return f
	}
	return open(as)
}

func (f front) begin(tool, args string) <-chan outcome {
	return begin(f.t.Context(), f.client, f.own+tool, args)
}

func (f front) asked(tool string) string { return f.env.asked(f.named + tool).ID }

// decided decides a question, of a program that may die of it.
func (f front) decided(id string) {
	req, err := http.NewRequest(http.MethodPost, f.server.url+"/api/approvals/"+id+"/decision", strings.NewReader(`{"approved":true}`))
	if err != nil {
		f.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	if f.user != "" {
		req.Header.Set("Authorization", "Bearer "+f.user)
	}
	if resp, err := http.DefaultClient.Do(req); err == nil {
		_ = resp.Body.Close()
	}
}

// TestMCPDecisions: what a person decides is what becomes of the call, by either way and in an old and the new revision.
func TestMCPDecisions(t *testing.T) {
	t.Parallel()
	for way, open := range fronts() {
		for _, version := range []string{"2025-11-25", "2026-07-28"} {
			t.Run(way+" "+version, func(t *testing.T) {
				t.Parallel()
				f := open(t, shipped(), version)
				done := f.begin("pay", `{"amount":1}`)
				first := f.asked("pay")
				f.decide(first, `{"approved":true}`)
				if o := f.ended(done); o.text() != "paid 1" {
					t.Errorf("approved: %s", o.text())
				}
				done = f.begin("pay", `{"amount":2}`)
				second := f.asked("pay")
				f.decide(second, `{"approved":false}`)
				if o := f.ended(done); !strings.HasPrefix(o.text(), "rejected: ") || !o.result.IsError || first == second {
					t.Errorf("rejected: %s", o.text())
				}
				done = f.begin("pay", `{"amount":3}`)
				f.decide(f.asked("pay"), `{"approved":true,"edited_args":{"amount":30}}`)
				if o := f.ended(done); o.text() != "paid 30" {
					t.Errorf("edited: %s", o.text())
				}
				if o := f.ended(f.begin("env", `{}`)); !strings.HasPrefix(o.text(), "expired: ") || !o.result.IsError {
					t.Errorf("expired: %s", o.text())
				}
				f.changes()
				if got := f.shop.notes("pay"); !slices.Equal(got, []string{`{"amount":1}`, `{"amount":30}`, `{"amount":4}`}) || len(f.shop.notes("env")) != 0 {
					t.Errorf("%v", got)
				}
			})
		}
	}
}

// changes has the client change its mind when a call of it is approved that it gave up: with other arguments it is asked again,
// with the same it gets what was approved.
func (f front) changes() {
	f.t.Helper()
	ctx, leave := context.WithCancel(f.t.Context())
	left := begin(ctx, f.client, f.own+"pay", `{"amount":4}`)
	approved := f.asked("pay")
	leave()
	f.ended(left)
	// The program learns that the call was given up behind a relay. It knows by the time in which another call was made and
	// asked for; a result that comes before is lost with the request.
	other := f.begin("pay", `{"amount":5}`)
	again := f.question("permission", f.named+"pay", approved).ID
	f.decide(approved, `{"approved":true}`)
	if o := f.ended(f.begin("pay", `{"amount":4}`)); o.text() != "paid 4" {
		f.t.Errorf("what was approved: %s", o.text())
	}
	f.decide(again, `{"approved":false}`)
	if o := f.ended(other); !o.result.IsError {
		f.t.Errorf("changed: %s", o.text())
	}
}

// TestMCPFrontsNPM: all of the above and below by npm's clients, an old and a current one.
func TestMCPFrontsNPM(t *testing.T) {
	t.Parallel()
	npmmcp.Need(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	programs := make([]string, 2)
	for i, built := range []func() (string, error){program.Shipped, fused} {
		if programs[i], err = built(); err != nil {
			t.Fatal(err)
		}
	}
	for way := range fronts() {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			report := nodetest.Run(t, []string{
				"WAY=" + way, "AQUEDUCT_PROGRAM=" + programs[0], "AQUEDUCT_FUSED=" + programs[1], "SHOP=" + self, "FOLDER=" + t.TempDir(), "USER_TOKEN=" + program.Token(),
			}, "fronts.test.mjs")
			t.Logf("node --test fronts.test.mjs\n%s", nodetest.Totals(report))
		})
	}
}

// TestMCPKilledBeforeTheTool: the program is killed when the approval is kept and the tool was not called yet. The client hears
// that its call failed. A server runs the call once when it is there again, and a client that comes back gets the result; a gate
// forgets, and asks again.
func TestMCPKilledBeforeTheTool(t *testing.T) {
	t.Parallel()
	for way, open := range fronts() {
		for _, version := range []string{"2025-11-25", "2026-07-28"} {
			t.Run(way+" "+version, func(t *testing.T) {
				t.Parallel()
				f := open(t, deadly(), version)
				done := f.begin("pay", `{"amount":1}`)
				f.decided(f.asked("pay"))
				if o := f.ended(done); o.err == nil || len(f.shop.notes("pay")) != 0 {
					t.Errorf("killed: %s, %v", o.text(), f.shop.notes("pay"))
				}
				f = f.again()
				done = f.begin("pay", `{"amount":1}`)
				if way == "wrap" {
					f.decide(f.asked("pay"), `{"approved":true}`)
				}
				if o := f.ended(done); o.text() != "paid 1" || len(f.shop.notes("pay")) != 1 {
					t.Errorf("again: %s, %v", o.text(), f.shop.notes("pay"))
				}
				f.open(0)
			})
		}
	}
}

// TestMCPKilledInTheTool: the program is killed while the tool runs. It is not run again by itself: a server asks what became of
// it, and the client that comes back gets that; a gate asks for the call like for any other.
func TestMCPKilledInTheTool(t *testing.T) {
	t.Parallel()
	for way, open := range fronts() {
		for _, version := range []string{"2025-11-25", "2026-07-28"} {
			t.Run(way+" "+version, func(t *testing.T) {
				t.Parallel()
				const args = `{"amount":1,"hold_ms":60000}`
				f := open(t, shipped(), version)
				done := f.begin("pay", args)
				f.decide(f.asked("pay"), `{"approved":true}`)
				f.eventually("the shop is not called", func() error {
					if len(f.shop.notes("pay")) != 1 {
						return errors.New("no note")
					}
					return nil
				})
				f.kill()
				if o := f.ended(done); o.err == nil {
					t.Errorf("killed: %s", o.text())
				}
				f = f.again()
				done = f.begin("pay", args)
				want := "rejected: "
				if way == "wrap" {
					f.decide(f.asked("pay"), `{"approved":false}`)
				} else {
					want = "paid by hand"
					f.decide(f.lost("shop.pay").ID, `{"payload":{"outcome":"succeeded","result":"paid by hand"}}`)
				}
				if o := f.ended(done); !strings.HasPrefix(o.text(), want) || len(f.shop.notes("pay")) != 1 {
					t.Errorf("again: %s, %v", o.text(), f.shop.notes("pay"))
				}
				f.open(0)
			})
		}
	}
}
