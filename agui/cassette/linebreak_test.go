package cassette_test

import (
	"crypto/sha256"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"aqueduct/agui/cassette"
	"aqueduct/internal/fault"
)

// TestLineBreakInAnEvent: JSON may have one between its tokens, where it would end a line of the stream that plays the file.
func TestLineBreakInAnEvent(t *testing.T) {
	t.Parallel()
	const event = "{\"type\":\"RUN_ERROR\",\r\"message\":\"x\"}"
	sum := sha256.Sum256([]byte("1\t" + event + "\n"))
	file := fmt.Sprintf("{\"aqueduct_cassette\":1,\"threadId\":\"T\"}\n{\"seq\":1,\"atMs\":0,\"event\":%s}\n{\"events\":1,\"sha256\":\"%x\"}\n", event, sum)
	if _, err := cassette.Read(strings.NewReader(file)); fault.CodeOf(err) != cassette.Broken {
		t.Errorf("it is read: %v", err)
	}
	for _, end := range []string{"\r", "\n"} {
		w := cassette.NewWriter(io.Discard, cassette.Header{ThreadID: "T"})
		if err := w.Add(1, time.Now(), []byte(strings.Replace(event, "\r", end, 1))); fault.CodeOf(err) != cassette.Broken {
			t.Errorf("%q is written: %v", end, err)
		}
	}
}
