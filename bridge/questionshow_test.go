package bridge

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"aqueduct/agui"
	"aqueduct/bridge/approval"
	"aqueduct/bridge/redact"
	"aqueduct/store"
)

func idsOfQuestions(all []approval.Question) (ids []string) {
	for _, q := range all {
		ids = append(ids, q.Call.ID)
	}
	return ids
}

func inputRequest(id string) approval.Question {
	q := permission(id)
	q.Approval.Kind, q.Approval.ResponseSchema = store.ApprovalInput, []byte(`{"type":"object"}`)
	q.Call.Name = "ask"
	return q
}

// If this fails, a page gets a question in a form that it cannot answer, or a TDesign page answers the wrong one of two.
func TestChooseFitsTheClient(t *testing.T) {
	t.Parallel()
	declares := func(names ...string) (p Profile) {
		p.Dialect = DialectV1
		for _, n := range names {
			p.Tools = append(p.Tools, ToolBrief{Name: n})
		}
		return p
	}
	tdesign := Profile{Dialect: DialectTDesign}
	for name, c := range map[string]struct {
		open       []approval.Question
		profile    Profile
		shown      string
		interrupts bool
	}{
		"a permission":                {[]approval.Question{permission("p")}, declares(), "p", true},
		"a page's tool":               {[]approval.Question{clientTool("c")}, declares(), "c", false},
		"two of a page's tools":       {[]approval.Question{clientTool("c"), clientTool("d")}, declares(), "c d", false},
		"a person goes before a page": {[]approval.Question{clientTool("c"), permission("p"), inputRequest("i")}, declares(), "p i", true},
		"a page with its own card":    {[]approval.Question{permission("p")}, declares(approval.PermissionTool), "p", false},
		"its card is of permissions":  {[]approval.Question{permission("p"), inputRequest("i")}, declares(approval.PermissionTool), "i", true},
		"TDesign, two permissions":    {[]approval.Question{permission("p"), permission("q")}, tdesign, "p", true},
		"TDesign, a person first":     {[]approval.Question{clientTool("c"), permission("p")}, tdesign, "p", true},
		"TDesign, only a page's tool": {[]approval.Question{clientTool("c"), clientTool("d")}, tdesign, "c", true},
	} {
		shown, outcome := choose(c.open, c.profile)
		if got := strings.Join(idsOfQuestions(shown), " "); got != c.shown {
			t.Errorf("%s: shown are %q, want %q", name, got, c.shown)
		}
		var ids []string
		for _, i := range outcome.Interrupts {
			ids = append(ids, i.ID)
		}
		if !c.interrupts {
			ids = outcome.PendingToolCallIDs
		}
		if strings.Join(ids, " ") != c.shown || (outcome.Type == agui.OutcomeInterrupt) != c.interrupts ||
			len(outcome.Interrupts) > 0 && len(outcome.PendingToolCallIDs) > 0 {
			t.Errorf("%s: the Run ends with %+v", name, outcome)
		}
	}
	if shown, outcome := choose(nil, tdesign); shown != nil || outcome != nil {
		t.Errorf("without a question the Run ends with %v, %+v", shown, outcome)
	}
}

// If this fails, a page does not know until when, or in which form, it has to answer an interrupt.
func TestInterruptSaysWhatIsAsked(t *testing.T) {
	t.Parallel()
	until := time.Date(2026, 1, 2, 3, 4, 5, 0, time.FixedZone("", 3600))
	p := permission("p")
	p.Call.ExpiresAt, p.Approval.Args = until, []byte(`{"path":"/tmp"}`)
	i := interruptOf(p)
	if i.ID != "p" || i.ToolCallID != "p" || i.Reason != "tool_call" || i.Message != "Cut wood?" || i.ExpiresAt != "2026-01-02T02:04:05Z" {
		t.Errorf("a permission is %+v", i)
	}
	if !strings.Contains(string(i.Metadata), "/tmp") || i.ResponseSchema != nil {
		t.Errorf("a permission shows %s and wants %s", i.Metadata, i.ResponseSchema)
	}
	i = interruptOf(inputRequest("i"))
	if i.Reason != "input_required" || string(i.ResponseSchema) != `{"type":"object"}` || i.ExpiresAt != "" || i.Metadata != nil {
		t.Errorf("a request for input is %+v", i)
	}
}

