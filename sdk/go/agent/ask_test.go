package agent

import (
	"encoding/json"
	"testing"
)

// TestAnswerValue: what a client tool gave is text in the answer. It is decoded for who wants more than text.
func TestAnswerValue(t *testing.T) {
	t.Parallel()
	type place struct{ City string }
	for _, c := range []struct {
		payload string
		city    string // "" where it is none
		text    string // "" where it is none
	}{
		{`{"content":"{\"city\":\"Turin\"}"}`, "Turin", `{"city":"Turin"}`},
		{`{"content":"Turin"}`, "", "Turin"},
		{`{"content":[{"type":"text","text":"Turin"}]}`, "", ""},
		{`{"city":"Turin"}`, "Turin", ""}, // a person's form
		{`"Turin"`, "", "Turin"},
		{`{"city":"Turin","content":"x"}`, "Turin", ""},
	} {
		a := Answer{Status: "resolved", Payload: json.RawMessage(c.payload)}
		var got place
		if err := a.Value(&got); got.City != c.city || (err == nil) != (c.city != "") {
			t.Errorf("%s: place %+v, %v", c.payload, got, err)
		}
		var text string
		if err := a.Value(&text); text != c.text || (err == nil) != (c.text != "") {
			t.Errorf("%s: text %q, %v", c.payload, text, err)
		}
	}
}
