package llmproxy

import (
	"strings"
	"testing"
)

// If this fails, an upstream runs another model than the one that was allowed and is paid for: decoders differ in which of two
// members counts. What is not read here passes as it came.
func TestS24OneModel(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		`{"model":"m", "n": 1,"n":2}`:                    `{"model":"m", "n": 1,"n":2}`,
		`{"model":"other","a":{"model":1} ,"model":"m"}`: `{"a":{"model":1},"model":"m"}`,
		`{"model":"m","Model":"other"}`:                  `{"model":"m"}`,
		`{"MODEL":"other","model":"m","b":"<"}`:          `{"model":"m","b":"<"}`,
		`{"model":"m","stream":true,"Stream":false}`:     `{"model":"m","stream":true,"stream_options":{"include_usage":true}}`,
		`{"model":"m","stream":true,"stream_options":{"include_usage":false},"\u017ftream_options":{"include_usage":false},"x":1}`: `{"model":"m","stream":true,"stream_options":{"include_usage":true},"x":1}`,
		`{"model":"m","background":false,"Background":true}`:                                                                       `{"model":"m","background":false}`,
	} {
		r, err := read(routeChat, []byte(body))
		if err != nil || string(r.body) != want || r.model != "m" {
			t.Errorf("%s goes on as %s, of model %q, %v", body, r.body, r.model, err)
		}
	}
	for _, body := range []string{`{"Model":"m"}`, `{"model":"m","background":true}`, `{"model":"m","background":false,"background":true}`} {
		if r, err := read(routeResponses, []byte(body)); err == nil {
			t.Errorf("%s goes on as %s", body, r.body)
		}
	}
}

// If this fails, what is no name is kept with a call, in its trace and in refusals, or a database refuses it.
func TestS24NoName(t *testing.T) {
	t.Parallel()
	for _, model := range []string{"", "a\\u0000b", "a\\nb", strings.Repeat("m", 129)} {
		if r, err := read(routeChat, []byte(`{"model":"`+model+`"}`)); err == nil {
			t.Errorf("a model of %d bytes goes on: %q", len(r.model), r.model)
		}
	}
	for _, model := range []string{"gpt-5-mini", "ft:gpt-4o:acme::1", "Qwen/Qwen3 8B", "llama3.2:latest"} {
		if _, err := read(routeChat, []byte(`{"model":"`+model+`"}`)); err != nil {
			t.Errorf("%s: %v", model, err)
		}
	}
}
