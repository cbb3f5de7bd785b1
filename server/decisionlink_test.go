package server_test

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"html"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"aqueduct/bridge"
	"aqueduct/bridge/approval"
	"aqueduct/server/decide"
	"aqueduct/store"
)

// newLinks is the book of an env: its links are signed with linkKey.
func newLinks(t testing.TB, st store.Store) *decide.Book {
	t.Helper()
	return decide.NewBook(linkSigner(t), st)
}

func linkSigner(t testing.TB) *decide.Signer {
	t.Helper()
	s, err := decide.NewSigner([]byte(strings.Repeat("k", 32)))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// link is the path of a link to the open Question, with what a test wants otherwise.
func (h *env) link(change ...func(*decide.Claims)) string {
	h.t.Helper()
	a, err := h.store.Approval(h.t.Context(), store.System(), h.question())
	if err != nil {
		h.t.Fatal(err)
	}
	c := decide.Claims{
		ApprovalID: a.ID, Tenant: "local", User: "local", ArgsSHA256: a.ArgsSHA256, Expires: a.ExpiresAt.Unix(), Nonce: "nonce-1",
	}
	for _, otherwise := range change {
		otherwise(&c)
	}
	return "/decide/" + linkSigner(h.t).Token(c)
}

// visit opens a link; nonce is what its page holds.
func (h *env) visit(path string, header ...string) (page answer, nonce string) {
	h.t.Helper()
	page = h.do("GET", path, "", header...)
	if m := regexp.MustCompile(`data-page="([^"]+)"`).FindStringSubmatch(page.body); m != nil {
		nonce = html.UnescapeString(m[1])
	}
	return page, nonce
}

// click is what the page's script sends.
func (h *env) click(path, nonce, option string, header ...string) answer {
	h.t.Helper()
	body, err := json.Marshal(map[string]string{"page": nonce, "option_id": option})
	if err != nil {
		h.t.Fatal(err)
	}
	return h.do("POST", path, string(body), header...)
}

func (h *env) status(id string) store.Approval {
	h.t.Helper()
	a, err := h.store.Approval(h.t.Context(), store.System(), id)
	if err != nil {
		h.t.Fatal(err)
	}
	return a
}

// linkEnv has an open Question.
func linkEnv(t *testing.T, p plan) (h *env, id string) {
	t.Helper()
	h = newEnvWith(t, asks, p)
	if p.auth == nil {
		h.chat("T", "R", "may I?")
	} else {
		req := h.prompt("T", "R", "may I?")
		req.Header.Set("Authorization", "Bearer "+goodToken)
		h.open(req).rest()
	}
	return h, h.question()
}

// linkCases has a request for every code of links.
func linkCases(t *testing.T, cases map[string]func() answer) {
	t.Helper()
	h, _ := linkEnv(t, plan{})
	secured, _ := linkEnv(t, plan{auth: static(t)})
	good := h.link()
	_, nonce := h.visit(good)
	cases["link_invalid"] = func() answer { return h.click(good+"x", nonce, "yes") }
	cases["link_expired"] = func() answer { return h.click(h.link(expired), nonce, "yes") }
	cases["link_args_changed"] = func() answer { return h.click(h.link(swapped), nonce, "yes") }
	cases["link_page_expired"] = func() answer { return h.click(good, "1."+nonce, "yes") }
	cases["link_foreign"] = func() answer {
		return secured.click(secured.link(func(c *decide.Claims) { c.User = "eve" }), "x", "yes", "Authorization", "Bearer "+goodToken)
	}
	cases["link_used"] = func() answer {
		a, b := h.link(), h.link()
		_, nonce := h.visit(a)
		h.click(a, nonce, "yes")
		return h.click(b, nonce, "yes")
	}
}

func expired(c *decide.Claims) { c.Expires = time.Now().Unix() - 1 }
func swapped(c *decide.Claims) { c.ArgsSHA256 = strings.Repeat("0", 64) }

// TestLinkDecides: a click decides, once; the agent goes on; the link is used from then on.
func TestLinkDecides(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]store.ApprovalStatus{0: store.ApprovalApproved, 2: store.ApprovalRejected} {
		h, id := linkEnv(t, plan{})
		path := h.link()
		page, nonce := h.visit(path)
		if page.status != 200 || nonce == "" || !strings.Contains(page.body, `data-option="`+pageOption(id, n)+`"`) {
			t.Fatalf("%d %s", page.status, page.body)
		}
		got := h.click(path, nonce, pageOption(id, n), "Sec-Fetch-Site", "same-origin", "Origin", h.URL)
		if got.status != 200 || fields(t, got)["status"] != string(want) {
			t.Fatalf("%d %s", got.status, got.body)
		}
		if a := h.status(id); a.Status != want || a.DecidedVia != "link" || a.DecidedBy != "local" {
			t.Errorf("%+v", a)
		}
		again := h.click(path, nonce, pageOption(id, 0))
		if isProblem(t, again, 410)["code"] != "link_used" {
			t.Error(again.body)
		}
		if page, _ := h.visit(path); page.status != 410 || !strings.Contains(page.body, "has been used") || strings.Contains(page.body, "<button") {
			t.Errorf("%d %s", page.status, page.body)
		}
		frames := h.open(h.request("GET", "/api/threads/T/events", ""))
		if _, err := frames.until(func(f frame) bool { return f.typ() == "RUN_FINISHED" && len(f.id) > 0 && f.field("runId") != "R" }); err != nil {
			t.Error(err)
		}
		frames.close()
	}
}