// If this fails, the permission card of a page lacks what the person has to see before deciding.
func TestShownArgs(t *testing.T) {
	t.Parallel()
	p := permission("p")
	p.Approval.Args, p.Approval.Risk, p.Approval.ArgsSHA256 = []byte(`{"a":1}`), "high", "ab"
	p.Approval.Options, p.Approval.ExpiresAt = []byte(`[{"id":"yes"}]`), time.Unix(0, 0)
	var card map[string]json.RawMessage
	if err := json.Unmarshal(shownArgs(p), &card); err != nil {
		t.Fatal(err)
	}
	for member, want := range map[string]string{
		"tool": `"cut"`, "title": `"Cut wood?"`, "args": `{"a":1}`, "risk": `"high"`, "args_sha256": `"ab"`, "options": `[{"id":"yes"}]`,
		"expires_at": `"1970-01-01T00:00:00Z"`,
	} {
		if got := string(card[member]); got != want {
			t.Errorf("the card's %s is %s, want %s", member, got, want)
		}
	}
	for args, want := range map[string]string{
		`{"a":1}`:         `{"a":1,"response_schema":{"type":"object"},"title":"Cut wood?"}`,
		`{"title":"Own"}`: `{"response_schema":{"type":"object"},"title":"Own"}`,
		`null`:            `{"response_schema":{"type":"object"},"title":"Cut wood?"}`,
		`[1]`:             `{"response_schema":{"type":"object"},"title":"Cut wood?"}`,
		``:                `{"response_schema":{"type":"object"},"title":"Cut wood?"}`,
	} {
		q := inputRequest("i")
		q.Approval.Args = []byte(args)
		if got := string(shownArgs(q)); got != want {
			t.Errorf("input with the arguments %s shows %s, want %s", args, got, want)
		}
	}
	c := clientTool("c")
	c.Call.Args = []byte(`{"any":"thing"}`)
	if got := string(shownArgs(c)); got != `{"any":"thing"}` {
		t.Errorf("a page's tool is called with %s", got)
	}
}

// If this fails, the chat shows a refused or failed call as done, or hides why it failed.
func TestCallResult(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		call store.ToolCall
		want string
	}{
		"succeeded":           {store.ToolCall{Status: store.ToolSucceeded, Result: []byte(`{"n":1}`)}, `{"n":1}`},
		"without a result":    {store.ToolCall{Status: store.ToolSucceeded}, `null`},
		"failed":              {store.ToolCall{Status: store.ToolFailed, Error: []byte(`{"code":"x","message":"no"}`)}, `{"status":"failed","error":{"code":"x","message":"no"}}`},
		"failed with a code":  {store.ToolCall{Status: store.ToolFailed, ErrorCode: "x"}, `{"status":"failed","error":{"code":"x"}}`},
		"too late":            {store.ToolCall{Status: store.ToolTimeout, ErrorCode: "tool_timeout"}, `{"status":"failed","error":{"code":"tool_timeout"}}`},
		"blocked":             {store.ToolCall{Status: store.ToolBlocked, ErrorCode: "policy"}, `{"status":"refused","error":{"code":"policy"}}`},
		"its Turn ends first": {store.ToolCall{Status: store.ToolRunning}, `{"status":"running"}`},
	} {
		if got := callResult(c.call, nil); got != c.want {
			t.Errorf("%s: the chat shows %s, want %s", name, got, c.want)
		}
	}
}

// If this fails, one large result makes every later join of its thread slow, or half a secret is left at the cut.
func TestALongResultIsCut(t *testing.T) {
	t.Parallel()
	const secret = "ghp_16C7e42F292c6912E7710c838347Ae178B4a"
	// The secret lies across the cut.
	long := `"` + strings.Repeat("x", shownResult-20) + " " + secret + strings.Repeat(" y", 1000) + `"`
	got := callResult(store.ToolCall{ID: "c", Status: store.ToolSucceeded, Result: []byte(long)}, redact.Forms())
	var cut struct {
		Cut          bool
		Bytes, Shown int
		Beginning    string
	}
	if err := json.Unmarshal([]byte(got), &cut); err != nil {
		t.Fatal(err)
	}
	if !cut.Cut || cut.Shown != len(cut.Beginning) || cut.Shown > shownResult || cut.Bytes <= shownResult {
		t.Errorf("shown is cut %v, %d bytes of %d", cut.Cut, cut.Shown, cut.Bytes)
	}
	if strings.Contains(cut.Beginning, "16C7e") {
		t.Errorf("the end of what is shown is %q", cut.Beginning[len(cut.Beginning)-40:])
	}
	short := `"` + strings.Repeat("x", shownResult-2) + `"`
	if got := callResult(store.ToolCall{Status: store.ToolSucceeded, Result: []byte(short)}, nil); got != short {
		t.Errorf("a result of the bound's size is cut to %d bytes", len(got))
	}
}

