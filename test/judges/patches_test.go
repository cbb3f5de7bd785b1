package judges_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"aqueduct/agui"
	"aqueduct/test/nodetest"
)

// patched is a document, a patch, and what is made of it.
type patched struct {
	Doc   json.RawMessage `json:"doc"`
	Patch json.RawMessage `json:"patch"`

	ours, client, page outcome
}

// outcome is the document that a patch makes; an error for a patch that is refused.
type outcome struct {
	Doc   json.RawMessage `json:"doc"`
	Error string          `json:"error"`
}

func (o outcome) String() string {
	if o.Error != "" {
		return "refused: " + o.Error
	}
	return string(o.Doc)
}

// same reports whether two outcomes mean the same to a client in JavaScript.
func (o outcome) same(other outcome) bool {
	var a, b any
	if o.Error != "" || other.Error != "" {
		return o.Error != "" && other.Error != ""
	}
	return json.Unmarshal(o.Doc, &a) == nil && json.Unmarshal(other.Doc, &b) == nil && reflect.DeepEqual(a, b)
}

// applyAll has the server's package, the library of the official clients, and the page apply each patch.
func applyAll(t *testing.T, all []patched) {
	t.Helper()
	var lines bytes.Buffer
	encoder := json.NewEncoder(&lines)
	encoder.SetEscapeHTML(false)
	for i := range all {
		doc, err := agui.ApplyPatch(all[i].Doc, all[i].Patch)
		if all[i].ours.Doc = doc; err != nil {
			all[i].ours = outcome{Error: err.Error()}
		}
		if err := encoder.Encode(all[i]); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(t.TempDir(), "patches")
	if err := os.WriteFile(file, lines.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), nodetest.Patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "node", "lib/patches.mjs", file)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	results := json.NewDecoder(bytes.NewReader(out))
	for i := range all {
		var by struct{ Client, Page outcome }
		if err := results.Decode(&by); err != nil {
			t.Fatal(err)
		}
		all[i].client, all[i].page = by.Client, by.Page
	}
}

// TestPatchSuite: the public suite json-patch-tests passes whole, those that it has turned off too, but for what
// departs names.
func TestPatchSuite(t *testing.T) {
	t.Parallel()
	nodetest.Need(t, "node_modules/json-patch-test-suite/package.json", "make setup-judges")
	departs := map[string]string{
		"duplicate ops": "the file is JSON already, in which the second op has replaced the first",
	}
	type row struct {
		Comment  string
		Expected json.RawMessage
		Error    string
	}
	var rows []row
	var all []patched
	for _, name := range []string{"tests.json", "spec_tests.json"} {
		raw, err := os.ReadFile(filepath.Join("node_modules/json-patch-test-suite", name))
		if err != nil {
			t.Fatal(err)
		}
		var these []row
		var patches []patched
		if err := json.Unmarshal(raw, &these); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(raw, &patches); err != nil {
			t.Fatal(err)
		}
		rows, all = append(rows, these...), append(all, patches...)
	}
	if len(rows) < 90 {
		t.Fatalf("the suite has only %d cases", len(rows))
	}
	applyAll(t, all)
	for i, row := range rows {
		want := outcome{Doc: row.Expected, Error: row.Error}
		if row.Error == "" && row.Expected == nil { // it only has to apply
			want.Doc = all[i].Doc
		}
		if departs[row.Comment] != "" {
			continue
		}
		for who, got := range map[string]outcome{"the server": all[i].ours, "the page": all[i].page} {
			if !got.same(want) {
				t.Errorf("%q: %s makes of %s with %s: %s; want %s", row.Comment, who, all[i].Doc, all[i].Patch, got, want)
			}
		}
	}
}

// TestPatchesAgainstTheClients: what the server keeps is what the library of the official clients computes, and the page too.
// What the server refuses the page refuses, or the library does: only then may the library have a document, since it takes more
// than the RFC. AQUEDUCT_FUZZ_SEED repeats a seed, AQUEDUCT_PATCHES is the number of patches.
func TestPatchesAgainstTheClients(t *testing.T) {
	t.Parallel()
	nodetest.Need(t, "node_modules/fast-json-patch/package.json", "make setup-judges")
	seed := fuzzNumber(t, "AQUEDUCT_FUZZ_SEED", rand.Uint64N(1_000_000))
	t.Logf("AQUEDUCT_FUZZ_SEED=%d", seed)
	all := make([]patched, fuzzNumber(t, "AQUEDUCT_PATCHES", 1500))
	made := patchMaker{rand.New(rand.NewPCG(seed, 0))}
	for i := range all {
		all[i] = made.patch()
	}
	applyAll(t, all)
	applied, refused, beyond := 0, 0, 0
	for _, p := range all {
		switch {
		case p.ours.Error == "" && p.ours.same(p.client) && p.ours.same(p.page):
			applied++
		case p.ours.Error != "" && p.client.Error != "":
			refused++
		case p.ours.Error != "" && p.page.Error != "":
			beyond++
		default:
			t.Errorf("%s with %s:\nthe server  %s\nthe library %s\nthe page    %s", p.Doc, p.Patch, p.ours, p.client, p.page)
		}
	}
	t.Logf("%d applied by all, %d refused by all, %d taken by the library against the RFC", applied, refused, beyond)
	if applied < len(all)/2 || refused == 0 {
		t.Error("the patches are not what was to be compared")
	}
}

