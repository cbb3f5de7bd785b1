package llmproxy

import (
	"bytes"
	"io"
	"net/http"
	"strings"
)

// leastKey is the length of a text that is a key. Servers without keys are often given a word, as in "none": in an answer that is a
// word like any other.
const leastKey = 16

// withoutKey takes the operator's key out of an upstream's answer: some servers repeat the key that they refuse, and a debugging
// proxy repeats every header. Asterisks stand in its place, so that the length of the answer stays.
func withoutKey(resp *http.Response, key string) {
	for name, values := range resp.Header {
		for i := range values {
			values[i] = strings.ReplaceAll(values[i], key, strings.Repeat("*", len(key)))
		}
		resp.Header[name] = values
	}
	resp.Body = &keyless{ReadCloser: resp.Body, key: []byte(key), stars: bytes.Repeat([]byte{'*'}, len(key))}
}

// keyless is a body without a key. It holds back only what may be the beginning of the key, until the next read.
type keyless struct {
	io.ReadCloser
	key, stars []byte
	held       []byte // read, and not given yet
	ready      int    // how much of held may be given
	err        error  // of the body, behind held
}

// Read implements io.Reader.
func (k *keyless) Read(p []byte) (int, error) {
	for k.ready == 0 && k.err == nil {
		k.fill(len(p))
	}
	n := copy(p, k.held[:k.ready])
	k.held, k.ready = k.held[n:], k.ready-n
	if k.ready == 0 && k.err != nil {
		return n, k.err
	}
	return n, nil
}

// fill reads once.
func (k *keyless) fill(room int) {
	buf := make([]byte, max(room, len(k.key)))
	n, err := k.ReadCloser.Read(buf)
	k.err = err
	k.held = append(k.held, buf[:n]...)
	k.held = bytes.ReplaceAll(k.held, k.key, k.stars)
	k.ready = len(k.held)
	if err != nil {
		return
	}
	for most := min(len(k.key)-1, len(k.held)); most > 0; most-- {
		if bytes.HasSuffix(k.held, k.key[:most]) {
			k.ready -= most
			return
		}
	}
}
