package mcpserver

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"aqueduct/internal/bubbletest"
	"aqueduct/store"
)

// shaky is a caller whose store fails now and then.
type shaky struct {
	caller
	invoked int
	fails   []error // of the next looks at the call
}

func (s *shaky) key() string                          { return "K" }
func (s *shaky) user() string                         { return "U" }
func (s *shaky) isPerson() bool                       { return false }
func (s *shaky) turn(context.Context) (string, error) { return "", nil }

func (s *shaky) invoke(context.Context, string, json.RawMessage) (store.ToolCall, error) {
	s.invoked++
	return store.ToolCall{ID: "C", Name: "t", Status: store.ToolRunning}, nil
}

func (s *shaky) call(context.Context, string) (store.ToolCall, error) {
	return store.ToolCall{ID: "C", Name: "t", Status: store.ToolSucceeded, Result: []byte(`"done"`)}, s.next()
}

func (s *shaky) wait(ctx context.Context, id string, _ time.Duration) (store.ToolCall, error) {
	return s.call(ctx, id)
}

func (s *shaky) next() (err error) {
	if len(s.fails) > 0 {
		err, s.fails = s.fails[0], s.fails[1:]
	}
	return err
}

// TestHoldWhileAway: a call that is under way is held while the store is away. One that cannot be answered for another reason is
// the same call when it is made again: it runs once.
func TestHoldWhileAway(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		from := &shaky{fails: []error{store.ErrUnavailable, store.ErrUnavailable}}
		left := &leftCalls{}
		handle := func() error {
			h := &call{from: from, left: left, adopter: &adopter{left: left, began: time.Now(), asked: make(map[string]*adoption)}, request: t.Context(), beat: func() {}}
			_, err := h.handle(t.Context(), &mcp.CallToolRequest{Params: &mcp.CallToolParamsRaw{Name: "t"}})
			return err
		}
		if err := handle(); err != nil || from.invoked != 1 {
			t.Errorf("while the store was away: %v, made %d times", err, from.invoked)
		}
		broken := errors.New("broken")
		from.fails = []error{broken, store.ErrUnavailable}
		for _, want := range []error{broken, store.ErrUnavailable, nil} {
			if err := handle(); !errors.Is(err, want) || from.invoked != 2 {
				t.Errorf("%v in place of %v, made %d times", err, want, from.invoked)
			}
		}
	})
}