// TestLinkScanners: a request that is no click of the page's decides nothing and leaves the link good.
func TestLinkScanners(t *testing.T) {
	t.Parallel()
	h, id := linkEnv(t, plan{origins: []string{"https://app.example"}})
	path := h.link()
	_, nonce := h.visit(path)
	other := h.link(func(c *decide.Claims) { c.Nonce = "nonce-2" })
	_, otherNonce := h.visit(other)
	body := `{"page":"` + nonce + `","option_id":"` + id + `:0"}`
	for name, c := range map[string]struct {
		got  answer
		want int
	}{
		"HEAD":             {h.do("HEAD", path, ""), 405},
		"OPTIONS":          {h.do("OPTIONS", path, ""), 204},
		"PUT":              {h.do("PUT", path, body), 405},
		"DELETE":           {h.do("DELETE", path, ""), 405},
		"GET with a query": {h.do("GET", path+"?option_id="+id+":0&page="+nonce, ""), 200},
		"GET with a body":  {h.do("GET", path, body), 200},
		"a form":           {h.do("POST", path, "page="+nonce+"&option_id="+pageOption(id, 0), "Content-Type", "application/x-www-form-urlencoded"), 415},
		"plain text":       {h.do("POST", path, body, "Content-Type", "text/plain"), 415},
		"empty":            {h.do("POST", path, `{}`), 400},
		"no nonce":         {h.click(path, "", pageOption(id, 0)), 400},
		"a wrong nonce":    {h.click(path, "1.2", pageOption(id, 0)), 403},
		"another's nonce":  {h.click(path, otherNonce, pageOption(id, 0)), 403},
		"the token":        {h.click(path, strings.TrimPrefix(path, "/decide/")[:256], pageOption(id, 0)), 403},
		"another site":     {h.click(path, nonce, pageOption(id, 0), "Sec-Fetch-Site", "cross-site"), 403},
		"same site":        {h.click(path, nonce, pageOption(id, 0), "Sec-Fetch-Site", "same-site"), 403},
		"an origin":        {h.click(path, nonce, pageOption(id, 0), "Origin", "https://evil.example"), 403},
		"no option":        {h.click(path, nonce, ""), 400},
		"a wrong option":   {h.click(path, nonce, pageOption(id, 9)), 422},
		"a label":          {h.click(path, nonce, "Yes"), 422},
		"a kind":           {h.click(path, nonce, "allow_once"), 422},
		"another's option": {h.click(path, nonce, "0190c0de-0000-7000-8000-000000000001:0"), 422},
	} {
		if c.got.status != c.want {
			t.Errorf("%s: %d, want %d: %.200s", name, c.got.status, c.want, c.got.body)
		}
	}
	if a := h.status(id); a.Status != store.ApprovalPending {
		t.Fatalf("%+v", a)
	}
	if got := h.click(path, nonce, pageOption(id, 0)); got.status != 200 {
		t.Errorf("after all that: %d %s", got.status, got.body)
	}
}

