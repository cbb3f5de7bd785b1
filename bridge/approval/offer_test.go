package approval_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"aqueduct/bridge/approval"
	"aqueduct/internal/costtest"
)

// TestOfferOf: what agents' schemas offer beside yes and no, in the spellings of frameworks; and what is a form.
func TestOfferOf(t *testing.T) {
	t.Parallel()
	object := func(members, required string) string {
		return `{"type":"object","properties":{` + members + `},"required":[` + required + `]}`
	}
	for schema, want := range map[string]string{
		``:                   "form",
		`{}`:                 "form",
		`broken`:             "form",
		`{"type":"string"}`:  "form",
		`{"type":"boolean"}`: " / / ",
		`{"anyOf":[{"type":"null"},{"type":"boolean"}]}`:                                                                  " / / ",
		`{"anyOf":[{"type":"string"},{}]}`:                                                                                "form",
		object(`"approved":{"type":"boolean"}`, `"approved"`):                                                             "approved/ / ",
		object(`"approved":{}`, ``):                                                                                       "approved/ / ",
		object(`"approved":{"type":"string"}`, ``):                                                                        "form",
		object(`"is_approved":{"type":["boolean","null"]}`, ``):                                                           "is_approved/ / ",
		object(`"accepted":{"type":"boolean"},"feedback":{"type":"string"}`, ``):                                          "accepted/ /feedback",
		object(`"approved":{},"editedArgs":{"type":"object"},"reason":{"type":"string"}`, ``):                             "approved/editedArgs/reason",
		object(`"approved":{},"edited_args":{"anyOf":[{"type":"object"},{"type":"null"}]}`, ``):                           "approved/edited_args/ ",
		object(`"approved":{},"modified-arguments":{}`, ``):                                                               "approved/modified-arguments/ ",
		object(`"approved":{},"editedArgs":{"type":"string"}`, ``):                                                        "approved/ / ",
		object(`"approved":{},"amount":{"type":"number"}`, `"approved","amount"`):                                         "form",
		object(`"approved":{},"amount":{"type":"number"}`, `"approved"`):                                                  "approved/ / ",
		`{"$ref":"#/$defs/A","$defs":{"A":` + object(`"approved":{"$ref":"#/$defs/B"}`, ``) + `,"B":{"type":"boolean"}}}`: "approved/ / ",
		`{"$ref":"#/$defs/A","$defs":{"A":{"$ref":"#/$defs/A"}}}`:                                                         "form",
		`{"oneOf":[{"type":"null"},` + object(`"approved":{"type":"boolean"}`, ``) + `]}`:                                 "approved/ / ",
		`{"oneOf":[` + object(`"approved":{"const":true},"editedArgs":{"type":"object"}`, `"approved"`) + `,` + object(`"approved":{"const":false},"reason":{"type":"string"}`, `"approved","reason"`) + `]}`: "approved/editedArgs/reason",
		`{"anyOf":[{"type":"boolean"},` + object(`"approved":{"type":"boolean"},"reason":{"type":"string"}`, ``) + `]}`:                                                                                       " / / ",
	} {
		got := "form"
		if o, ok := approval.OfferOf(json.RawMessage(schema)); ok {
			got = fmt.Sprintf("%s/%s/%s", space(o.Approved), space(o.Edited), space(o.Reason))
		}
		if got != want {
			t.Errorf("%s offers %q, want %q", schema, got, want)
		}
	}
}

func space(name string) string {
	if name == "" {
		return " "
	}
	return name
}

// TestOfferAnswers: an answer has the names of the schema, and what the schema requires.
func TestOfferAnswers(t *testing.T) {
	t.Parallel()
	schema := `{"properties":{"ok":{},"accepted":{"type":"boolean"},"edited_args":{"type":"object"},"note":{"type":"string"}},"required":["accepted","edited_args","note"]}`
	o, ok := approval.OfferOf(json.RawMessage(schema))
	if !ok {
		t.Fatal("it is a form")
	}
	for want, got := range map[string]json.RawMessage{
		`{"accepted":true,"edited_args":{"a":1},"note":""}`:   o.Answer(true, nil, json.RawMessage(`{"a":1}`), ""),
		`{"accepted":true,"edited_args":{"a":2},"note":"n"}`:  o.Answer(true, json.RawMessage(`{"a":2}`), json.RawMessage(`{"a":1}`), "n"),
		`{"accepted":false,"edited_args":{"a":1},"note":"n"}`: o.Answer(false, nil, json.RawMessage(`{"a":1}`), "n"),
	} {
		if string(got) != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// TestOfferOfADeepSchema: what an agent nests costs no more than reading it.
func TestOfferOfADeepSchema(t *testing.T) {
	costtest.Grows(t, "a nested schema", 1000, func(depth int) {
		_, _ = approval.OfferOf(json.RawMessage(strings.Repeat(`{"anyOf":[`, depth) + `{"x":"` + strings.Repeat("x", depth<<8) + `"}` + strings.Repeat(`]}`, depth)))
	})
	many := strings.TrimSuffix(strings.Repeat(`{"$ref":"#/$defs/A"},`, 1000), ",")
	if _, ok := approval.OfferOf(json.RawMessage(`{"$ref":"#/$defs/A","$defs":{"A":{"anyOf":[` + many + `]}}}`)); ok {
		t.Error("references to each other offer something")
	}
}
