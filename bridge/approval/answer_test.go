package approval_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"aqueduct/bridge/approval"
	"aqueduct/internal/fault"
	"aqueduct/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func readAnswer(ctx context.Context, q approval.Question, a approval.Answer) (approval.Decision, error) {
	return approval.OptionIDs{}.Read(ctx, q, a)
}

// pageOption is the id of an option on a page.
func pageOption(n int) string { return approval.OptionIDs{}.ID(questionID, n) }

const questionID = "0190c0de-0000-7000-8000-000000000001"

// permission is a Question whose labels say the opposite of what its options do, and
// whose ids say nothing.
func permission() approval.Question {
	return asked(`[{"id":"a","label":"Reject","kind":"allow_always"},{"id":"b","label":"No","kind":"allow_once"},
		{"id":"c","label":"Allow","kind":"reject_once"},{"id":"d","label":"yes","kind":"reject_always"}]`)
}

func asked(options string) approval.Question {
	return approval.Question{
		Call: store.ToolCall{ID: questionID, Kind: store.KindQuestion, Status: store.ToolWaitingApproval},
		Approval: store.Approval{ID: questionID, Kind: store.ApprovalPermission, Status: store.ApprovalPending,
			Options: []byte(options)},
	}
}

// text is a JSON string holding s, as tool messages and TDesign send their results.
func text(s string) string {
	raw, _ := json.Marshal(s)
	return string(raw)
}

// Every spelling of a permission's answer says the same, as JSON, as JSON in a string,
// and with blanks around it.
func TestPermissionSpellings(t *testing.T) {
	for said, want := range map[string]string{
		`{"optionId":"a"}`:                   "a",
		`{"option_id":"b"}`:                  "b",
		`{"choice":"c"}`:                     "c",
		`{"approved":true}`:                  "b", // once before always
		`{"approved":false}`:                 "c",
		`{"approved":true,"optionId":"a"}`:   "a",
		`{"approved":false,"option_id":"d"}`: "d",
		`{"optionId":"a","note":"unknown members are accepted"}`: "a",
		`{"optionId":"c","option_id":null,"approved":null}`:      "c",
		`{"outcome":{"outcome":"selected","optionId":"d"}}`:      "d",
		`{"outcome":{"outcome":"cancelled"}}`:                    "",
		`{"outcome":{"outcome":"cancelled","optionId":"a"}}`:     "",
		`{"optionId":"a","choice":"` + pageOption(0) + `"}`:      "a", // the same, said twice
		`"a"`:                                  "a",
		`{"optionId":"` + pageOption(2) + `"}`: "c",
		`{"choice":"` + pageOption(0) + `"}`:   "a",
		`"` + pageOption(1) + `"`:              "b",
		`{"outcome":{"outcome":"selected","optionId":"` + pageOption(3) + `"}}`: "d",
	} {
		for _, payload := range []string{said, text(said), text("\n " + said + " ")} {
			d, err := readAnswer(t.Context(), permission(), approval.Answer{QuestionID: questionID, Payload: []byte(payload)})
			if err != nil || d.Option.ID != want {
				t.Errorf("%s chooses %q, %v; want %q", payload, d.Option.ID, err, want)
			}
		}
	}
	d, err := readAnswer(t.Context(), permission(), approval.Answer{Payload: []byte(text("b"))}) // a tool message of one bare word
	if err != nil || d.Option.ID != "b" {
		t.Errorf("a bare word chooses %q, %v", d.Option.ID, err)
	}
}

