package httpagent

import (
	"encoding/json"
	"testing"
)

// FuzzPlainText: the short way to read a delta agrees with encoding/json, or gives up.
func FuzzPlainText(f *testing.F) {
	for _, s := range []string{`{"text":"x"}`, `{"text":"a\"b\\c\nd"}`, `{"text":"\u0041"}`, `{"text":"x","y":1}`, `{"text":"世界"}`, `{"text":"\"}`, `{"text":""}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		text, ok := plainText(data)
		if !ok {
			return
		}
		var body struct{ Text *string }
		if err := json.Unmarshal(data, &body); err != nil || body.Text == nil || *body.Text != text {
			t.Fatalf("%q: %q, encoding/json has %v %v", data, text, body.Text, err)
		}
	})
}
