package answer

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"aqueduct/bridge/approval"
	"aqueduct/internal/fault"
	"aqueduct/store"
)

// If this fails, a tool that failed on a page counts as done for the agent, or its error is lost.
func TestToolResultAnswer(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]struct{ payload, err string }{
		`{"ok":true,"result":{"a":1}}`:                {`{"a":1}`, ""},
		`{"result":"x"}`:                              {`"x"`, ""},
		`{}`:                                          {`null`, ""},
		`{"ok":true,"result":null}`:                   {`null`, ""},
		`{"ok":false}`:                                {`null`, "the tool failed"},
		`{"ok":false,"error":"no such file"}`:         {`null`, "no such file"},
		`{"error":"no such file"}`:                    {`null`, "no such file"},
		`{"ok":false,"error":{"code":7}}`:             {`null`, `{"code":7}`},
		`{"ok":false,"error":null}`:                   {`null`, "the tool failed"},
		`{"ok":true,"error":null,"result":1}`:         {`1`, ""},
		`{"ok":false,"error":"","result":{"part":1}}`: {`{"part":1}`, "the tool failed"},
	} {
		var r ToolResult
		if err := json.Unmarshal([]byte(body), &r); err != nil {
			t.Fatal(err)
		}
		a := r.Answer("c")
		if a.QuestionID != "c" || string(a.Payload) != want.payload || a.Error != want.err {
			t.Errorf("%s answers %s with %s, error %q; want %s, %q", body, a.QuestionID, a.Payload, a.Error, want.payload, want.err)
		}
	}
}

// If this fails, a person changes the arguments of a call in one spelling, and the others run.
func TestEditedArgsInBothSpellings(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		`{}`:                                    ``,
		`{"edited_args":{"a":1}}`:               `{"a":1}`,
		`{"editedArgs":{"a":2}}`:                `{"a":2}`,
		`{"edited_args":null,"editedArgs":[2]}`: `[2]`,
		`{"edited_args":[1],"editedArgs":null}`: `[1]`,
	} {
		var d Decision
		if err := json.Unmarshal([]byte(body), &d); err != nil {
			t.Fatal(err)
		}
		words, err := d.Words()
		if err != nil || string(words.Edited) != want {
			t.Errorf("%s changes the arguments to %s, %v; want %s", body, words.Edited, err, want)
		}
	}
	both := Decision{EditedArgs: EditedArgs{Edited: json.RawMessage(`{"a":1}`), AsAGUI: json.RawMessage(`{"a":2}`)}}
	if words, err := both.Words(); fault.CodeOf(err) != approval.InvalidAnswer || words.Edited != nil {
		t.Errorf("both at once change the arguments to %s, %v", words.Edited, err)
	}
}

// If this fails, a decision reaches the engine with other words than the client sent.
func TestDecisionWords(t *testing.T) {
	t.Parallel()
	var d NamedDecision
	body := `{"approval_id":"a","decision":"approve","option_id":"o","approved":false,"payload":{"x":1},"reason":"why"}`
	if err := json.Unmarshal([]byte(body), &d); err != nil {
		t.Fatal(err)
	}
	words, err := d.Words()
	if err != nil || d.ApprovalID != "a" || words.Decision != "approve" || words.OptionID != "o" || words.Reason != "why" ||
		words.Approved == nil || *words.Approved || string(words.Payload) != `{"x":1}` || words.Edited != nil {
		t.Errorf("%s is read as %+v, %v", body, words, err)
	}
}

// If this fails, the inbox shows another state of a question than the database has, or times in the year 1.
func TestApprovalOf(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.FixedZone("", 3600))
	a := store.Approval{
		ID: "a", TurnID: "turn", Kind: store.ApprovalPermission, Status: store.ApprovalPending, Tool: "cut", ToolKind: "edit", Title: "May I?",
		Args: []byte(`{"path":"/tmp"}`), ArgsSHA256: "ab", Options: []byte(`[]`), Risk: "high", CreatedAt: at, FourEyes: true, MayEdit: true,
	}
	raw, err := json.Marshal(ApprovalOf(a, "T"))
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]json.RawMessage
	if err := json.Unmarshal(raw, &got); err != nil {
		t.Fatal(err)
	}
	for member, want := range map[string]string{
		"approval_id": `"a"`, "tool_call_id": `"a"`, "run_id": `"turn"`, "thread_id": `"T"`, "kind": `"` + string(store.ApprovalPermission) + `"`, "status": `"PENDING"`,
		"tool_name": `"cut"`, "tool_kind": `"edit"`, "title": `"May I?"`, "args": `{"path":"/tmp"}`, "args_sha256": `"ab"`, "risk": `"high"`,
		"created_at": `"2026-01-02T02:04:05Z"`, "four_eyes": "true", "may_edit": "true",
		"expires_at": "", "decided_at": "", "delegated_until": "", "decision": "", "decided_by": "",
	} {
		if string(got[member]) != want {
			t.Errorf("%s is %s, want %s", member, got[member], want)
		}
	}
	a.Status, a.DecidedAt, a.DecidedBy, a.DecidedVia, a.Decision = store.ApprovalApproved, at, "ann", "chat", []byte(`{"optionId":"yes"}`)
	raw, _ = json.Marshal(Settled{Approval: ApprovalOf(a, ""), Won: true})
	for _, want := range []string{`"decided_at":"2026-01-02T02:04:05Z"`, `"decided_by":"ann"`, `"decided_via":"chat"`, `"decision":{"optionId":"yes"}`, `"won":true`, `"repeated":false`} {
		if !strings.Contains(string(raw), want) {
			t.Errorf("a decided question is %s, without %s", raw, want)
		}
	}
	if strings.Contains(string(raw), "thread_id") {
		t.Errorf("a question of no thread is %s", raw)
	}
}

// If this fails, a page cannot see whether its result of a tool counted.
func TestToolCallOf(t *testing.T) {
	t.Parallel()
	call := store.ToolCall{ID: "c", TurnID: "turn", Name: "pick", Status: store.ToolFailed, ErrorCode: "x"}
	raw, _ := json.Marshal(ToolCallOf(approval.Settled{Question: approval.Question{Call: call}, Repeated: true}))
	const want = `{"tool_call_id":"c","run_id":"turn","tool_name":"pick","status":"FAILED","error_code":"x","won":false,"repeated":true}`
	if string(raw) != want {
		t.Errorf("the answer is %s, want %s", raw, want)
	}
}