// The kind decides what an option does, never its label or its id.
func TestOptionsByKind(t *testing.T) {
	for id, want := range map[string]struct {
		status   store.ApprovalStatus
		approved bool
		kind     string
		code     string
	}{
		"a": {store.ApprovalApproved, true, "allow_always", ""},
		"b": {store.ApprovalApproved, true, "allow_once", ""},
		"c": {store.ApprovalRejected, false, "reject_once", "rejected"},
		"d": {store.ApprovalRejected, false, "reject_always", "rejected"},
	} {
		d, err := readAnswer(t.Context(), permission(), approval.Answer{Payload: []byte(text(id)), Reason: "because"})
		if err != nil {
			t.Fatal(err)
		}
		var heard struct {
			OptionID string
			Approved bool
			Kind     string
		}
		if err := json.Unmarshal(d.Payload, &heard); err != nil {
			t.Fatal(err)
		}
		if d.Status != want.status || heard.OptionID != id || heard.Approved != want.approved || heard.Kind != want.kind ||
			d.ErrorCode != want.code || d.ResumeStatus() != "resolved" || d.Reason != "because" {
			t.Errorf("%s: %+v, the agent hears %s", id, d, d.Payload)
		}
		if !strings.Contains(string(d.Result), `"status":"`+strings.ToLower(string(want.status))+`"`) {
			t.Errorf("%s: the transcript says %s", id, d.Result)
		}
	}
	for options, cases := range map[string]map[string]string{
		`[{"id":"x","kind":"allow_always"},{"id":"y","kind":"reject_always"}]`: {`true`: "x", `false`: "y"},
		`[{"id":"x","kind":"allow_once"}]`:                                     {`true`: "x", `false`: "cancelled"},
		`[{"id":"y","kind":"reject_once"}]`:                                    {`true`: "unknown_option", `false`: "y"},
		`[]`:                                                                   {`true`: "unknown_option", `false`: "cancelled"},
		`broken`:                                                               {`true`: "unknown_option", `false`: "cancelled"},
	} {
		for approved, want := range cases {
			d, err := readAnswer(t.Context(), asked(options), approval.Answer{Payload: []byte(`{"approved":` + approved + `}`)})
			if got := d.Option.ID + codeOf(err) + cancelledOf(d); got != want {
				t.Errorf("approved %s of %s is %q, want %q", approved, options, got, want)
			}
		}
	}
}

func codeOf(err error) string {
	var u *fault.Error
	switch {
	case err == nil:
		return ""
	case errors.As(err, &u) && u.Message != "":
		return u.Code
	}
	return "not a *fault.Error: " + err.Error()
}

// What is not clear decides nothing, and says why.
func TestUnclear(t *testing.T) {
	for payload, want := range map[string]string{
		``:                                   "invalid_answer",
		`null`:                               "invalid_answer",
		`{}`:                                 "invalid_answer",
		`[]`:                                 "invalid_answer",
		`true`:                               "invalid_answer",
		`1`:                                  "invalid_answer",
		`""`:                                 "invalid_answer",
		`{"approved":"true"}`:                "invalid_answer",
		`{"approved":1}`:                     "invalid_answer",
		`{"approved":null}`:                  "invalid_answer",
		`{"optionId":7}`:                     "invalid_answer",
		`{"optionId":""}`:                    "invalid_answer",
		`{"outcome":"selected"}`:             "invalid_answer",
		`{"outcome":{"outcome":"selected"}}`: "invalid_answer",
		`{"approved":true,"optionId":"c"}`:   "invalid_answer", // contradicts itself
		`{"optionId":"c","choice":"b"}`:      "invalid_answer",
		`{"optionId":"c","outcome":{"outcome":"selected","optionId":"b"}}`: "invalid_answer",
		`{"approved":false,"optionId":"a"}`:                                "invalid_answer",
		`{"optionId":"z"}`:                                                 "unknown_option",
		`{"optionId":"allow_once"}`:                                        "unknown_option", // a kind is no id
		`{"optionId":"Allow"}`:                                             "unknown_option", // nor is a label
		`"A"`:                                                              "unknown_option",
		`"a "`:                                                             "unknown_option",
		text(`{"optionId":"a"`):                                            "unknown_option", // a string that only looks like JSON
		`"` + pageOption(4) + `"`:                                          "unknown_option",
		`"` + questionID + `:-1"`:                                          "unknown_option",
		`"` + questionID + `:"`:                                            "unknown_option",
		`"` + questionID + `:x"`:                                           "unknown_option",
		`"other-question:0"`:                                               "unknown_option",
		`":0"`:                                                             "unknown_option",
	} {
		d, err := readAnswer(t.Context(), permission(), approval.Answer{QuestionID: questionID, Payload: []byte(payload)})
		if got := codeOf(err); got != want || d.Status != "" {
			t.Errorf("%s: %q, %s; want %q", payload, got, d.Status, want)
		}
	}
}

