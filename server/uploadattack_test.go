package server_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"aqueduct/agui"
	"aqueduct/bridge"
	"aqueduct/bridge/approval"
)

// TestS51UploadsAreForTheirMessages: an upload is readable by the agents that are called with the message that brings it, and no
// agent changes it: neither by the user's entries, nor by the thread's parts from another branch, nor by a call of another agent.
func TestS51UploadsAreForTheirMessages(t *testing.T) {
	t.Parallel()
	onBothDatabases(t, func(t *testing.T, db database) {
		blobs, _ := onDisk(t)
		a := newAtWork(t, plan{open: db.open, blobs: blobs})
		h := a.h
		handed := make(chan *agui.Source, 1)
		h.agents.Add("helper", &scripted{script: func(_ context.Context, say func(...bridge.Output), call bridge.Call, _ []approval.Delivery) {
			handed <- call.Messages[0].Content.Parts[0].Source
			says(say, "seen")
		}})
		data := picture(1, 5<<20) // the agent's call holds its URL
		u := h.uploads(data, "image/png")
		entry := "/v1/context/" + u.ID

		_, token, over := a.prompted("other", "R0")
		for name, c := range map[string]struct {
			method, path, body string
			status             int
		}{
			"reads":         {"GET", entry, "", 404},
			"reads the row": {"GET", entry + "?format=entry", "", 404},
			"reads a range": {"GET", entry, "", 404},
			"replaces":      {"PUT", entry, "forged", 404},
			"deletes":       {"DELETE", entry, "", 404},
			"lists":         {"GET", "/v1/context?owner_type=upload", "", 403},
			"uploads":       {"POST", "/v1/context?owner_type=upload", "forged", 400},
		} {
			if got := h.do(c.method, c.path, c.body, bytesOf("image/png", append(token, "Range", "bytes=0-9")...)...); got.status != c.status {
				t.Errorf("an agent %s an upload: %d %.99s", name, got.status, got.body)
			}
		}
		if keys, _ := h.listed("?owner_type=user", token...); len(keys) != 0 {
			t.Errorf("an agent lists %q", keys)
		}
		over()
		if got := h.do("PUT", entry, "forged", bytesOf("image/png")...); got.status != 403 || !strings.Contains(got.body, "context_owner_forbidden") {
			t.Errorf("its user replaces it: %d %s", got.status, got.body)
		}
		if keys, _ := h.listed("?owner_type=upload"); len(keys) != 1 || keys[0] != u.ID {
			t.Errorf("its user lists %q", keys)
		}

		_, _, over = a.prompted("T", "R1")
		over()
		before, _ := h.snapshotOf("T")
		answer := h.open(h.request("POST", "/api/agui/chat", withPart("T", "R2", fmt.Sprintf(`{"type":"image","source":{"type":"url","value":%q}}`, u.URL))))
		call := <-a.calls
		part := partsOf(call)[0].Source.Value
		if got := h.do("GET", part, "", bearerOf(call.RunToken)...); got.body != string(data) {
			t.Errorf("the agent of the message reads %d %.99s", got.status, got.body)
		}
		hands := func(token, run string) string {
			t.Helper()
			body := fmt.Sprintf(`{"run_id":%q,"input_message":{"role":"user","content":"look"},"messages":[{"role":"user","content":[{"type":"image","source":{"type":"url","value":%q}}]}]}`, run, part)
			if got := h.do("POST", "/v1/agents/"+invocation("helper"), body, bearerOf(token)...); got.status != http.StatusOK {
				t.Fatal(got.status, got.body)
			}
			got := (<-handed).Value
			if strings.HasPrefix(got, part[:strings.Index(part, "/parts/")]) {
				return "its own thread's"
			}
			return "a copy"
		}
		if got := hands(call.RunToken, call.TurnID); got != "a copy" {
			t.Errorf("the agent of the message hands on %s", got)
		}
		a.end <- struct{}{}
		answer.rest()

		// A branch without the message: its agent has the thread's id and the hash, and the message is not in its call.
		edited := strings.Replace(inputBody("T", "R3", "instead"), `"messages":[`, fmt.Sprintf(`"messages":[{"id":%q,"role":"user","content":"hi"},{"id":%q,"role":"assistant","content":"x"},`, before[0].ID, before[1].ID), 1)
		answer = h.open(h.request("POST", "/api/agui/chat", edited))
		call = <-a.calls
		if len(call.Messages) != 3 {
			t.Fatalf("the branch has %d messages", len(call.Messages))
		}
		if got := h.do("GET", part, "", bearerOf(call.RunToken)...); got.status != 404 {
			t.Errorf("the agent of a branch without the message reads: %d", got.status)
		}
		if got := hands(call.RunToken, call.TurnID); got != "its own thread's" {
			t.Errorf("the agent of a branch without the message hands on %s", got)
		}
		a.end <- struct{}{}
		answer.rest()
		if got := h.do("GET", part, ""); got.body != string(data) {
			t.Errorf("its user reads %d", got.status)
		}
	})
}
