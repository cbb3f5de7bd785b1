package server_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"aqueduct/store"
)

// TestS64IDsAreOfTheirTenant: a program registers under any id that is free in its tenant. Neither the answer nor a list, a
// lookup, an error or the audit shows that another tenant has the id; each tenant talks to its own agent, and changes and removes
// no other.
func TestS64IDsAreOfTheirTenant(t *testing.T) {
	onBothDatabases(t, func(t *testing.T, db database) {
		d := newDirectory(t, db.open)
		first, second := newOutside(t, "of-acme"), newOutside(t, "of-globex")
		is := func(got answer, status int) {
			t.Helper()
			if got.status != status {
				t.Fatalf("%d %s, want %d", got.status, got.body, status)
			}
		}
		free := d.registers("stranger", "free", second.url, "")
		is(d.registers("planner", "payroll", first.url, `,"auth":{"type":"bearer","token":"of-acme-only"}`), 200)
		if got := d.registers("stranger", "payroll", second.url, `,"auth":{"type":"bearer","token":"of-globex-only"}`); got.status != free.status || got.body != free.body {
			t.Fatalf("an id that another tenant has: %d %s, a free one: %d %s", got.status, got.body, free.status, free.body)
		}
		for who, c := range map[string]struct {
			says, token string
			of          *outside
		}{"ann": {"of-acme", "of-acme-only", first}, "gus": {"of-globex", "of-globex-only", second}} {
			if got := d.asked(who, "payroll", "thread-of-"+who); !strings.Contains(got, `"`+c.says+`"`) || c.of.last().Get("Authorization") != "Bearer "+c.token {
				t.Errorf("%s gets %s with %v", who, got, c.of.last())
			}
		}
		for who, want := range map[string]string{"gil": second.url, "ada": first.url} {
			if agent := d.seen(who, "payroll"); agent["endpoint"] != want || agent["agent_id"] != "payroll" {
				t.Errorf("%s sees %v", who, agent)
			}
		}
		// What is registered at another server is found here by the tenant's id.
		there := *d
		there.env = d.replica()
		is(there.registers("planner", "shared", first.url, ""), 200) // without a credential: that server has another key
		is(there.registers("stranger", "shared", second.url, ""), 200)
		for who, want := range map[string]string{"gus": `"of-globex"`, "ann": `"of-acme"`} {
			if got := d.asked(who, "shared", ""); !strings.Contains(got, want) {
				t.Errorf("%s gets %s of an agent that was registered elsewhere", who, got)
			}
		}
		is(there.by("stranger", "DELETE", "/v1/agents/shared", ""), 204)
		// The ids of rows are no ids of agents: a rule that names the agent would not hold for them.
		for _, row := range []string{"payroll!globex", "payroll!acme", "payroll!"} {
			if got := d.asked("gus", row, ""); !strings.Contains(got, "agent_unknown") {
				t.Errorf("%s is talked to: %s", row, got)
			}
			is(d.by("gus", "GET", "/v1/agents/"+row, ""), 404)
			is(d.by("stranger", "DELETE", "/v1/agents/"+row, ""), 404)
			is(d.by("stranger", "POST", "/v1/agents/"+row+"/heartbeat", "{}"), 404)
			is(d.registers("stranger", row, second.url, ""), 400)
		}
		// The pages of a list are in the order of the ids, with each once.
		for _, id := range []string{"payroll-a", "payroll.b", "payroll0", "payrol"} {
			is(d.registers("stranger", id, second.url, ""), 200)
		}
		var listed []string
		for after := "?limit=1"; after != ""; {
			var page struct {
				Agents []struct {
					ID string `json:"agent_id"`
				}
				Next string
			}
			got := d.by("gus", "GET", "/v1/agents"+after, "")
			if err := json.Unmarshal([]byte(got.body), &page); err != nil || strings.Contains(got.body, "acme") {
				t.Fatal(got, err)
			}
			for _, a := range page.Agents {
				listed = append(listed, a.ID)
			}
			if after = ""; page.Next != "" {
				after = "?limit=1&after=" + page.Next
			}
		}
		if want := "[free payrol payroll payroll-a payroll.b payroll0 scripted]"; fmt.Sprint(listed) != want || !slices.IsSorted(listed) {
			t.Errorf("listed %v, want %s", listed, want)
		}
		// Changes and removals are of one's own.
		is(d.by("stranger", "POST", "/v1/agents/payroll/heartbeat", "{}"), 200)
		is(d.registers("stranger", "payroll", second.url+"/again", ""), 200)
		is(d.by("stranger", "DELETE", "/v1/agents/payroll", ""), 204)
		is(d.by("stranger", "DELETE", "/v1/agents/payroll", ""), 404)
		if got := d.asked("gus", "payroll", "thread-of-gus"); !strings.Contains(got, "agent_unknown") {
			t.Errorf("the thread of a removed agent gets %s", got)
		}
		if got := d.asked("ann", "payroll", ""); !strings.Contains(got, `"of-acme"`) {
			t.Errorf("another tenant's agent went too: %s", got)
		}
		is(d.by("planner", "DELETE", "/v1/agents/payroll", ""), 204)
		is(d.registers("stranger", "payroll", second.url, ""), 200)
		if got := d.asked("ann", "payroll", "thread-of-ann"); !strings.Contains(got, "agent_unknown") {
			t.Errorf("the thread of an agent that is gone goes on with another tenant's: %s", got)
		}
		log, err := d.store.Audit(t.Context(), store.Within("globex"), 0, 100)
		text := ""
		for _, e := range log {
			text += fmt.Sprintf("%s %s %s %s\n", e.Actor, e.Action, e.SubjectID, e.Payload)
		}
		if err != nil || strings.Contains(text, "acme") || strings.Contains(text, "payroll!") || !strings.Contains(text, "payroll") {
			t.Errorf("the audit of the tenant has %s %v", text, err)
		}
	})
}