// TestOptionIDs: an answer without a card is for the card of its option, where the server made the option's id.
func TestOptionIDs(t *testing.T) {
	ids := approval.OptionIDs{}
	good := ids.ID(questionID+".ask", 1)
	for payload, want := range map[string]string{
		`{"optionId":"` + good + `"}`:            questionID,
		text(`{"choice":"` + good + `"`):         "", // broken, and then it is one long word
		text(`{"choice":"` + good + `"}`):        questionID,
		`"` + good + `"`:                         questionID,
		`"` + questionID + `:1"`:                 "",
		`"` + questionID + `.ask:1"`:             "",
		`"` + good[:len(good)-1] + `"`:           "",
		`"` + good + `x"`:                        "",
		`"x` + good + `"`:                        "",
		`"` + questionID + `"`:                   "",
		`"` + ids.ID("", 0) + `"`:                "",
		`{"result":{"optionId":"` + good + `"}}`: "",
		`["` + good + `"]`:                       "",
		`{"optionId":"a"}`:                       "",
		`{"approved":true}`:                      "",
		`7`:                                      "",
	} {
		if got := ids.Complete(approval.Answer{Payload: []byte(payload)}); got.QuestionID != want || want != "" && got.CardID != questionID+".ask" {
			t.Errorf("%s: %+v", payload, got)
		}
		named := approval.Answer{QuestionID: "other", CardID: "other", Payload: []byte(payload)}
		if got := ids.Complete(named); got.QuestionID != "other" || got.CardID != "other" {
			t.Errorf("%s: %+v", payload, got)
		}
	}
}

func TestCancelledAnswer(t *testing.T) {
	for name, q := range map[string]approval.Question{"permission": permission(), "input": input(""), "client tool": clientTool()} {
		d, err := readAnswer(t.Context(), q, approval.Answer{Cancelled: true, Payload: []byte(`{"optionId":"a"}`)})
		if err != nil || d.Status != store.ApprovalCancelled || d.ResumeStatus() != "cancelled" || d.Payload != nil || string(d.Result) != `{"status":"cancelled"}` {
			t.Errorf("%s: %+v %v", name, d, err)
		}
	}
}

func input(schema string) approval.Question {
	q := asked("")
	q.Approval.Kind, q.Approval.Options, q.Approval.ResponseSchema = store.ApprovalInput, nil, []byte(schema)
	return q
}