// If this fails, the transcript has another result than the person or the page gave.
func TestResultText(t *testing.T) {
	t.Parallel()
	text, object := clientTool("c"), clientTool("c")
	text.Call.Status, text.Call.Result = store.ToolSucceeded, []byte(`"it is \"blue\""`)
	object.Call.Status, object.Call.Result = store.ToolSucceeded, []byte(`{"color":"blue"}`)
	failed := clientTool("c")
	failed.Call.Status, failed.Call.ErrorCode = store.ToolFailed, "cancelled"
	settled := permission("p")
	settled.Call.Status, settled.Call.Result = store.ToolSucceeded, []byte(`{"status":"approved"}`)
	runs := serverTool("s", store.ToolSucceeded)
	runs.Call.Result = []byte(`[1,2]`)
	approved := serverTool("s", store.ToolDispatched)
	approved.Approval = store.Approval{ID: "s", Status: store.ApprovalApproved}
	over := approved
	over.Call.Status, over.Call.Result = store.ToolSucceeded, []byte(`[3]`)
	rejected := serverTool("s", store.ToolBlocked)
	rejected.Approval = store.Approval{ID: "s", Status: store.ApprovalExpired}
	for name, c := range map[string]struct {
		q    approval.Question
		want string
	}{
		"a page's text":             {text, `it is "blue"`},
		"a page's object":           {object, `{"color":"blue"}`},
		"a page's tool failed":      {failed, `{"status":"failed","error":{"code":"cancelled"}}`},
		"a permission":              {settled, `{"status":"approved"}`},
		"a tool that ran":           {runs, `[1,2]`},
		"an approved tool that ran": {over, `[3]`},
		"a tool that expired":       {rejected, `{"status":"expired"}`},
	} {
		if got := resultText(c.q, nil); got != c.want {
			t.Errorf("%s: the transcript has %s, want %s", name, got, c.want)
		}
	}
	if got := resultText(approved, nil); !strings.Contains(got, "approved") {
		t.Errorf("of an approved call whose Turn ends first the transcript has %s", got)
	}
}

// If this fails, an answer to a permission's card is taken for that of a tool that happens to have the same name.
func TestAToolCannotTakeThePermissionCardsName(t *testing.T) {
	t.Parallel()
	if got := shownTool(approval.PermissionTool); got == approval.PermissionTool {
		t.Errorf("a tool is shown as %q", got)
	}
	if got := shownTool("search"); got != "search" {
		t.Errorf("a tool is shown as %q", got)
	}
}

// If this fails, a call that an agent has executed here stands in the chat twice, or one of its own is missing there.
func TestShownCalls(t *testing.T) {
	t.Parallel()
	of := func(id string) []agui.Event {
		return []agui.Event{
			&agui.ToolCallStart{ToolCallID: id, ToolCallName: "f"}, &agui.ToolCallArgs{ToolCallID: id, Delta: "{}"},
			&agui.ToolCallEnd{ToolCallID: id}, &agui.ToolCallResult{ToolCallID: id, Content: agui.Text("1")},
		}
	}
	start := of("c")[0]
	row := store.ToolCall{ID: "c", RunID: "row", ArgsSHA256: "00"}
	for name, c := range map[string]struct {
		made func(s *shownCalls)
		id   string
		want string // which of start, arguments, end and result are left out
	}{
		"a call of the agent's own":                 {func(s *shownCalls) { s.note(start) }, "c", "...."},
		"nothing is known":                          {func(*shownCalls) {}, "c", "...."},
		"the agent showed it, and has it executed":  {func(s *shownCalls) { s.note(start); s.know(row) }, "c", "x..x"},
		"shown by us, known from its row":           {func(s *shownCalls) { s.know(row) }, "c", "xxxx"},
		"under the id that :invoke was answered by": {func(s *shownCalls) { s.know(row) }, ToolCallID("turn", "c"), "xxxx"},
		"its row has not been shown":                {func(s *shownCalls) { s.know(store.ToolCall{ID: "c", ArgsSHA256: "00"}) }, "c", "...."},
		"a question has no hash":                    {func(s *shownCalls) { s.know(store.ToolCall{ID: "c", RunID: "row"}) }, "c", "...."},
		"another call":                              {func(s *shownCalls) { s.know(row) }, "d", "...."},
	} {
		s := shownCalls{turnID: "turn"}
		c.made(&s)
		got := ""
		for _, ev := range of(c.id) {
			got += map[bool]string{true: "x", false: "."}[s.repeats(ev)]
		}
		if got != c.want {
			t.Errorf("%s: left out is %s, want %s", name, got, c.want)
		}
	}
	var s shownCalls
	if s.repeats(textDelta("c", "x")) {
		t.Error("a text is left out")
	}
	if s.has(store.ToolCall{ID: "c"}) || s.resulted("c") || !s.has(store.ToolCall{ID: "c", RunID: "row"}) {
		t.Error("what the log has is not known by the row's Run alone")
	}
	s.note(of("c")[3])
	if !s.has(store.ToolCall{ID: "c"}) || !s.resulted("c") {
		t.Error("a result that the log has is not known")
	}
	s.turnID = "turn"
	s.know(store.ToolCall{ID: "d", RunID: "row", ArgsSHA256: "00", InTranscript: true})
	s.know(store.ToolCall{ID: "e", RunID: "row", ArgsSHA256: "00"})
	if !s.resulted("d") || s.resulted("e") {
		t.Errorf("after a restart the results of d and e are known as %v, %v", s.resulted("d"), s.resulted("e"))
	}
}