// TestLinkRefused: forged, old, swapped, foreign and late links each get a page with the reason, and no arguments.
func TestLinkRefused(t *testing.T) {
	t.Parallel()
	h, id := linkEnv(t, plan{})
	secured, _ := linkEnv(t, plan{auth: static(t)})
	good := h.link()
	forged, err := decide.NewSigner([]byte(strings.Repeat("o", 32)))
	if err != nil {
		t.Fatal(err)
	}
	eve := func(c *decide.Claims) { c.User = "eve" }
	refused := func(name string, got answer, want int, said string) {
		t.Helper()
		if got.status != want || !strings.Contains(got.body, said) || strings.Contains(got.body, "/x") || !strings.Contains(got.header.Get("Content-Type"), "text/html") ||
			got.header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: %d %s", name, got.status, got.body)
		}
	}
	refused("forged", h.do("GET", "/decide/"+forged.Token(decide.Claims{ApprovalID: id, Tenant: "local", User: "local", Nonce: "n", Expires: 1 << 40}), ""), 404, "not one that this server made")
	refused("garbled", h.do("GET", good[:len(good)-2]+"xx", ""), 404, "not one")
	refused("no such question", h.do("GET", h.link(func(c *decide.Claims) { c.ApprovalID = "0190c0de-0000-7000-8000-000000000001" }), ""), 404, "is gone")
	refused("another's question", h.do("GET", h.link(eve), ""), 404, "is gone")
	refused("another tenant's", h.do("GET", h.link(func(c *decide.Claims) { c.Tenant = "other" }), ""), 404, "is gone")
	refused("expired", h.do("GET", h.link(expired), ""), 410, "time to decide is over")
	refused("swapped", h.do("GET", h.link(swapped), ""), 409, "arguments are not those")
	refused("signed in as another", secured.do("GET", secured.link(eve), "", "Authorization", "Bearer "+goodToken), 403, "somebody else")
	// The page of a link shows no secret: the cookie alone refuses.
	refused("signed in as another, in a browser", secured.do("GET", secured.link(eve), "", secured.signedIn(goodToken).cookie()...), 403, "somebody else")
	refused("an agent's token", secured.do("GET", secured.link(), "", "Authorization", "Bearer run-token-of-an-agent"), 401, "token")
	for name, header := range map[string][]string{
		"nobody signed in": nil, "a stale cookie": {"Cookie", "aqueduct_session=old"}, "the approver": {"Authorization", "Bearer " + goodToken},
	} {
		if page, nonce := secured.visit(secured.link(), header...); page.status != 200 || nonce == "" {
			t.Errorf("%s: %d", name, page.status)
		}
	}

	_, nonce := h.visit(good)
	h.decide(id, `{"decision":"reject"}`)
	refused("decided elsewhere", h.do("GET", good, ""), 409, "REJECTED already, by local via rest")
	if p := isProblem(t, h.click(good, nonce, pageOption(id, 0)), 409); p["code"] != "already_decided" {
		t.Errorf("%v", p)
	}
	if a := h.status(id); a.Status != store.ApprovalRejected {
		t.Errorf("%+v", a)
	}
}

// TestLinkRace: of fifty clicks at once, yes and no mixed, one decides.
func TestLinkRace(t *testing.T) {
	t.Parallel()
	h, id := linkEnv(t, plan{})
	path := h.link()
	_, nonce := h.visit(path)
	answers := make([]answer, 50)
	var all sync.WaitGroup
	for i := range answers {
		option := pageOption(id, i%2*2)
		all.Go(func() { answers[i] = h.click(path, nonce, option) })
	}
	all.Wait()
	won := 0
	for _, got := range answers {
		switch got.status {
		case 200:
			won++
		case 409, 410:
		default:
			t.Errorf("%d %s", got.status, got.body)
		}
	}
	if won != 1 {
		t.Errorf("%d clicks decided", won)
	}
}

// TestLinkPolicy: the page is not cached, cannot be framed, and runs nothing but what its policy names by hash.
func TestLinkPolicy(t *testing.T) {
	t.Parallel()
	h, _ := linkEnv(t, plan{})
	page, _ := h.visit(h.link())
	for name, want := range map[string]string{
		"Cache-Control": "no-store", "Referrer-Policy": "no-referrer", "X-Robots-Tag": "noindex", "X-Frame-Options": "DENY",
		"X-Content-Type-Options": "nosniff", "Cross-Origin-Opener-Policy": "same-origin",
	} {
		if got := page.header.Get(name); !strings.Contains(got, want) {
			t.Errorf("%s: %q", name, got)
		}
	}
	policy := page.header.Get("Content-Security-Policy")
	for _, want := range []string{"default-src 'none'", "frame-ancestors 'none'", "form-action 'none'", "base-uri 'none'"} {
		if !strings.Contains(policy, want) {
			t.Errorf("%s is not in %s", want, policy)
		}
	}
	inline := regexp.MustCompile(`(?s)<(style|script)>(.*?)</`).FindAllStringSubmatch(page.body, -1)
	if len(inline) != 2 || strings.Contains(policy, "unsafe") {
		t.Fatalf("%d inline blocks under %s", len(inline), policy)
	}
	for _, block := range inline {
		sum := sha256.Sum256([]byte(block[2]))
		if !strings.Contains(policy, base64.StdEncoding.EncodeToString(sum[:])) {
			t.Errorf("the policy does not let the page's %s through", block[1])
		}
	}
	if strings.Contains(page.body, "http://") || strings.Contains(page.body, "https://") || regexp.MustCompile(` on\w+=| style=`).MatchString(page.body) {
		t.Error("the page leads elsewhere, or has code or style in its elements")
	}
}

