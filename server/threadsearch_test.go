package server_test

import (
	"context"
	"strings"
	"testing"

	"aqueduct/agui"
	"aqueduct/bridge"
	"aqueduct/bridge/approval"
)

// TestSearchThreads: the texts of a chat are found by words, parts of words and Chinese characters as soon as it has ended,
// after an edit what stands on the current branch, and after a deletion nothing.
func TestSearchThreads(t *testing.T) {
	t.Parallel()
	onBothDatabases(t, func(t *testing.T, db database) {
		t.Helper()
		h := newEnvWith(t, echoes(nil), plan{open: db.open})
		h.chat("T1", "R1", "Where does the Danube end?")
		h.chat("T2", "R1", "请帮我查询上海的天气")
		h.chat("T3", "R1", "The weather in Ｓｈａｎｇｈａｉ")
		found := func(query, want string) {
			t.Helper()
			if got := h.threadsAt("q=" + query); got != want {
				t.Errorf("%s finds %q, want %q", query, got, want)
			}
		}
		for query, want := range map[string]string{
			"danube": "T1", "DANU": "T1", "anub": "T1", "end%20danube": "T1", "end%20shanghai": "", "shanghai": "T3", "the": "T3 T1", "re%20where": "T1",
			"天气": "T2", "上海": "T2", "查": "T2", "海的天": "T2", "天海": "", "%E5%A4%A9%E6%B0%94%20%E4%B8%8A%E6%B5%B7": "T2", "t": "T3 T1", "": "T3 T2 T1", "%20": "T3 T2 T1", "%25": "", "_": "", "%22": "", "user": "", "content": "", "u-R1": "",
		} {
			found(query, want)
		}
		h.do("PATCH", "/api/threads/T2", `{"title":"Reisepläne"}`)
		found("REISEPLÄNE", "T2")
		found("天气", "T2") // it is in the message still

		// An edit: what it took the place of is not found any more, though ?run= reads it.
		h.chat("T1", "R2", "And the Volga?")
		found("volga", "T1")
		edited := strings.Replace(inputBody("T1", "R3", "And the Rhine?"), `"messages":[`, `"messages":[{"id":"u-R1","role":"user","content":"Where does the Danube end?"},{"id":"m-`+
			h.agent.prompts()[0].TurnID+`","role":"assistant","content":"re"},`, 1)
		h.open(h.request("POST", "/api/agui/chat", edited)).rest()
		found("volga", "")
		found("rhine", "T1")
		found("danube", "T1")

		h.do("DELETE", "/api/threads/T1", "")
		found("rhine", "")
		found("danube", "")
		isProblem(t, h.do("GET", "/api/threads?q="+strings.Repeat("x", 201), ""), 400)

		// Threads of before there was a search are found too.
		db.exec("DELETE FROM search_texts", "UPDATE messages SET searched = FALSE", "UPDATE sessions SET searched = FALSE")
		found("shanghai", "T3")
		found("reisepl", "T2")
	})
}

// TestSearchFindsNothingMasked: a secret is found neither where it was masked nor in its sealed original; what stands beside it
// is.
func TestSearchFindsNothingMasked(t *testing.T) {
	t.Parallel()
	onBothDatabases(t, func(t *testing.T, db database) {
		t.Helper()
		h := newEnvWith(t, echoes(nil), plan{open: db.open, secrets: newSecrets(t)})
		h.chat("T", "R", "The code is ACME-1234-walrus, keep it.")
		h.do("PATCH", "/api/threads/T", `{"title":"About ACME-1234-walrus"}`)
		for query, want := range map[string]string{"walrus": "", "ACME": "", "1234": "", "wal": "", "keep": "T", "about": "T"} {
			if got := h.threadsAt("q=" + query); got != want {
				t.Errorf("%s finds %q, want %q", query, got, want)
			}
		}
		if given := h.given(); !strings.Contains(given, "walrus") {
			t.Errorf("the agent was given %q: nothing was sealed", given)
		}
	})
}

