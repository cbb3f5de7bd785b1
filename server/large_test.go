//go:build !race

// Run by scripts/test-unraced, where the reason is.

package server_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	"aqueduct/agui"
	"aqueduct/bridge"
	"aqueduct/store"
	"aqueduct/store/postgres"
	"aqueduct/store/storetest"
)

// TestPictures: pictures of 1.5 MiB in one thread, together past the limit of what is new, each message with all before it.
// Clients get URLs, the agent the bytes. With more, and official clients: test/judges.
func TestPictures(t *testing.T) {
	t.Parallel()
	h := newEnv(t, saysN(1))
	c := &talk{h: h, thread: "T"}
	const size, count = 3 << 19, 5
	for n := range count {
		c.send(pictureMessage(fmt.Sprintf("u%d", n), picture(n, size)))
	}
	last := h.agent.last()
	var sent int
	for _, m := range last.Messages {
		for _, p := range m.Content.Parts {
			if data, ok := p.Data(); ok && bytes.Equal(data, picture(sent, size)) {
				sent++
			}
		}
	}
	if sent != count || len(last.Prompt) == 0 || last.Prompt[len(last.Prompt)-1].Content.Parts[1].Source.Type != agui.SourceData {
		t.Errorf("the agent got %d pictures, and %d messages as its prompt", sent, len(last.Prompt))
	}
	// The same body again is the same Run, though parts of it are not held.
	again := h.open(h.request("POST", "/api/agui/chat", c.body())).rest()
	if got := h.open(h.request("GET", "/api/runs/R5/events", "", "Accept", "text/event-stream")).rest(); chained([32]byte{}, got) != chained([32]byte{}, again) {
		t.Error("the body that was sent again is another Run")
	}
	isProblem(t, h.do("POST", "/api/agui/chat", strings.Replace(c.body(), `"see"`, `"saw"`, 1)), 409)

	messages, cut := h.snapshotOf("T")
	if len(messages) != count+1 || cut != nil { // the scripted agent names all its answers alike
		t.Fatalf("%d messages, cut: %v", len(messages), cut)
	}
	source := messages[0].Content.Parts[1].Source
	if source.Type != agui.SourceURL || !strings.HasPrefix(source.Value, "/api/threads/") || source.MimeType != "image/png" {
		t.Fatalf("%+v", source)
	}
	got := h.do("GET", source.Value, "")
	if got.body != string(picture(0, size)) || got.header.Get("Content-Type") != "image/png" || got.header.Get("Content-Disposition") != "inline" {
		t.Errorf("%d bytes, %v", len(got.body), got.header)
	}
	// A client that comes back sends the URLs it was given. A new message may name one as well: the agent gets the bytes.
	c.messages = c.messages[:0]
	for _, m := range messages {
		c.messages = append(c.messages, string(m.AppendJSON(nil)))
	}
	named := `[{"type":"image","source":{"type":"url","value":"http://page.example%s","mimeType":"image/png"}}]`
	c.send(fmt.Sprintf(`{"id":"edit","role":"user","content":`+named+`}`, source.Value))
	if p := h.agent.last().Prompt; len(p) != 1 || p[0].ID != "edit" || p[0].Content.Parts[0].Source.Value != base64.StdEncoding.EncodeToString(picture(0, size)) {
		t.Error("the agent did not get the bytes of a part that was named")
	}
	if messages, _ := h.snapshotOf("T"); len(messages) != count+2 || messages[count+1].Content.Parts[0].Source.Value != source.Value {
		t.Errorf("%d messages; a message that names a part is not as the others are", len(messages))
	}
	other := &talk{h: h, thread: "copy"}
	other.send(fmt.Sprintf(`{"id":"c1","role":"user","content":`+named+`}`, source.Value))
	if p := h.agent.last().Prompt; p[0].Content.Parts[0].Source.Type != agui.SourceData {
		t.Error("a part of another thread of the user's is not carried over")
	}
	if h.do("DELETE", "/api/threads/T", "").status != 204 {
		t.Error("not deleted")
	}
	isProblem(t, h.do("GET", source.Value, ""), 404)
	if messages, _ := h.snapshotOf("copy"); h.do("GET", messages[0].Content.Parts[0].Source.Value, "").status != 200 {
		t.Error("a part that was carried over went with the thread it came from")
	}
}