// If this fails, a call is shown above the text that it follows, or twice, or its text goes on in a closed message.
func TestShowCallClosesTheText(t *testing.T) {
	t.Parallel()
	r := openRun(t)
	w := &runWriter{run: r, calls: shownCalls{turnID: "turn"}}
	r.calls = &w.calls
	emit(t, r, textStart("m"), textDelta("m", "a"))
	r.clearBatch()
	call := serverTool("c", store.ToolRunning).Call
	call.Args = []byte(`{ "q": 1 }`)
	for range 2 {
		if err := w.showCall(call); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.speech.each(textDelta("m", "b"), r.emitUpstream); err != nil {
		t.Fatal(err)
	}
	events := lines(t, r)
	if got, want := brief(events...), "TEXT_MESSAGE_END m\nTOOL_CALL_START c\nTOOL_CALL_ARGS c '{\"q\":1}'\nTOOL_CALL_END c\nTEXT_MESSAGE_START #1\nTEXT_MESSAGE_CONTENT #1 'b'"; got != want {
		t.Fatalf("the Run has\n%s\nwant\n%s", got, want)
	}
	if parent := events[1].(*agui.ToolCallStart).ParentMessageID; parent != "m" {
		t.Errorf("the call belongs to the message %q", parent)
	}
	for _, id := range []string{"c", ToolCallID("turn", "c")} {
		if !w.calls.repeats(&agui.ToolCallStart{ToolCallID: id}) || !w.calls.repeats(&agui.ToolCallResult{ToolCallID: id}) {
			t.Errorf("the agent's own frames of %q are shown too", id)
		}
	}
}

// If this fails, a result is shown twice, or without its call, or is looked at again for ever.
func TestResultsAreShownWithTheirCalls(t *testing.T) {
	t.Parallel()
	settled := func(q approval.Question) approval.Question {
		q.Call.Status, q.Call.Result = store.ToolSucceeded, []byte(`"ok"`)
		return q
	}
	in := func(q approval.Question, run string) approval.Question { q.Call.RunID = run; return q }
	for name, c := range map[string]struct {
		q     approval.Question
		want  string
		moves string
	}{
		"shown before":                {in(settled(permission("p")), "row"), "TOOL_CALL_RESULT p", "transcript"},
		"settled before it was shown": {settled(permission("p")), "TOOL_CALL_START p\nTOOL_CALL_ARGS p\nTOOL_CALL_END p\nTOOL_CALL_RESULT p", "transcript"},
		"executed without a question": {settled(serverTool("s", store.ToolSucceeded)), "TOOL_CALL_START s\nTOOL_CALL_ARGS s\nTOOL_CALL_END s\nTOOL_CALL_RESULT s", "shown transcript"},
	} {
		r := openRun(t)
		w := &runWriter{run: r, calls: shownCalls{turnID: "turn"}}
		r.calls = &w.calls
		c.q.Call.Args = []byte(`{}`)
		if err := w.results([]approval.Question{c.q}); err != nil {
			t.Fatal(err)
		}
		events := lines(t, r)
		got := strings.Split(brief(events...), "\n")
		for i := range got {
			got[i], _, _ = strings.Cut(got[i], " '")
		}
		if want := strings.Split(c.want, "\n"); !slices.Equal(got, want) {
			t.Errorf("%s: shown is %q, want %q", name, got, want)
		}
		var moves []string
		for _, m := range w.due {
			switch m := m.(type) {
			case store.ToolCallInTranscript:
				moves = append(moves, "transcript")
			case store.ToolCallShown:
				if m.RunID != "row" || !m.Anyway {
					t.Errorf("%s: shown by %+v", name, m)
				}
				moves = append(moves, "shown")
			}
		}
		if got := strings.Join(moves, " "); got != c.moves {
			t.Errorf("%s: the next commit has %q, want %q", name, got, c.moves)
		}
		n := r.n
		if err := w.results([]approval.Question{c.q}); err != nil || r.n != n {
			t.Errorf("%s: a second look shows %d more events, %v", name, r.n-n, err)
		}
	}
}