// TestSearchFindsWhatMayBeRead: threads of others are found by those they are shared with, while they are, and no tenant's by
// another's.
func TestSearchFindsWhatMayBeRead(t *testing.T) {
	t.Parallel()
	onBothDatabases(t, func(t *testing.T, db database) {
		t.Helper()
		h := newSharingOn(t, db.open)
		found := func(who string, want bool) {
			t.Helper()
			for _, query := range []string{"delete", "Dele", "d"} {
				got := h.by(who, "GET", "/api/threads?q="+query, "")
				if got.status != 200 || strings.Contains(got.body, h.session) != want {
					t.Errorf("%s, %s: %d %s", who, query, got.status, got.body)
				}
			}
		}
		found("ann", true)
		for _, who := range []string{"bob", "rita", "dan", "eve", "bob2"} {
			found(who, false)
		}
		id := h.share(`{"user":"bob","rights":["read"]}`)
		h.share(`{"role":"reviewer","rights":["read"]}`)
		found("bob", true)
		found("rita", true)
		for _, who := range []string{"dan", "eve", "bob2"} {
			found(who, false)
		}
		h.by("ann", "PATCH", "/api/threads/"+h.thread, `{"archived":true}`)
		if got := h.by("bob", "GET", "/api/threads?q=delete&archived=false", ""); !strings.Contains(got.body, h.session) || strings.Contains(got.body, `"archived":true`) {
			t.Errorf("a thread that its owner archived: %s", got.body)
		}
		if got := h.by("bob", "GET", "/api/threads?archived=true", ""); strings.Contains(got.body, h.session) {
			t.Errorf("it is archived for a reader: %s", got.body)
		}
		h.by("ann", "DELETE", "/api/threads/"+h.thread+"/shares/"+id, "")
		found("bob", false)
	})
}

// TestUsageSideBySide: what an agent reports and what the model proxy counted both stand, each by who counted it, in the
// event, in the tree and in the sum of the agent that called it; a channel gets the agent's own.
func TestUsageSideBySide(t *testing.T) {
	t.Parallel()
	onBothDatabases(t, func(t *testing.T, db database) {
		t.Helper()
		in, out := int64(100), int64(50)
		p, _ := withModels(t, oneUpstream, plan{open: db.open})
		reports := func(c *callEnv, ctx context.Context, say func(...bridge.Output), call bridge.Call, _ []approval.Delivery) {
			c.model(ctx, call)
			say(bridge.Output{End: &bridge.End{Usage: []agui.TokenUsage{{Model: "m1", InputTokens: &in, OutputTokens: &out, CountedBy: "proxy"}}}})
		}
		c := newCallEnv(t, map[string]agentScript{"scripted": func(c *callEnv, ctx context.Context, say func(...bridge.Output), call bridge.Call, a []approval.Delivery) {
			c.call(ctx, call, "helper", "go")
			reports(c, ctx, say, call, a)
		}, "helper": reports}, p)
		frames := c.open(c.prompt("t", "r", "go")).rest()
		last := frames[len(frames)-1].data
		for _, want := range []string{
			`{"model":"m1","inputTokens":200,"outputTokens":100,"countedBy":"agent"}`,
			`{"provider":"main","model":"m1","inputTokens":22,"outputTokens":14,"totalTokens":36,`,
			`"countedBy":"proxy"}`,
		} {
			if tree := c.tree("r"); !strings.Contains(string(tree.Usage), want) {
				t.Errorf("no %s in the tree: %s", want, tree.Usage)
			}
		}
		// The official client takes members out that it does not know, and warns.
		if !strings.Contains(last, `"aqueduct.countedBy":["agent","proxy"]`) || strings.Contains(last, `"countedBy"`) {
			t.Errorf("who counted: %s", last)
		}
		for _, want := range []string{`{"model":"m1","inputTokens":200,"outputTokens":100}`, `{"provider":"main","model":"m1","inputTokens":22,"outputTokens":14,"totalTokens":36`} {
			if !strings.Contains(last, want) {
				t.Errorf("no %s in %s", want, last)
			}
		}
	})
}