// An input takes any value that fits its schema.
func TestInput(t *testing.T) {
	const schema = `{"type":"object","properties":{"choice":{"enum":["economy","comfort"]},"days":{"type":"integer","minimum":1}},"required":["choice"]}`
	for _, c := range []struct{ schema, payload, value, code string }{
		{"", `{"any":1}`, `{"any":1}`, ""},
		{"", `"words"`, `"words"`, ""},
		{"", `false`, `false`, ""},
		{"", `0`, `0`, ""},
		{"", text(`{"in":"a string"}`), `{"in":"a string"}`, ""},
		{"", ``, "", "invalid_answer"},
		{"", `null`, "", "invalid_answer"},
		{"", `"null"`, "", "invalid_answer"},
		{schema, `{"choice":"comfort","days":3}`, `{"choice":"comfort","days":3}`, ""},
		{schema, text(`{"choice":"economy"}`), `{"choice":"economy"}`, ""},
		{schema, `{"choice":"first class"}`, "", "invalid_answer"},
		{schema, `{"choice":"economy","days":0}`, "", "invalid_answer"},
		{schema, `{"days":1}`, "", "invalid_answer"},
		{schema, `"comfort"`, "", "invalid_answer"},
		{schema, `{broken`, "", "invalid_answer"},
		{`{"type":"string"}`, `"words"`, `"words"`, ""},
		{`{"type":"integer"}`, `12345678901234567890`, `12345678901234567890`, ""},
		{`{"type":"nonsense"}`, `1`, "", "schema_invalid"},
		{`broken`, `1`, "", "schema_invalid"},
		{`{"$ref":"http://127.0.0.1:1/fetched"}`, `1`, "", "schema_reference"}, // and nothing is fetched
	} {
		d, err := readAnswer(t.Context(), input(c.schema), approval.Answer{Payload: []byte(c.payload)})
		if codeOf(err) != c.code || string(d.Payload) != c.value || string(d.Result) != c.value {
			t.Errorf("%s to %s: %s, %v", c.payload, c.schema, d.Payload, err)
		}
		if err == nil && (d.Status != store.ApprovalApproved || d.ResumeStatus() != "resolved") {
			t.Errorf("%s: %s %s", c.payload, d.Status, d.ResumeStatus())
		}
	}
}

func clientTool() approval.Question {
	return approval.Question{Call: store.ToolCall{ID: questionID, Kind: store.KindClient, Status: store.ToolWaitingClient}}
}

func TestToolResult(t *testing.T) {
	for _, c := range []struct{ payload, failed, heard, result, code string }{
		{`"plain text"`, "", `{"content":"plain text"}`, `"plain text"`, ""},
		{`{"a":1}`, "", `{"content":"{\"a\":1}"}`, `{"a":1}`, ""},
		{`""`, "", `{"content":""}`, `""`, ""},
		{``, "no camera", `{"error":"no camera"}`, `{"error":"no camera"}`, "client_tool_failed"},
		{`"half"`, "no camera", `{"error":"no camera"}`, `{"error":"no camera"}`, "client_tool_failed"},
	} {
		d, err := readAnswer(t.Context(), clientTool(), approval.Answer{Payload: []byte(c.payload), Error: c.failed, MessageID: "m"})
		if err != nil || string(d.Payload) != c.heard || string(d.Result) != c.result || d.ErrorCode != c.code || !d.InTranscript {
			t.Errorf("%s: heard %s, result %s, %v", c.payload, d.Payload, d.Result, err)
		}
	}
	if _, err := readAnswer(t.Context(), clientTool(), approval.Answer{}); codeOf(err) != "invalid_answer" {
		t.Error("a tool result without content is taken")
	}
}

// TestExpired checks an expiry. It chooses no option, and is delivered as cancelled with its reason. The delivery also has the
// reject option, for an agent that has no word for an expiry. An expiry that an older version settled by that option is
// delivered in the same way.
func TestExpired(t *testing.T) {
	for _, c := range []struct {
		name   string
		q      approval.Question
		reject string
	}{
		{"reject once", permission(), `{"optionId":"c","approved":false,"kind":"reject_once"}`},
		{"only always", asked(`[{"id":"x","kind":"allow_once"},{"id":"y","kind":"reject_always"}]`), ""},
		{"no rejection", asked(`[{"id":"x","kind":"allow_once"}]`), ""},
		{"input", input(""), ""},
		{"client tool", clientTool(), ""},
	} {
		d := approval.Expired()
		if d.Status != store.ApprovalExpired || d.ErrorCode != "expired" || d.By != "system" || d.Via != approval.ViaExpiry ||
			d.Payload != nil || d.ResumeStatus() != "cancelled" || string(d.Result) != `{"status":"expired"}` {
			t.Errorf("%s: %+v, payload %s", c.name, d, d.Payload)
		}
		for _, decision := range []string{`{"status":"cancelled"}`, `{"status":"resolved","payload":{"optionId":"c","approved":false,"kind":"reject_once"}}`} {
			q := c.q
			q.Call.Status, q.Call.ErrorCode = store.ToolTimeout, d.ErrorCode
			if !q.ClientTool() {
				q.Approval.Status, q.Approval.DecidedVia, q.Approval.Decision = d.Status, d.Via, []byte(decision)
			}
			status, payload := approval.DeliveryOf(q)
			reason, reject := approval.ExpiryOf(q)
			if status != "cancelled" || payload != nil || reason != "expired" || string(reject) != c.reject {
				t.Errorf("%s, kept as %s, is delivered as %s %s %s, reject %s", c.name, decision, status, payload, reason, reject)
			}
		}
	}
	if d := approval.CancelledBy(""); d.Status != store.ApprovalCancelled || d.Via != approval.ViaCancel || d.ResumeStatus() != "cancelled" {
		t.Errorf("withdrawn: %+v", d)
	}
}

