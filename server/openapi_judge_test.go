package server_test

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"mime"
	"net"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// described is openapi.json as a judge of what the tests of this package send and get: every request that the server takes
// and every response that it gives is compared with the operation that it belongs to, and TestMain fails where an operation
// was never driven.
type described struct {
	whole      any
	operations []*operation
	compiler   *jsonschema.Compiler

	mu      sync.Mutex
	schemas map[string]*jsonschema.Schema
	driven  map[string]bool // method, path and status; kinds of events and frames
}

// operation is one method of one path.
type operation struct {
	method, path string
	form         *regexp.Regexp
	Parameters   []struct{ Name, In string }
	RequestBody  *struct{}
	Responses    map[string]struct {
		Ref string `json:"$ref"`
	}
}

// The document is there twice for the schemas of bodies: what clients send may have more members than are listed, and what the
// server sends may not.
const (
	takenBy = "openapi.json"
	sentBy  = "closed.json"
)

// closed is a schema, or all of the document, in which objects have no members but those listed. Of schemas that are composed
// the whole is closed and not its parts.
func (d *described) closed(node any, part bool) any {
	switch node := node.(type) {
	case []any:
		out := make([]any, len(node))
		for i, one := range node {
			out[i] = d.closed(one, part)
		}
		return out
	case map[string]any:
		return d.closedObject(node, part)
	}
	return node
}

func (d *described) closedObject(node map[string]any, part bool) any {
	if ref, ok := node["$ref"].(string); ok && part {
		return d.closed(d.lookUp(ref), true)
	}
	out := make(map[string]any, len(node)+1)
	lists := false // members
	for name, value := range node {
		switch name {
		case "allOf", "anyOf", "oneOf":
			out[name] = d.closed(value, true)
			lists = lists || name != "oneOf"
		case "properties":
			members := make(map[string]any)
			for member, schema := range value.(map[string]any) {
				members[member] = d.closed(schema, false)
			}
			out[name], lists = members, true
		default:
			out[name] = d.closed(value, false)
		}
	}
	_, open := node["additionalProperties"]
	if lists && !open && !part {
		out["unevaluatedProperties"] = false
	}
	return out
}

// readDescribed reads the document.
func readDescribed() (*described, error) {
	raw, err := os.ReadFile("openapi.json")
	if err != nil {
		return nil, err
	}
	var doc struct {
		Paths map[string]map[string]*operation
	}
	if err := json.Unmarshal(raw, &doc); err != nil {
		return nil, err
	}
	d := &described{compiler: jsonschema.NewCompiler(), schemas: make(map[string]*jsonschema.Schema), driven: make(map[string]bool)}
	if d.whole, err = jsonschema.UnmarshalJSON(bytes.NewReader(raw)); err != nil {
		return nil, err
	}
	d.compiler.AssertFormat()
	for name, doc := range map[string]any{takenBy: d.whole, sentBy: d.closed(d.whole, false)} {
		if err := d.compiler.AddResource(name, doc); err != nil {
			return nil, err
		}
	}
	param := regexp.MustCompile(`\\\{\w+\\\}`)
	for path, methods := range doc.Paths {
		for method, o := range methods {
			o.method, o.path = strings.ToUpper(method), path
			o.form = regexp.MustCompile("^" + param.ReplaceAllString(regexp.QuoteMeta(path), "[^/]+") + "$")
			d.operations = append(d.operations, o)
		}
	}
	// The most particular first: /v1/agents/register before /v1/agents/{id}.
	slices.SortFunc(d.operations, func(a, b *operation) int {
		return cmp.Or(strings.Count(a.path, "{")-strings.Count(b.path, "{"), len(b.path)-len(a.path), strings.Compare(a.path, b.path))
	})
	return d, nil
}

// of is the operation that a request is for, nil where there is none.
func (d *described) of(r *http.Request) *operation {
	for _, o := range d.operations {
		if o.method == r.Method && o.form.MatchString(r.URL.EscapedPath()) {
			return o
		}
	}
	return nil
}

