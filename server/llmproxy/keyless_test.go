package llmproxy

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
)

// TestS24KeyInPieces: the operator's key does not pass, however an answer is cut; all else does, at its length.
func TestS24KeyInPieces(t *testing.T) {
	t.Parallel()
	const key = "sk-sk-of-the-operator"
	text := "sk-" + key + key[:12] + " and " + strings.Repeat(key, 3) + "\n\n" + key[:len(key)-1] + "sk-sk"
	want := strings.ReplaceAll(text, key, strings.Repeat("*", len(key)))
	for name, cut := range map[string]func(io.Reader) io.Reader{
		"whole": func(r io.Reader) io.Reader { return r }, "bytes": iotest.OneByteReader, "halves": iotest.HalfReader, "with its end": iotest.DataErrReader,
	} {
		for _, room := range []int{1, 7, 4096} {
			resp := &http.Response{Header: http.Header{"Openai-Debug": {"Bearer " + key}}, Body: io.NopCloser(cut(strings.NewReader(text)))}
			withoutKey(resp, key)
			var got strings.Builder
			_, err := io.CopyBuffer(struct{ io.Writer }{&got}, struct{ io.Reader }{resp.Body}, make([]byte, room))
			if err != nil || got.String() != want || strings.Contains(resp.Header.Get("Openai-Debug"), key) {
				t.Errorf("%s by %d: %q %v %v", name, room, got.String(), resp.Header, err)
			}
		}
	}
	// What ends an event is passed on at once: the next one may never come.
	r, w := io.Pipe()
	resp := &http.Response{Body: r}
	withoutKey(resp, key)
	go func() { _, _ = io.WriteString(w, "data: s\n\n") }()
	buf := make([]byte, 100)
	if n, err := resp.Body.Read(buf); string(buf[:n]) != "data: s\n\n" || err != nil {
		t.Errorf("%q %v", buf[:n], err)
	}
	_ = r.Close()
}