// TestS64NamesOfTheOperator: an id or a name that looks like that of an agent of the operator's is refused, in the words that are
// used for the id itself, and for another owner's in the tenant. The refusal is audited.
func TestS64NamesOfTheOperator(t *testing.T) {
	onBothDatabases(t, func(t *testing.T, db database) {
		d := newDirectory(t, db.open)
		d.agents.Add("Payroll", &scripted{script: saysN(1)})
		far := newOutside(t, "far")
		registers := func(who, id, name string) answer {
			body, err := json.Marshal(map[string]string{"agent_id": id, "name": name, "endpoint": far.url})
			if err != nil {
				t.Fatal(err)
			}
			return d.by(who, "POST", "/v1/agents/register", string(body))
		}
		if got := registers("rival", "ours", "Ours"); got.status != 200 {
			t.Fatal(got)
		}
		words := isProblem(t, registers("planner", "Payroll", "x"), http.StatusConflict)
		for _, c := range []struct{ id, name string }{
			{"payroll", "x"}, {"PAYROLL", "x"}, {"Payro11", "x"}, {"PayroIl", "x"}, {"pay-roll", "x"}, {"Payroll.", "x"}, {"payroll_", ""}, {"Pay:roll", ""}, {"rnailer", "Payroll"},
			{"a", "payroll"}, {"a", "Pay roll"}, {"a", "Раyrоll"}, {"a", "Payroll."}, {"a", "Ｐａｙｒｏｌｌ"}, {"a", "Páyroll"}, {"a", "𝐏𝐚𝐲𝐫𝐨𝐥𝐥"}, {"a", "ꓑayroll"}, {"a", "scripted"},
			{"MCP", "x"}, {"mcp", "x"}, {"m.c.p", "x"}, {"a", "mcp"}, {"Scripted", "x"}, {"ours", "x"},
		} {
			got := registers("planner", c.id, c.name)
			if got.status != http.StatusConflict || fmt.Sprint(isProblem(t, got, http.StatusConflict)) != fmt.Sprint(words) {
				t.Errorf("%s, %q: %d %s, want %v", c.id, c.name, got.status, got.body, words)
			}
		}
		for _, hidden := range []string{"Pay\u200broll", "\u2066Payroll", "Pay\u00adroll", "Payroll ", "Payroll\u3000"} { // no name, or refused as one that looks so
			if got := registers("planner", "a", hidden); got.status/100 != 4 {
				t.Errorf("%q: %d %s", hidden, got.status, got.body)
			}
		}
		if got := registers("planner", "payroll2", "Payroll of Berlin"); got.status != 200 {
			t.Errorf("a name of its own: %d %s", got.status, got.body)
		}
		if got := registers("planner", "payroll2", "Payroll"); got.status != http.StatusConflict {
			t.Errorf("a name that is changed: %d %s", got.status, got.body)
		}
		if got := d.seen("planner", "payroll2")["name"]; got != "Payroll of Berlin" {
			t.Errorf("a refused change made the name %v", got)
		}
		log, err := d.store.Audit(t.Context(), store.Within("acme"), 0, 100)
		if text := fmt.Sprintf("%+v", log); err != nil || !strings.Contains(text, "agent.refused") {
			t.Errorf("the audit has %s %v", text, err)
		}
	})
}