// judge compares an exchange with its operation. A request counts only where it was taken: what is refused may have any form.
func (d *described) judge(o *operation, r *http.Request, sent []byte, status int, header http.Header, got []byte) error {
	at := o.at("responses", strconv.Itoa(status))
	described, ok := o.Responses[strconv.Itoa(status)]
	if !ok {
		if described, ok = o.Responses["default"]; !ok || status < 400 {
			return fmt.Errorf("answers %d, which is not documented", status)
		}
		at = o.at("responses", "default")
	}
	if described.Ref != "" {
		at = described.Ref
	}
	d.drive(o.method + " " + o.path + " " + strconv.Itoa(status))
	if err := d.content(sentBy, at, header.Get("Content-Type"), got); err != nil {
		return fmt.Errorf("%d: %w", status, err)
	}
	if status >= 400 {
		return nil
	}
	for name := range r.URL.Query() {
		if slices.Contains(ignored, name) || name == "ticket" && o.method == http.MethodGet { // of components.securitySchemes
			continue
		}
		if !slices.ContainsFunc(o.Parameters, func(p struct{ Name, In string }) bool { return p.In == "query" && p.Name == name }) {
			return fmt.Errorf("takes ?%s=, which is not documented", name)
		}
	}
	if sent = withoutNulls(bytes.TrimSpace(sent)); len(sent) == 0 || o.path == "/api/approvals/decisions" { // each of whose items is refused by itself
		return nil
	}
	if o.RequestBody == nil {
		if string(sent) == "{}" {
			return nil // writes have a body, if an empty one
		}
		return fmt.Errorf("takes a body, which is not documented: %s", head(sent))
	}
	if err := d.content(takenBy, o.at("requestBody"), r.Header.Get("Content-Type"), sent); err != nil {
		return fmt.Errorf("takes: %w", err)
	}
	return nil
}

// drive notes that a test drove something.
func (d *described) drive(name string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.driven[name] = true
}

// ignored are names that tests put into queries to see that they are ignored.
var ignored = []string{"token", "access_token", "cursor", "option_id", "page", "1", "2", "3", "4"}

// withoutNulls is an object without the members that are null: clients write so what is absent, and it is taken so.
func withoutNulls(body []byte) []byte {
	var object map[string]json.RawMessage
	if !bytes.Contains(body, []byte("null")) || json.Unmarshal(body, &object) != nil {
		return body
	}
	maps.DeleteFunc(object, func(_ string, v json.RawMessage) bool { return string(v) == "null" })
	body, _ = json.Marshal(object) // it was read from JSON
	return body
}

// at is where something of an operation stands in the document.
func (o *operation) at(more ...string) string {
	escaped := make([]string, 0, len(more)+3)
	for _, name := range append([]string{"paths", o.path, strings.ToLower(o.method)}, more...) {
		escaped = append(escaped, escape(name))
	}
	return "#/" + strings.Join(escaped, "/")
}

// escape makes a name a step of a JSON Pointer in a URL's fragment.
func escape(name string) string {
	return strings.NewReplacer("~", "~0", "/", "~1", "{", "%7B", "}", "%7D").Replace(name)
}

// content compares a body with what one of the documents has at a place for its type.
func (d *described) content(doc, at, contentType string, body []byte) error {
	kind, _, err := mime.ParseMediaType(strings.Split(contentType, ",")[0])
	if len(body) == 0 && err != nil {
		return nil
	}
	documented, _ := d.lookUp(at + "/content").(map[string]any)
	name := kind
	if documented[name] == nil {
		name = "*/*"
	}
	media, ok := documented[name].(map[string]any)
	if !ok {
		return fmt.Errorf("%s is not documented, but %v", cmp.Or(kind, "nothing"), slices.Sorted(maps.Keys(documented)))
	}
	if !strings.HasSuffix(name, "json") || media["schema"] == nil {
		return nil
	}
	instance, err := jsonschema.UnmarshalJSON(bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("%w: %s", err, head(body))
	}
	if err := d.validate(doc+at+"/content/"+escape(name)+"/schema", instance); err != nil {
		return fmt.Errorf("%w\n%s", err, head(body))
	}
	return nil
}

// lookUp is what stands at a place of the document, nil where nothing does.
func (d *described) lookUp(at string) any {
	here := d.whole
	for _, name := range strings.Split(strings.TrimPrefix(at, "#/"), "/") {
		object, _ := here.(map[string]any)
		here = object[strings.NewReplacer("~1", "/", "~0", "~", "%7B", "{", "%7D", "}").Replace(name)]
	}
	return here
}

func head(b []byte) []byte { return b[:min(len(b), 600)] }

