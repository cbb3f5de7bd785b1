package demoagent_test

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"aqueduct/examples/demoagent"
)

type frame struct {
	name string
	data string
}

// invoke calls a fresh agent, so that nothing can be remembered from an earlier call.
func invoke(t *testing.T, o demoagent.Options, body string) []frame {
	t.Helper()
	return invokeCtx(t, t.Context(), o, body)
}

func invokeCtx(t *testing.T, ctx context.Context, o demoagent.Options, body string) []frame {
	t.Helper()
	req := httptest.NewRequestWithContext(ctx, http.MethodPost, "/invoke", strings.NewReader(body))
	rec := httptest.NewRecorder()
	demoagent.New(o).ServeHTTP(rec, req)
	if rec.Code != http.StatusOK {
		t.Fatalf("status %d: %s", rec.Code, rec.Body)
	}
	if got := rec.Header().Get("Content-Type"); got != "text/event-stream" {
		t.Fatalf("content type %q", got)
	}
	return parse(t, rec.Body.String())
}

// parse reads frames of exactly the two lines the protocol has.
func parse(t *testing.T, stream string) []frame {
	t.Helper()
	var frames []frame
	sc := bufio.NewScanner(strings.NewReader(stream))
	for sc.Scan() {
		name, ok := strings.CutPrefix(sc.Text(), "event: ")
		if !ok || !sc.Scan() {
			t.Fatalf("no event line: %q", sc.Text())
		}
		data, ok := strings.CutPrefix(sc.Text(), "data: ")
		if !ok || !json.Valid([]byte(data)) {
			t.Fatalf("no JSON in %q", sc.Text())
		}
		if !sc.Scan() || sc.Text() != "" {
			t.Fatalf("frame %s is not closed: %q", name, sc.Text())
		}
		frames = append(frames, frame{name, data})
	}
	return frames
}

func prompt(text string) string {
	return body(map[string]any{"input_message": user(text)})
}

func user(text string) map[string]any {
	return map[string]any{"role": "user", "content": text}
}

func body(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// answered is a second call: the same prompt, now with answers.
func answered(text string, answers ...map[string]any) string {
	return body(map[string]any{"input_message": user(text), "resume": answers})
}

func resolved(id string, payload any) map[string]any {
	return map[string]any{"id": id, "status": "resolved", "payload": payload}
}

func cancelled(id string) map[string]any {
	return map[string]any{"id": id, "status": "cancelled"}
}

// kinds is the frames' names, a run of equal ones once.
func kinds(frames []frame) string {
	var names []string
	for _, f := range frames {
		if len(names) == 0 || names[len(names)-1] != f.name {
			names = append(names, f.name)
		}
	}
	return strings.Join(names, " ")
}

// text is what the frames of a name say together.
func text(frames []frame, name string) string {
	var b strings.Builder
	for _, f := range frames {
		if f.name == name {
			b.WriteString(field[string](f, "text"))
		}
	}
	return b.String()
}

func named(frames []frame, name string) []frame {
	var out []frame
	for _, f := range frames {
		if f.name == name {
			out = append(out, f)
		}
	}
	return out
}

// field reads one member; the zero value when it is not there.
func field[T any](f frame, key string) T {
	var members map[string]json.RawMessage
	var v T
	if json.Unmarshal([]byte(f.data), &members) == nil {
		_ = json.Unmarshal(members[key], &v)
	}
	return v
}
