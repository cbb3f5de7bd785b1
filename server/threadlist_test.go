package server_test

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// listDoc is openapi.json, as far as these tests need it.
type listDoc struct {
	Paths map[string]map[string]struct {
		AnyQuery   bool                        `json:"x-any-query"`
		Parameters []struct{ Name, In string } `json:"parameters"`
		Responses  map[string]struct {
			Content map[string]json.RawMessage
		}
	}
}

// TestListsRefuseUnknownParameters: every route that openapi.json describes with GET and an answer in JSON refuses a
// parameter that it does not describe by a code and its name, and takes each that it does.
func TestListsRefuseUnknownParameters(t *testing.T) {
	t.Parallel()
	h := newEnvWith(t, saysN(1), plan{acp: true})
	var doc listDoc
	if err := json.Unmarshal([]byte(h.do("GET", "/openapi.json", "").body), &doc); err != nil {
		t.Fatal(err)
	}
	tried := 0
	for path, methods := range doc.Paths {
		get, ok := methods["get"]
		if _, answers := get.Responses["200"].Content["application/json"]; !ok || !answers || get.AnyQuery || !strings.HasPrefix(path, "/api/") && !strings.HasPrefix(path, "/v1/") {
			continue
		}
		tried++
		at := regexp.MustCompile(`{\w+}`).ReplaceAllString(path, "01900000-0000-7000-8000-000000000000")
		for _, unknown := range []string{"colour", "Limit", "limit[]", "after ", "ids"} {
			got := h.do("GET", at+"?"+strings.NewReplacer(" ", "%20", "[", "%5B", "]", "%5D").Replace(unknown)+"=1", "")
			if p := isProblem(t, got, 400); p["code"] != "unknown_member" || !strings.Contains(got.body, unknown) {
				t.Errorf("%s with %s: %v", path, unknown, p)
			}
		}
		for _, p := range get.Parameters {
			if p.In != "query" {
				continue
			}
			if got := h.do("GET", at+"?"+p.Name+"=1", ""); strings.Contains(got.body, "unknown_member") {
				t.Errorf("%s does not take %s: %s", path, p.Name, got.body)
			}
		}
	}
	if tried < 25 {
		t.Errorf("%d routes only", tried)
	}
	if got := h.do("GET", "/api/threads?colour=red", ""); !strings.Contains(got.body, `\"colour\": not known here. This route takes limit, after, archived, q.`) {
		t.Errorf("%s", got.body)
	}
}

// TestPatchThread: the title, the archive, or both; what it does not know changes nothing.
func TestPatchThread(t *testing.T) {
	t.Parallel()
	h := newEnv(t, saysN(1))
	h.chat("T", "R", "hi")
	for body, code := range map[string]string{
		`{"titel":"x"}`: "unknown_member", `{"title":"x","colour":"red"}`: "unknown_member", `{"archived":true,"pinned":true}`: "unknown_member", `{"state":{}}`: "unknown_member",
		`{"Title":"x"}`: "ambiguous_member", `{"title":"x","title":"y"}`: "invalid_body", `{}`: "invalid_body", `{"title":null}`: "invalid_body", `{"title":""}`: "invalid_body",
		`{"archived":"yes"}`: "invalid_body", `{"title":"` + strings.Repeat("x", 201) + `"}`: "invalid_body", `[]`: "invalid_body",
	} {
		if p := isProblem(t, h.do("PATCH", "/api/threads/T", body), 400); p["code"] != code {
			t.Errorf("%s: %v", body, p)
		}
	}
	if one := fields(t, h.do("GET", "/api/threads/T", "")); one["title"] != "hi" || one["archived"] != false {
		t.Errorf("%v", one)
	}
	if got := h.do("PATCH", "/api/threads/T", `{"titel":"x"}`); !strings.Contains(got.body, `\"titel\": not known here. This route takes archived, title.`) {
		t.Errorf("%s", got.body)
	}
	if one := fields(t, h.do("PATCH", "/api/threads/T", `{"title":"new","archived":true}`)); one["title"] != "new" || one["archived"] != true {
		t.Errorf("%v", one)
	}
	if one := fields(t, h.do("PATCH", "/api/threads/T", `{"archived":false}`)); one["title"] != "new" || one["archived"] != false {
		t.Errorf("%v", one)
	}
}

// threadsAt lists the ids of the threads at a query, over all pages, as one text.
func (h *env) threadsAt(query string) string {
	h.t.Helper()
	var all []string
	for after := ""; ; {
		var page struct {
			Threads []struct{ ID string }
			Next    string
		}
		got := h.do("GET", "/api/threads?"+query+"&after="+after, "")
		if err := json.Unmarshal([]byte(got.body), &page); err != nil || got.status != 200 {
			h.t.Fatal(got.status, got.body, err)
		}
		for _, one := range page.Threads {
			all = append(all, one.ID)
		}
		if after = page.Next; after == "" || len(all) > 1000 {
			return strings.Join(all, " ")
		}
	}
}

// TestArchivedThreads: the archive is a filter of the list and of the search, and is the owner's alone.
func TestArchivedThreads(t *testing.T) {
	t.Parallel()
	onBothDatabases(t, func(t *testing.T, db database) {
		t.Helper()
		h := newEnvWith(t, saysN(1), plan{open: db.open})
		for _, id := range []string{"A", "B", "C", "D", "E"} {
			h.chat(id, "R", "prompt of "+id)
		}
		for _, id := range []string{"B", "D"} {
			h.do("PATCH", "/api/threads/"+id, `{"archived":true}`)
		}
		for query, want := range map[string]string{
			"limit=2": "E D C B A", "limit=2&archived=true": "D B", "limit=1&archived=false": "E C A", "limit=2&q=prompt": "E D C B A",
			"q=prompt&archived=true": "D B", "limit=1&q=prompt&archived=false": "E C A", "q=nothing&archived=true": "",
		} {
			if got := h.threadsAt(query); got != want {
				t.Errorf("%s: %q, want %q", query, got, want)
			}
		}
		isProblem(t, h.do("GET", "/api/threads?archived=perhaps", ""), 400)
		h.do("PATCH", "/api/threads/D", `{"archived":false}`)
		h.chat("B", "R2", "more") // a message does not take it out
		if got := h.threadsAt("archived=true"); got != "B" {
			t.Errorf("%q", got)
		}
		if all := strings.Fields(h.threadsAt("limit=3")); !slices.Equal(all, []string{"B", "E", "D", "C", "A"}) {
			t.Errorf("%v", all)
		}
	})
}