// TestJoinOfALargeThread: one frame never holds more than clients can read, and what is left out is announced and can be read.
func TestJoinOfALargeThread(t *testing.T) {
	t.Parallel()
	h := newEnv(t, saysN(1))
	h.chat("T", "R", "hi")
	// As an earlier version kept it: 10 pictures inside their messages, and 5 MiB of text.
	var bodies []string
	for n := range 10 {
		bodies = append(bodies, pictureMessage(fmt.Sprintf("p%02d", n), picture(n, 1<<20)), fmt.Sprintf(`{"id":"t%02d","role":"assistant","content":%q}`, n, strings.Repeat("word ", 100<<10)))
	}
	bodies = append(bodies, fmt.Sprintf(`{"id":"long","role":"assistant","content":%q}`, strings.Repeat("ä", 3<<20)))
	h.insert(h.sessionOf("T"), bodies...)

	messages, cut := h.snapshotOf("T")
	ids, _ := cut["cut"].([]any)
	if len(messages) < 10 || messages[len(messages)-1].ID != "long" || !strings.Contains(messages[len(messages)-1].Content.Text, "[cut: ") || len(ids) != 1 || ids[0] != "long" {
		t.Fatalf("%d messages, cut: %v", len(messages), cut)
	}
	var all []agui.Message
	path := cut["url"].(string)
	for pages := 0; path != "" && pages < 50; pages++ {
		got := h.do("GET", path, "")
		if len(got.body) > 5<<20 {
			t.Errorf("a page of %d bytes", len(got.body))
		}
		var page []agui.Message
		if err := json.Unmarshal([]byte(got.body), &page); err != nil {
			t.Fatal(err)
		}
		all = append(page, all...)
		path, _, _ = strings.Cut(strings.TrimPrefix(got.header.Get("Link"), "<"), ">")
	}
	if all = append(all, messages...); len(all) != 2+21 || all[0].Role != "user" {
		t.Errorf("%d messages in all pages and the snapshot", len(all))
	}
	for _, m := range all {
		for i := range m.Content.Parts {
			if m.Content.Parts[i].DataSize() > bridge.InlinePart {
				t.Errorf("%s holds its picture", m.ID)
			}
		}
	}
	if whole := h.do("GET", "/api/threads/T/messages?format=agui&limit=1", ""); len(whole.body) < 6<<20 {
		t.Errorf("a message that a snapshot cuts can be read whole nowhere: %d bytes", len(whole.body))
	}
	h.chat("T", "R2", "more")
	var pictures int
	for _, m := range h.agent.last().Messages {
		for _, p := range m.Content.Parts {
			if _, ok := p.Data(); ok {
				pictures++
			}
		}
	}
	if pictures != 10 {
		t.Errorf("the agent got %d of 10 pictures", pictures)
	}
}

// TestResendMemory: a body of 40 MiB that is known costs no more memory than what is new in it may.
func TestResendMemory(t *testing.T) {
	h := newEnv(t, saysN(1))
	h.chat("T", "R", "hi")
	s, err := h.store.SessionByExternalID(t.Context(), scope(), "T")
	if err != nil {
		t.Fatal(err)
	}
	var small, large []string
	for n := range 10 {
		known := fmt.Sprintf(`{"id":"k%d","role":"user","content":"x"}`, n)
		h.insert(s.ID, known)
		small = append(small, known)
		large = append(large, pictureMessage(fmt.Sprintf("k%d", n), picture(n, 3<<19)))
	}
	for name, order := range map[string]string{
		"thread first": `{"threadId":"T","runId":"%[1]s","protocolVersion":"1.0","messages":[%[2]s]}`,
		"thread last":  `{"runId":"%[1]s","protocolVersion":"1.0","messages":[%[2]s],"threadId":"T"}`,
	} {
		resend := func(run string, messages []string) (peak uint64, size int) {
			fresh := pictureMessage("new-"+run, picture(99, 1<<20))
			body := fmt.Sprintf(order, run, strings.Join(append(messages[:len(messages):len(messages)], fresh), ","))
			req := h.request("POST", "/api/agui/chat", body)
			peak = memoryPeak(func() { h.open(req).rest() })
			return peak, len(body)
		}
		run := strings.Fields(name)[1]
		ofSmall, sizeSmall := resend("small-"+run, small)
		ofLarge, sizeLarge := resend("large-"+run, large)
		t.Logf("%s: %d KiB for a body of %d KiB, %d KiB for one of %d KiB: %.1f times", name, ofSmall>>10, sizeSmall>>10, ofLarge>>10, sizeLarge>>10, float64(ofLarge)/float64(ofSmall))
		if ofLarge > ofSmall+16<<20 {
			t.Errorf("%s: a body of %d bytes took %d bytes of memory, one of %d bytes %d", name, sizeLarge, ofLarge, sizeSmall, ofSmall)
		}
	}
}

// TestRegenerateOfALargeBody: what is known of a body past the limit is not held, and a message without its content is not
// an edited one.
func TestRegenerateOfALargeBody(t *testing.T) {
	t.Parallel()
	h := newEnv(t, echoes(nil))
	c := &talk{h: h, thread: "T"}
	answered := func(n int) {
		c.send(pictureMessage(fmt.Sprint("u", n), picture(n, 1<<21)))
		c.messages = append(c.messages, fmt.Sprintf(`{"id":"m-%s","role":"assistant","content":"re see"}`, h.agent.last().TurnID))
	}
	answered(0)
	answered(1)
	c.messages = c.messages[:3] // without the newest answer
	first := h.agent.last().TurnID
	c.runs++
	h.is(text(h.open(h.request("POST", "/api/agui/chat", c.body())).rest()), "re see")
	call := h.agent.last()
	if call.TurnID == first || len(call.Messages) != 3 {
		t.Fatalf("%d messages in the same Turn: %v", len(call.Messages), call.TurnID == first)
	}
	if data, ok := call.Messages[2].Content.Parts[1].Data(); !ok || len(data) != 1<<21 {
		t.Error("the picture of the message that is answered again is lost")
	}
	h.is(h.given(), "see | re see | see")
}

