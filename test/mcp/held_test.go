package mcp_test

import (
	"bufio"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"aqueduct/store/storetest"
	"aqueduct/test/npmmcp"
	"aqueduct/test/program"
)

// TestMCPHeldStream: a client that wants no progress gets a stream that is not silent while its call waits.
func TestMCPHeldStream(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	e := newEnv(t, "--mcp", s.flag())
	e.offers("shop.pay", true)
	body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"shop.pay","arguments":{"amount":1}}}`
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, e.server.url+"/mcp", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	if !lines.Scan() || lines.Text() != ": held" {
		t.Fatalf("%q %v", lines.Text(), lines.Err())
	}
	e.decide(e.asked("shop.pay").ID, `{"approved":true}`)
	for lines.Scan() {
		if strings.HasPrefix(lines.Text(), "data: ") {
			break
		}
	}
	if !strings.Contains(lines.Text(), "paid 1") {
		t.Errorf("%q %v", lines.Text(), lines.Err())
	}
}

// TestMCPTwoServers: any of several servers on one database answers any request: calls that come to one while the Turn is
// driven by the other, decided at either, run once.
func TestMCPTwoServers(t *testing.T) {
	t.Parallel()
	npmmcp.Need(t)
	s, dsn := newShop(t), storetest.Postgres(t)
	// The database is reached by a socket here, which a confined start refuses.
	flags := func(name string) []string {
		return []string{"--unconfined", "--name", name, "--database", dsn, "--mcp", s.flag()}
	}
	one := &env{t: t, server: serve(t, flags("one")...)}
	two := &env{t: t, server: serve(t, flags("two")...)}
	for _, e := range []*env{one, two} {
		e.eventually("the shop's tools", func() error {
			r, err := e.connect(program.Token(), nil, nil).ListTools(t.Context(), nil)
			if err == nil && len(r.Tools) != 7 {
				err = errors.New("not all are listed")
			}
			return err
		})
	}
	for i, at := range []struct{ called, decided *env }{{one, two}, {two, one}, {one, one}, {two, two}} {
		args := fmt.Sprintf(`{"amount":%d}`, i+1)
		done := begin(t.Context(), at.called.connect(program.Token(), nil, nil), "shop.pay", args)
		at.decided.decide(at.decided.asked("shop.pay").ID, `{"approved":true}`)
		if o := at.called.ended(done); o.text() != fmt.Sprintf("paid %d", i+1) {
			t.Errorf("%d: %s\n%s\n%s", i, o.text(), one.server.log(), two.server.log())
		}
	}
	if got := s.notes("pay"); len(got) != 4 {
		t.Errorf("%v", got)
	}
}