// A cancelled Turn's Questions are decided by the person who cancelled it, or by the system where no person did.
func TestCancelledBy(t *testing.T) {
	for user, by := range map[string]string{"ada": "ada", "": "system"} {
		if d := approval.CancelledBy(user); d.By != by || d.CancelledBy != user || d.Via != approval.ViaCancel || d.Status != store.ApprovalCancelled {
			t.Errorf("%q: %+v", user, d)
		}
	}
}

// cancelledOf says that a refusal is the Question's cancelling.
func cancelledOf(d approval.Decision) string {
	if d.Status == store.ApprovalCancelled {
		return "cancelled"
	}
	return ""
}

// The words for no cancel a Question that offers no way to reject; any other word leaves it open.
func TestPlainRefusals(t *testing.T) {
	t.Parallel()
	for payload, want := range map[string]string{
		`"deny"`: "cancelled", `"Reject"`: "cancelled", `{"optionId":"no"}`: "cancelled", `{"choice":"reject_once"}`: "cancelled",
		`{"approved":false,"optionId":"deny"}`: "cancelled", `"maybe"`: "unknown_option", `{"approved":true,"optionId":"deny"}`: "unknown_option",
		`{"approved":false,"optionId":"x"}`: "invalid_answer",
	} {
		d, err := readAnswer(t.Context(), asked(`[{"id":"x","kind":"allow_once"}]`), approval.Answer{Payload: []byte(payload)})
		if got := codeOf(err) + cancelledOf(d); got != want {
			t.Errorf("%s is %q, want %q", payload, got, want)
		}
	}
	d, err := readAnswer(t.Context(), asked(`[{"id":"x","kind":"allow_once"},{"id":"y","kind":"reject_once"}]`), approval.Answer{Payload: []byte(`"deny"`)})
	if codeOf(err) != "unknown_option" {
		t.Errorf("deny beside a reject option is %+v, %v", d, err)
	}
}

// An option without a kind gets the one that its id or name says; where they do not say it, a person picks it by name.
func TestKindsOfOptions(t *testing.T) {
	t.Parallel()
	for _, c := range [][4]string{
		{"allow_once", "x", "Reject", "allow_once"}, {"", "allow", "", "allow_once"}, {"", "1", "Yes", "allow_once"},
		{"", "always", "", "allow_always"}, {"odd", "2", "Allow for this session", "allow_always"}, {"", "proceed_always", "", "allow_always"},
		{"", "deny", "", "reject_once"}, {"", "3", "No, tell it what to do", "reject_once"}, {"", "4", "Never", "reject_always"},
		{"", "5", "Yes, and don't ask again", "unspecified"}, {"", "6", "Don't allow", "unspecified"}, {"", "7", "Blue", "unspecified"},
	} {
		if got := approval.KindOf(c[0], c[1], c[2]); got != c[3] {
			t.Errorf("%q %q %q is %s, want %s", c[0], c[1], c[2], got, c[3])
		}
	}
}