// TestLinkShowsAll: hostile names, titles, labels and arguments are shown as what they are.
func TestLinkShowsAll(t *testing.T) {
	t.Parallel()
	h := newEnv(t, func(_ context.Context, say func(...bridge.Output), _ bridge.Call, answers []approval.Delivery) {
		if len(answers) > 0 {
			return
		}
		say(bridge.Output{Question: &approval.Request{
			UpstreamID: "q", Kind: approval.AskPermission, Tool: "rm\u202egnp.\x1b[31m",
			Title: "<img src=x onerror=alert(1)>" + strings.Repeat("\n", 10_000) + "safe\u200b\u2066" + strings.Repeat("e\u0301\u0302\u0303\u0304", 3),
			Args:  json.RawMessage(`{"cmd":"</pre><script>alert(1)</script>","raw":"a` + "\u202e\u00a0\u3164\U000e0041" + `b","esc":"\u202e\u001b[2J","long":"` + strings.Repeat("x", 100_000) + `END"}`),
			Options: []approval.Option{
				{ID: "a", Label: "Reject</button>\u202e", Kind: "allow_once"}, {ID: "b", Label: strings.Repeat("Allow ", 100), Kind: "reject_once"},
			},
		}})
	})
	h.chat("T", "R", "may I?")
	page, _ := h.visit(h.link())
	for _, want := range []string{
		"as the agent states them", "⟨U&#43;202E⟩", "⟨U&#43;001B⟩[31m", "&lt;img src=x", "⟨U&#43;200B⟩", "⟨U&#43;0303⟩", "⟨U&#43;0304⟩", "⟨U&#43;00A0⟩", "⟨U&#43;3164⟩",
		"⟨U&#43;E0041⟩", `\u202e\u001b[2J`, "&lt;/pre&gt;&lt;script&gt;", "xEND&#34;", "shown in full", "stand for characters",
		`class="allow" data-option="` + pageOption(h.question(), 0) + `">Allow once<small>`, `class="reject" data-option="` + pageOption(h.question(), 1) + `">Reject<small>`, "… cut here",
	} {
		if !strings.Contains(page.body, want) && !strings.Contains(page.body, strings.ReplaceAll(want, "U&#43;", "U+")) {
			t.Errorf("%s is not in the page", want)
		}
	}
	for _, never := range []string{"<img", "\u202e", "\u200b", "\u2066", "\x1b", "\u00a0", "\u3164", "\U000e0041", "<script>alert", "Reject</button>", "\n\n\n"} {
		if strings.Contains(page.body, never) {
			t.Errorf("%q is in the page", never)
		}
	}
}

// TestLinkOfOurTool: for a call that the server executes, the page states that exactly this runs.
func TestLinkOfOurTool(t *testing.T) {
	t.Parallel()
	h, id := linkEnv(t, plan{})
	h.decide(id, `{"decision":"reject"}`)
	h.idle("T") // the end of a Turn cancels its calls
	asked := h.status(id)
	err := h.store.InTx(t.Context(), func(tx store.Tx) error {
		call := store.ToolCall{
			ID: "0190c0de-0000-7000-8000-00000000000a", SessionID: asked.SessionID, TurnID: asked.TurnID, Name: "deploy", Kind: store.KindServer,
			Status: store.ToolWaitingApproval, Args: []byte(`{"to":"prod"}`), ArgsSHA256: "ab", CreatedAt: time.Now(), ExpiresAt: time.Now().Add(time.Hour),
		}
		a := asked
		a.ID, a.Status, a.Tool, a.Args, a.ArgsSHA256 = call.ID, store.ApprovalPending, call.Name, call.Args, call.ArgsSHA256
		return errors.Join(tx.InsertToolCall(t.Context(), call), tx.InsertApproval(t.Context(), a))
	})
	if err != nil {
		t.Fatal(err)
	}
	page, _ := h.visit(h.link())
	if !strings.Contains(page.body, "With exactly these arguments") || !strings.Contains(page.body, "&#34;prod&#34;") {
		t.Errorf("%d %s", page.status, page.body)
	}
}
