package acpgateway

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"

	"aqueduct/acpgateway/translate"
	"aqueduct/bridge/redact"
)

// TestS31MarksHoldNoSecret: what a translator has open is kept with every commit, and no secret with it.
func TestS31MarksHoldNoSecret(t *testing.T) {
	t.Parallel()
	filter, err := redact.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	for title, kept := range map[string]bool{"run the tests": true, "curl -H 'Authorization: Bearer sk-proj-Ab3dEf6hIj9kLm2nOp5qRs8t'": false, "ghp_16C7e42F292c6912E7710c838347Ae178B4a": false} {
		tr := translate.New(translate.Config{})
		update, err := json.Marshal(map[string]string{"sessionUpdate": "tool_call", "toolCallId": "c1", "title": title, "kind": "execute", "status": "in_progress"})
		if err != nil {
			t.Fatal(err)
		}
		tr.Update(nil, update)
		m := mark{epoch: "e", seq: 1}.opened("turn", tr, filter)
		raw, _ := base64.RawURLEncoding.DecodeString(m.open)
		if (m.open != markLost) != kept || m.open == "" || kept && !strings.Contains(string(raw), title) || !kept && strings.Contains(string(raw), title) {
			t.Errorf("%q: %q", title, raw)
		}
	}
}