// patchMaker makes documents, and patches that mostly apply to them.
type patchMaker struct{ *rand.Rand }

// key is a name that some reader has taken for something else.
func (m patchMaker) key() string {
	keys := []string{"", "a", "b", "a/b", "m~n", "~1", "é", "001", "-1", "+49170", "0", "1", "-", "toString", "length", "constructor", "a b", "😀"}
	return keys[m.IntN(len(keys))]
}

func (m patchMaker) value(depth int) string {
	kind := m.IntN(8)
	if depth > 0 {
		kind = m.IntN(14)
	}
	switch {
	case kind >= 11:
		items := make([]string, m.IntN(5))
		for i := range items {
			items[i] = m.value(depth - 1)
		}
		return "[" + strings.Join(items, ",") + "]"
	case kind >= 8:
		seen, members := make(map[string]bool), []string(nil)
		for range m.IntN(6) {
			if key := m.key(); !seen[key] {
				seen[key] = true
				members = append(members, string(agui.AppendString(nil, key))+":"+m.value(depth-1))
			}
		}
		return "{" + strings.Join(members, ",") + "}"
	}
	plain := []string{"null", "true", "1", "1.0", "0.1e1", "-0", `""`, `"x\/y"`}
	return plain[kind]
}

// patch makes one operation after the other, on what those before have made. Few of them fail.
func (m patchMaker) patch() patched {
	doc := m.value(4)
	for doc[0] != '{' && doc[0] != '[' {
		doc = m.value(4)
	}
	p := patched{Doc: json.RawMessage(doc)}
	n := 1 + m.IntN(8)
	if m.IntN(20) == 0 {
		n = 65 + m.IntN(60) // more than an implementation may take one by one
	}
	var ops []string
	now := p.Doc
	for tries := 0; len(ops) < n && tries < 20*n; tries++ {
		op := m.operation(now)
		next, err := agui.ApplyPatch(now, json.RawMessage("["+op+"]"))
		if err == nil && len(next) < 4000 && (next[0] == '{' || next[0] == '[') {
			ops, now = append(ops, op), next
		} else if m.IntN(20*n) == 0 {
			ops = append(ops, op)
			break
		}
	}
	p.Patch = json.RawMessage("[" + strings.Join(ops, ",") + "]")
	return p
}

func (m patchMaker) operation(doc json.RawMessage) string {
	there := m.pointers(doc, "", nil)
	at := func() string {
		pointer := there[m.IntN(len(there))]
		if m.IntN(3) == 0 { // something new in it, or beside it
			pointer += "/" + agui.EscapePointer(m.key())
		}
		return string(agui.AppendString(nil, pointer))
	}
	switch path := at(); m.IntN(7) {
	case 0, 1:
		return fmt.Sprintf(`{"op":"add","path":%s,"value":%s}`, path, m.value(2))
	case 2:
		return fmt.Sprintf(`{"op":"replace","path":%s,"value":%s}`, path, m.value(2))
	case 3:
		return fmt.Sprintf(`{"op":"remove","path":%s}`, path)
	case 4:
		return fmt.Sprintf(`{"op":"move","from":%s,"path":%s}`, at(), path)
	case 5:
		return fmt.Sprintf(`{"op":"copy","from":%s,"path":%s}`, at(), path)
	default:
		return fmt.Sprintf(`{"op":"test","path":%s,"value":%s}`, path, m.respelled(doc, path))
	}
}

// respelled is what the document has at a pointer, in another order and with numbers written otherwise; where there is nothing,
// any value.
func (m patchMaker) respelled(doc json.RawMessage, path string) string {
	sub, err := agui.ApplyPatch(doc, json.RawMessage(`[{"op":"copy","from":`+path+`,"path":""}]`))
	var v any
	if err != nil || m.IntN(8) == 0 || json.Unmarshal(sub, &v) != nil {
		return m.value(2)
	}
	out, err := json.Marshal(v) // sorts members, and writes numbers its own way
	if err != nil {
		return m.value(2)
	}
	return string(out)
}

// pointers are those to all values of a document.
func (m patchMaker) pointers(doc json.RawMessage, at string, list []string) []string {
	list = append(list, at)
	switch doc[0] {
	case '{':
		_ = agui.EachMember(doc, func(key, val []byte) error {
			list = m.pointers(val, at+"/"+agui.EscapePointer(string(key)), list)
			return nil
		})
	case '[':
		i := 0
		_ = agui.EachElement(doc, func(val []byte) error {
			list = m.pointers(val, fmt.Sprintf("%s/%d", at, i), list)
			i++
			return nil
		})
	}
	return list
}