// TestS26JSON: what is too large, too deep, compressed or no JSON is refused at once.
func TestS26JSON(t *testing.T) {
	t.Parallel()
	h := newEnv(t, saysN(1))
	keys := new(strings.Builder)
	for i := range 1_000_000 {
		fmt.Fprintf(keys, `"k%d":1,`, i)
	}
	for name, c := range map[string]struct {
		body, header, value string
		want                []int
	}{
		"100 MiB":       {body: `{"messages":[],"x":"` + strings.Repeat("x", 100<<20) + `"}`, want: []int{413}},
		"depth 10000":   {body: `{"messages":` + strings.Repeat("[", 10_000) + strings.Repeat("]", 10_000) + `}`, want: []int{400}},
		"1e6 keys":      {body: `{` + keys.String() + `"prompt":1}`, want: []int{400, 413}},
		"gzip":          {body: "\x1f\x8b\x08\x00", header: "Content-Encoding", value: "gzip", want: []int{415}},
		"invalid UTF-8": {body: "{\"prompt\":\"\xff\"}", want: []int{400}},
		"huge number":   {body: `{"messages":[{"id":"m","role":"user","content":1e99999}]}`, want: []int{400}},
	} {
		req := httptest.NewRequest("POST", "/api/agui/chat", strings.NewReader(c.body))
		req.Header.Set("Content-Type", "application/json")
		if c.header != "" {
			req.Header.Set(c.header, c.value)
		}
		got := h.direct(req)
		ok := false
		for _, want := range c.want {
			ok = ok || got.status == want
		}
		if !ok {
			t.Errorf("%s: %d %.300s, want %v", name, got.status, got.body, c.want)
		}
	}
}

// TestTraceOfOneTurn: everything that happens in one Turn is in its trace once, in order, with the payload that is
// documented, by every route and in pages of any size, and the same after 10 000 newer messages; a page costs what it shows.
func TestTraceOfOneTurn(t *testing.T) {
	t.Parallel()
	for name, p := range map[string]plan{
		"sqlite": {},
		"postgres": {open: func(t testing.TB) (store.Store, error) {
			return postgres.Open(t.Context(), storetest.Postgres(t), postgres.Options{Tracer: &sentPostgres})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, turn := everyKind(t, p)
			of := "/v1/runs/" + turn + "/events?"
			whole, _ := w.traceAll(of, 1000)
			if got := gistOf(t, whole); got != wantTrace {
				t.Errorf("on record is\n%s", got)
			}
			schemas, ids := traceSchemas(t), make(map[string]bool)
			for _, e := range whole {
				if ids[e.EventID] {
					t.Errorf("%s is there twice", e.EventID)
				}
				ids[e.EventID] = true
				if e.Source == "platform" {
					if wrong := schemas[e.Type].fits(e.Payload); len(wrong) > 0 {
						t.Errorf("%s: %v: %s", e.Type, wrong, e.Payload)
					}
				}
			}
			same := func() {
				t.Helper()
				for _, limit := range []int{1, 7, 1000} {
					for _, path := range []string{of, "/api/runs/R/events?records=1&"} {
						if got, _ := w.traceAll(path, limit); briefly(got) != briefly(whole) {
							t.Errorf("%s in pages of %d:\n%s\nwhole:\n%s", path, limit, briefly(got), briefly(whole))
						}
					}
				}
			}
			same()
			w.hearsOffline(turn)
			for _, line := range []string{
				`aqueduct_approval_seconds_count{kind="permission",status="APPROVED",tool=""} 1`, `aqueduct_approval_seconds_count{kind="permission",status="EXPIRED",tool="slow"} 1`,
				`aqueduct_approval_seconds_count{kind="client_tool",status="SUCCEEDED",tool=""} 1`, `aqueduct_tool_seconds_count{kind="client_tool",status="SUCCEEDED",tool=""} 1`,
				`aqueduct_client_offline_total{cause="invoked"} 1`, `aqueduct_turn_seconds_count{status="DONE"} 1`,
			} {
				if page := w.do("GET", "/metrics", "").body; !strings.Contains(page, line) {
					t.Errorf("%s is missing", line)
				}
			}
			session := w.sessionOf("T")
			all, _ := w.traceAll("/v1/sessions/"+session+"/events?source=platform&", 1000)
			if got := gistOf(t, all); got != wantTrace {
				t.Errorf("of the session is on record\n%s", got)
			}
			w.newer(session, 100)
			few := w.cost(of + "limit=20")
			w.newer(session, 9_900)
			many := w.cost(of + "limit=20")
			for try := 0; many > 3*few && try < 4; try++ { // others may use the machine
				many = min(many, w.cost(of+"limit=20"))
			}
			t.Logf("a page takes %v with 100 newer messages, %v with 10 000: %.2f times", few, many, float64(many)/float64(few))
			if many > 3*few {
				t.Errorf("a page takes %v with 100 newer messages and %v with 10 000", few, many)
			}
			same()
		})
	}
}
