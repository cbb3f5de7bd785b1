package acpgateway_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"aqueduct/acpgateway/wire"
	"aqueduct/bridge/approval"
	"aqueduct/store"
)

// wants is a request for permission as claude and codex make it.
func (c *conversation) wants(request, call, always string) {
	c.p.send(signal(c.run, `{"type":"permission_request","request_id":"`+request+`","session_id":"`+agentSession+`","prompt_id":"`+c.prompt+`","tool_call":`+call+`,
		"options":[{"optionId":"p-always","name":"`+always+`","kind":"allow_always"},{"optionId":"p-once","name":"Allow","kind":"allow_once"},{"optionId":"p-no","name":"Reject","kind":"reject_once"}]}`))
}

// offered are the labels of an open Question's options, by id.
func (h *acpEnv) offered(id string) map[string]string {
	h.t.Helper()
	q, err := approval.Load(h.t.Context(), h.store, store.System(), id)
	if err != nil {
		h.t.Fatal(err)
	}
	labels := map[string]string{}
	for _, o := range q.Options() {
		labels[o.ID] = o.Label
	}
	return labels
}

// claude's button for all of a tool means all of it: in this session, with an end, and of that tool
// only.
func TestAlwaysAllOfATool(t *testing.T) {
	inEnv(t, plan{}, func(h *acpEnv) {
		p := newProxy(h, "p1").link()
		c := p.begin("t1", "hi")
		write := func(id, file, content string) string {
			c.update(tool("tool_call", id, `"title":"Write","kind":"edit","status":"pending","rawInput":{},"_meta":{"claudeCode":{"toolName":"Write"}}`))
			return `{"toolCallId":"` + id + `","title":"Write ` + file + `","kind":"edit","rawInput":{"file_path":"/w/` + file + `","content":"` + content + `"}}`
		}
		c.wants("0", write("call-1", "a.txt", "x"), "Always Allow all Write")
		c.s.rest()
		question := h.asked("t1")[0]
		labels := h.offered(question)
		if got := labels["allow_always"]; got != "Always Allow all Write (always any Write in this session, for 8 hours)" {
			t.Errorf("%q", got)
		}
		if got := labels["allow_always.exact"]; got != "Always exactly this change in this session, for 30 days" {
			t.Errorf("%q of %v", got, labels)
		}
		s := h.answer("t1", question, "allow_always")
		c.allowed("0")
		c.wants("1", write("call-2", "b.txt", "y"), "Always Allow all Write")
		c.allowed("1")
		c.wants("2", `{"toolCallId":"call-3","title":"rm","kind":"execute","rawInput":{"command":"rm"}}`, "Always Allow all Bash")
		s.rest()
		if open := h.asked("t1"); len(open) != 1 {
			t.Fatalf("open: %v", open)
		}
		if kept := h.grants(); len(kept) != 1 || kept[0].ExpiresAt.Sub(kept[0].CreatedAt) != 8*time.Hour {
			t.Errorf("%+v", kept)
		}
	})
}

// codex names the file in its request and shows the change in the call: its "always" is for this
// change, the question's hash covers it, and another content is asked about. A surface that wants the
// whole file asks for it.
func TestAlwaysOfAnEditCoversItsContent(t *testing.T) {
	inEnv(t, plan{}, func(h *acpEnv) {
		p := newProxy(h, "p1").link()
		c := p.begin("t1", "hi")
		edits := func(request, id, content string) {
			c.update(tool("tool_call", id, `"title":"Edit files","kind":"edit","status":"in_progress","content":[{"type":"diff","path":"/w/a.txt","oldText":"","newText":"`+content+`"}]`))
			c.wants(request, `{"toolCallId":"`+id+`","title":"Edit files","kind":"edit","status":"pending","locations":[{"path":"/w/a.txt"}]}`,
				"Yes, and don't ask again for these files")
		}
		asked := func() store.Approval {
			a, err := h.store.Approval(h.t.Context(), store.System(), h.asked("t1")[0])
			h.must(err)
			return a
		}
		edits("0", "call-1", "good")
		c.s.rest()
		first := asked()
		if !strings.Contains(string(first.Args), `"newText":"good"`) {
			t.Errorf("the change is not shown: %s", first.Args)
		}
		s := h.answer("t1", first.ID, "allow_always")
		c.allowed("0")
		edits("1", "call-2", "good")
		c.allowed("1")
		edits("2", "call-3", "evil")
		s.rest()
		second := asked()
		if second.ArgsSHA256 == first.ArgsSHA256 {
			t.Error("two contents have one hash")
		}
		if got := h.offered(second.ID)["allow_always.file"]; got != "Always edits of /w/a.txt in this session, for 8 hours" {
			t.Errorf("%q", got)
		}
		s = h.answer("t1", second.ID, "allow_always.file")
		c.allowed("2")
		edits("3", "call-4", "more")
		c.allowed("3")
		c.ends()
		s.rest()
	})
}

// An "always" that chooses the agent's mode is the agent's own, and is passed on as it is.
func TestAlwaysThatChoosesAMode(t *testing.T) {
	inEnv(t, plan{}, func(h *acpEnv) {
		p := newProxy(h, "p1").link()
		c := p.begin("t1", "hi")
		c.wants("0", `{"toolCallId":"call-1","title":"Ready to code?","kind":"switch_mode","rawInput":{"plan":"x"}}`, "Yes, and auto-accept edits")
		c.s.rest()
		h.answer("t1", h.asked("t1")[0], "allow_always")
		if said := want[*wire.SessionPermission](p); said.OptionID == nil || *said.OptionID != "p-always" {
			raw, _ := json.Marshal(said)
			t.Errorf("%s", raw)
		}
		if kept := h.grants(); len(kept) != 0 {
			t.Errorf("%+v", kept)
		}
	})
}
