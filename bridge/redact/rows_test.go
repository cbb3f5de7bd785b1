package redact

import (
	"fmt"
	"strings"
	"testing"

	"aqueduct/store"
)

// TestS31NamesAndCodes: names of tools, codes of errors and keys of the state are agents' words too.
func TestS31NamesAndCodes(t *testing.T) {
	const core = "Ab3dEf6hIj9kLm2nOp5qRs8t"
	secret := "x sk-proj-" + core
	for _, m := range []store.Move{
		store.TurnMove{ID: "t", ErrorCode: secret},
		store.RunMove{ID: "r", ErrorCode: secret},
		store.RunStateChanges{ID: "r", Changes: []byte(`{"` + secret + `":["","h"]}`)},
		store.InsertRun{Run: store.Run{ID: "r", ErrorCode: secret}},
		store.InsertApproval{Approval: store.Approval{ID: "a", Tool: secret}},
		store.InsertToolCall{ToolCall: store.ToolCall{ID: "c", Kind: store.KindQuestion, Name: secret}},
	} {
		r := &rows{filter: Forms()}
		if got := fmt.Sprintf("%s", r.move(m, func(string) string { return "" })); strings.Contains(got, core) {
			t.Errorf("%T keeps it: %s", m, got)
		}
	}
}
