package mcp_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"aqueduct/test/npmmcp"
	"aqueduct/test/program"
)

// TestServersOfOthers: tools of npm's servers, one over standard streams and one over HTTP, with every sort of result.
func TestServersOfOthers(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	address := npmmcp.HTTP(t, program.FreePort(t))
	e := newEnv(t, "--mcp", "every="+npmmcp.Command(t, "server-everything")+" stdio", "--mcp", "files="+npmmcp.Command(t, "server-filesystem")+" "+folder,
		"--mcp", "far="+address.URL)
	for _, name := range []string{"every.echo", "far.echo", "files.write_file"} {
		e.offers(name, true)
	}
	echo := e.listed()["every.echo"]
	if echo.Kind != "server_tool" || echo.Source != "mcp" || echo.Endpoint != "" || !strings.Contains(string(echo.Schema), `"message"`) || echo.Description == "" {
		t.Errorf("%+v", echo)
	}
	for _, server := range []string{"every", "far"} {
		if c := e.approved(server+".echo", `{"message":"héllo"}`); string(c.Result) != `"Echo: héllo"` {
			t.Errorf("%s: %+v", server, c)
		}
		if c := e.approved(server+".get-structured-content", `{"location":"New York"}`); !strings.HasPrefix(string(c.Result), `{"conditions":`) {
			t.Errorf("%s: %s", server, c.Result)
		}
		c := e.approved(server+".get-tiny-image", `{}`)
		var rich struct {
			Content []struct{ Type, MIMEType, Data string }
		}
		if err := json.Unmarshal(c.Result, &rich); err != nil || len(rich.Content) != 3 || rich.Content[1].Type != "image" || rich.Content[1].MIMEType != "image/png" {
			t.Errorf("%s: %.200s %v", server, c.Result, err)
		}
	}
	if c := e.invoke("every.echo", `{"message":7}`); c.Error.Code != "invalid_arguments" {
		t.Errorf("arguments that do not fit: %+v", c)
	}
	path := filepath.Join(folder, "made")
	if c := e.approved("files.write_file", fmt.Sprintf(`{"path":%q,"content":"by mcp"}`, path)); c.Status != "succeeded" {
		t.Errorf("%+v", c)
	}
	if raw, err := os.ReadFile(path); string(raw) != "by mcp" {
		t.Errorf("%q %v", raw, err)
	}
	if c := e.approved("files.read_text_file", `{"path":"/etc/hostname"}`); c.Status != "failed" || c.Error.Code != "tool_failed" || !strings.Contains(c.Error.Message, "Access denied") {
		t.Errorf("outside of the server's folder: %+v", c)
	}
}