// judgedBytes bounds what is kept of a body to compare it; the tests of large ones compare them otherwise.
const judgedBytes = 1 << 20

// judged serves with a handler and reports what does not fit the document to the test.
func judged(t testing.TB, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		doc, err := document()
		if err != nil {
			t.Error(err)
		}
		o := doc.of(r)
		if o == nil {
			next.ServeHTTP(w, r)
			return
		}
		sent := &kept{}
		if r.Body != nil {
			r.Body = struct {
				io.Reader
				io.Closer
			}{io.TeeReader(r.Body, sent), r.Body}
		}
		got := &recorded{ResponseWriter: w, stream: doc.ofStream(o), talk: doc.talkOf(o)}
		method, target := r.Method, r.URL.String()
		next.ServeHTTP(got, r)
		for _, err := range append(got.stream.wrong(), got.talk.wrong()...) {
			t.Errorf("openapi.json: %s %s: %v", method, target, err)
		}
		left := got.status == 0 && r.Context().Err() != nil // the client did, before it was answered
		if sent.cut || got.body.cut || left {
			return
		}
		status := cmp.Or(got.status, http.StatusOK)
		if got.hijacked {
			status = http.StatusSwitchingProtocols
		}
		if err := doc.judge(o, r, sent.Bytes(), status, w.Header(), got.body.Bytes()); err != nil {
			t.Errorf("openapi.json: %s %s: %v", method, target, err)
		}
	})
}

// kept is the beginning of a body.
type kept struct {
	bytes.Buffer
	cut bool
}

// Write implements io.Writer.
func (k *kept) Write(b []byte) (int, error) {
	if k.Len()+len(b) > judgedBytes {
		k.cut = true
		return len(b), nil
	}
	return k.Buffer.Write(b)
}

// recorded is a response, written and kept.
type recorded struct {
	http.ResponseWriter
	status   int
	hijacked bool
	body     kept
	stream   *streamJudge // nil where the operation has no events of ours
	talk     *wsTalk      // of a WebSocket
}

// WriteHeader implements http.ResponseWriter.
func (w *recorded) WriteHeader(status int) {
	if w.status == 0 && status >= 200 {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (w *recorded) Write(b []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	if strings.HasPrefix(w.Header().Get("Content-Type"), "text/event-stream") {
		w.stream.read(b)
	} else {
		_, _ = w.body.Write(b)
	}
	return w.ResponseWriter.Write(b)
}

// Unwrap is for http.ResponseController.
func (w *recorded) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// FlushError is for http.ResponseController.
func (w *recorded) FlushError() error { return http.NewResponseController(w.ResponseWriter).Flush() }

// Hijack implements http.Hijacker.
func (w *recorded) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	w.hijacked = true
	conn, rw, err := http.NewResponseController(w.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	conn, rw = w.talk.listen(conn, rw)
	return conn, rw, nil
}

// document is read once for all tests.
var document = sync.OnceValues(readDescribed)

// undriven are the operations for which no test got a response that is no error, and the statuses documented that none got.
func (d *described) undriven() (out []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, o := range d.operations {
		name := o.method + " " + o.path
		fine := false
		for status := range o.Responses {
			driven := d.driven[name+" "+status]
			fine = fine || driven && status < "400"
			if !driven && status != "default" {
				out = append(out, name+" "+status)
			}
		}
		if !fine {
			out = append(out, name)
		}
	}
	out = slices.Concat(out, d.undrivenEvents(), d.undrivenFrames())
	slices.Sort(out)
	return out
}

// driving runs the tests, and fails where all of them together left an operation of openapi.json out, or sent a statement
// that goes through too many rows.
type driving struct{ *testing.M }

// Run implements the interface of goleak.
func (m driving) Run() int {
	code := m.M.Run()
	for _, name := range []string{"test.run", "test.skip", "test.list", "test.bench", "test.fuzz"} {
		if f := flag.Lookup(name); f != nil && f.Value.String() != "" {
			return code
		}
	}
	doc, err := document()
	if err != nil || code != 0 {
		fmt.Fprintln(os.Stderr, err)
		return max(code, 1)
	}
	if left := doc.undriven(); len(left) > 0 {
		fmt.Fprintf(os.Stderr, "FAIL: no test drives these operations, events and frames of openapi.json:\n%s\n", strings.Join(left, "\n"))
		return 1
	}
	if walks() {
		return 1
	}
	return code
}
