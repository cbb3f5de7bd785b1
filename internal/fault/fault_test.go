package fault_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"testing"

	"aqueduct/internal/fault"
)

// TestCauseStaysInside checks that the cause is in the log's text and in the chain, and in nothing a client gets.
func TestCauseStaysInside(t *testing.T) {
	t.Parallel()
	err := fmt.Errorf("while reading: %w", &fault.Error{Code: "agent_gone", Message: "The agent has left.", Cause: io.ErrUnexpectedEOF})
	if fault.CodeOf(err) != "agent_gone" || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Fatalf("code %q of %v", fault.CodeOf(err), err)
	}
	if want := "while reading: agent_gone: The agent has left.: unexpected EOF"; err.Error() != want {
		t.Fatalf("got %q, want %q", err.Error(), want)
	}
	raw, _ := json.Marshal(errors.Unwrap(err))
	if want := `{"code":"agent_gone","message":"The agent has left."}`; string(raw) != want {
		t.Fatalf("got %s, want %s", raw, want)
	}
	if got := fault.CodeOf(io.EOF); got != "" {
		t.Fatalf("an error without a code has code %q", got)
	}
}