// TestRiskOfMCPTools: what a server states of its tools never lets a call run unasked; what it states to destroy is of high risk;
// and the operator's rules decide as about any tool.
func TestRiskOfMCPTools(t *testing.T) {
	t.Parallel()
	rules := filepath.Join(t.TempDir(), "policy.yaml")
	if err := os.WriteFile(rules, []byte("tools: {files.list_directory: low}\nrules:\n  - {name: no moves, tool: files.move_file, verdict: block, reason: Stay.}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	e := newEnv(t, "--mcp", "files="+npmmcp.Command(t, "server-filesystem")+" "+folder, "--policy-file", rules)
	e.offers("files.list_directory", true)
	if c := e.invoke("files.list_directory", fmt.Sprintf(`{"path":%q}`, folder)); c.Status != "succeeded" {
		t.Errorf("of low risk by the operator's word: %+v", c)
	}
	if c := e.invoke("files.get_file_info", fmt.Sprintf(`{"path":%q}`, folder)); c.State != "WAITING_APPROVAL" {
		t.Errorf("read only by the server's word: %+v", c)
	}
	if c := e.invoke("files.move_file", `{"source":"a","destination":"b"}`); c.Error.Code != "blocked" {
		t.Errorf("blocked: %+v", c)
	}
	e.invoke("files.write_file", fmt.Sprintf(`{"path":%q,"content":""}`, folder+"/x"))
	open := e.pending()
	for _, a := range open {
		if want := map[string]string{"files.get_file_info": "medium", "files.write_file": "high"}[a.Tool]; a.Risk != want {
			t.Errorf("%+v, want %s", a, want)
		}
	}
	if len(open) != 2 {
		t.Errorf("%+v", open)
	}
}

// TestShop: results and lists of a server that tries what it may.
func TestShop(t *testing.T) {
	s := newShop(t)
	t.Setenv("MCP_TEST_TOKEN", "of others")
	e := newEnv(t, "--mcp", s.flag())
	e.offers("shop.pay", true)
	if c := e.approved("shop.look", `{}`); string(c.Result) != `{"open":true}` {
		t.Errorf("%+v", c)
	}
	if c := e.approved("shop.fail", `{}`); c.Error.Code != "tool_failed" || !strings.HasPrefix(c.Error.Message, "no change €") || len(c.Error.Message) > 5<<10 {
		t.Errorf("%s %d", c.Error.Code, len(c.Error.Message))
	}
	if c := e.approved("shop.big", `{}`); c.Error.Code != "tool_result_too_large" {
		t.Errorf("%+v", c.Error)
	}
	if c := e.approved("shop.env", `{}`); strings.Contains(string(c.Result), "MCP_TEST_TOKEN") || strings.Contains(string(c.Result), "AQUEDUCT_TOKEN") {
		t.Errorf("it inherits secrets: %s", c.Result)
	}
	e.offers("shop.extra", false)
	if c := e.approved("shop.grow", `{}`); string(c.Result) != `"grown"` {
		t.Errorf("%+v", c)
	}
	e.offers("shop.extra", true)
	e.offers("shop.big", false)
	// Edited arguments are what is executed, once.
	c := e.invoke("shop.pay", `{"amount":5}`)
	e.decide(e.asked("shop.pay").ID, `{"decision":"reject"}`)
	if c = e.wait(c.ID); c.Error.Code != "rejected" || len(s.notes("pay")) != 0 {
		t.Errorf("%+v %v", c, s.notes("pay"))
	}
	if c := e.approved("shop.pay", `{"amount":9007199254740993}`); c.Status != "succeeded" || len(s.notes("pay")) != 1 || s.notes("pay")[0] != `{"amount":9007199254740993}` {
		t.Errorf("%+v %v", c, s.notes("pay"))
	}
}

// TestServerDiesWhileItRuns: a call whose server was killed in the middle is UNKNOWN, a person is asked, and nothing runs twice.
// One that was not sent yet waits for the next start of the server.
func TestServerDiesWhileItRuns(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	e := newEnv(t, "--mcp", s.flag())
	e.offers("shop.pay", true)
	c := e.invoke("shop.pay", `{"amount":1,"hold_ms":60000}`)
	e.decide(e.asked("shop.pay").ID, `{"approved":true}`)
	e.eventually("the shop is not called", func() error {
		if len(s.notes("pay")) != 1 {
			return errors.New("no note")
		}
		return nil
	})
	first := s.pid()
	if err := syscall.Kill(first, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	lost := e.lost("shop.pay")
	if !strings.Contains(lost.Title, "shop.pay") || !strings.Contains(lost.Title, "MCP server") {
		t.Errorf("%+v", lost)
	}
	if e.request(http.MethodGet, "/v1/tool_calls/"+c.ID, e.token, "", &c); c.Status != "pending" || c.State != "UNKNOWN" {
		t.Errorf("%+v", c)
	}
	// The second call comes while the server is away or has just come back.
	if again := e.approved("shop.look", `{}`); again.Status != "succeeded" {
		t.Errorf("%+v", again)
	}
	if s.pid() == first || len(s.notes("start")) != 2 {
		t.Errorf("starts: %v", s.notes("start"))
	}
	e.decide(lost.ID, `{"payload":{"outcome":"failed","message":"It was not."}}`)
	if c = e.wait(c.ID); c.Error.Code != "outcome_unknown" || c.Error.Message != "It was not." {
		t.Errorf("%+v", c)
	}
	if got := s.notes("pay"); len(got) != 1 {
		t.Errorf("it was paid %d times", len(got))
	}
}

// TestAqueductDiesWhileItRuns: the same when this server is killed between the approval and the tool's answer. What it started
// is gone with it.
func TestAqueductDiesWhileItRuns(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	e := newEnv(t, "--mcp", s.flag())
	e.offers("shop.pay", true)
	c := e.invoke("shop.pay", `{"amount":1,"hold_ms":60000}`)
	e.decide(e.asked("shop.pay").ID, `{"approved":true}`)
	e.eventually("the shop is not called", func() error {
		if len(s.notes("pay")) != 1 {
			return errors.New("no note")
		}
		return nil
	})
	child := s.pid()
	e.server.end(syscall.SIGKILL)
	e.eventually("the shop outlives aqueduct", func() error {
		if alive(child) {
			return errors.New("it lives")
		}
		return nil
	})
	e.start("--mcp", s.flag())
	lost := e.lost("shop.pay")
	e.decide(lost.ID, `{"payload":{"outcome":"succeeded","result":"paid by hand"}}`)
	e.eventually("the call has not ended", func() error {
		if e.request(http.MethodGet, "/v1/tool_calls/"+c.ID, "", "", &c); c.Status != "succeeded" || string(c.Result) != `"paid by hand"` {
			return fmt.Errorf("%+v", c)
		}
		return nil
	})
	if got := s.notes("pay"); len(got) != 1 {
		t.Errorf("it was paid %d times", len(got))
	}
	child = s.pid()
	e.server.end(syscall.SIGTERM)
	if alive(child) {
		t.Error("the shop outlives an aqueduct that was asked to end")
	}
}

// TestServerComesBack: a server over HTTP that is started anew is called again, and a command that cannot work does not keep
// the others from it.
func TestServerComesBack(t *testing.T) {
	t.Parallel()
	port := program.FreePort(t)
	address := npmmcp.HTTP(t, port)
	e := newEnv(t, "--mcp", "far="+address.URL, "--mcp", "none=/does/not/exist")
	e.offers("far.echo", true)
	if c := e.approved("far.echo", `{"message":"1"}`); c.Status != "succeeded" {
		t.Errorf("%+v", c)
	}
	address.End()
	c := e.invoke("far.echo", `{"message":"2"}`)
	npmmcp.HTTP(t, port)
	e.decide(e.asked("far.echo").ID, `{"approved":true}`)
	if c = e.wait(c.ID); string(c.Result) != `"Echo: 2"` {
		t.Errorf("%+v\n%s", c, e.server.log())
	}
	if !strings.Contains(e.server.log(), "mcp_server=none") {
		t.Error("the log does not name the server that cannot be started")
	}
}

// TestServerIsNamedNoMore: the tools of a server that a later start does not name are gone.
func TestServerIsNamedNoMore(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	e := newEnv(t, "--mcp", s.flag())
	e.offers("shop.pay", true)
	e.server.end(syscall.SIGTERM)
	e.start()
	e.prompt("T2")
	e.offers("shop.pay", false)
	if c := e.invoke("shop.pay", `{"amount":1}`); c.Error.Code != "tool_unknown" {
		t.Errorf("%+v", c)
	}
}

// TestMCPFlags: mistakes end the start, and name the flag.
func TestMCPFlags(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "tools.yaml")
	if err := os.WriteFile(file, []byte("tools: [{name: shop.mine, kind: client_tool}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--mcp", "a.b=cat"}, "NAME"},
		{[]string{"--mcp", "a=cat", "--mcp", "a=cat"}, "two servers named a"},
		{[]string{"--mcp", "a=http://169.254.169.254/mcp"}, "--mcp a"},
		{[]string{"--mcp", "a=cat", "--mcp-token-file", "a=" + file}, "--mcp-token-file a"},
		{[]string{"--mcp-env", "a=X"}, "--mcp-env a"},
		{[]string{"--mcp", "shop=cat", "--tools-file", file}, "names that begin with shop."},
	} {
		out, err := refused(t, append([]string{"--database", "sqlite:" + filepath.Join(dir, "a.db")}, c.args...)...)
		if err == nil || !strings.Contains(out, c.want) {
			t.Errorf("%v: %v\n%s", c.args, err, out)
		}
	}
}
