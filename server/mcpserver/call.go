// This file makes a call and holds its request until it has ended. What makes it intricate is that a client may give
// up at any moment and call again: a call that was made and has not been answered is remembered (left.go), so that
// the same call made again goes on with the first.

package mcpserver

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"aqueduct/bridge/tools"
	"aqueduct/internal/fault"
	"aqueduct/internal/retry"
	"aqueduct/store"
)

// noticeEvery is how often a client is notified that its call is still held. It is less than the minute after which most
// clients, and things in between, give up a request that is silent.
const noticeEvery = 10 * time.Second

// call is the handler of tools/call for one HTTP request. A batch may have several calls, each on a goroutine of the
// library, so its members are not changed once it is made.
type call struct {
	from    caller
	left    *leftCalls
	adopter *adopter
	request context.Context // ends when the client leaves
	beat    func()          // keeps the stream alive where the client wants no progress
}

// handle implements mcp.ToolHandler. The call is held until it has ended: a person may take long, and the client is notified
// meanwhile. What the tool proxy refuses is a result too, because the client's model should read it. The library's context ends
// with the HTTP request in the revision of 2026 alone, so the request's own is looked at too.
func (h *call) handle(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(h.request, cancel)()
	args := req.Params.Arguments
	if len(args) == 0 {
		args = json.RawMessage("{}")
	}
	made, again, err := h.made(ctx, req, args)
	if err != nil {
		return refusedResult(err)
	}
	if made.Status == store.ToolWaitingApproval && h.from.isPerson() && canAsk(req) {
		if !again {
			return askFor(made, args), nil
		}
		if err := h.answered(ctx, req, made); err != nil {
			return refusedResult(h.unanswered(ctx, keyOf(h.from, req.Params.Name, args), made.ID, err))
		}
	}
	return h.hold(ctx, req, args, made)
}

// made is the call that a request makes; again is set where the request goes on with one that it was asked about. A client that
// left before its call ended and makes it once more gets that one.
func (h *call) made(ctx context.Context, req *mcp.CallToolRequest, args json.RawMessage) (made store.ToolCall, again bool, err error) {
	if state := req.Params.RequestState; state != "" {
		if made, err = h.goOn(ctx, req.Params.Name, args, state); err == nil || !errors.Is(err, store.ErrNotFound) {
			return made, true, err
		}
	}
	if err = h.adopter.adopt(ctx, h.from); err != nil {
		return made, false, err
	}
	// The order counts: a call that was left is looked for before a new one is made, and the new one is counted as
	// held before it is made, so that the same call at another connection waits for it (take).
	key := keyOf(h.from, req.Params.Name, args)
	if id := h.left.take(ctx, key); id != "" {
		if made, err = h.kept(ctx, id); err == nil || !errors.Is(err, store.ErrNotFound) {
			return made, false, h.unanswered(ctx, key, id, err)
		}
	}
	defer h.left.hold(key)()
	made, err = h.from.invoke(ctx, req.Params.Name, args)
	return made, false, h.leftBy(ctx, key, made.ID, err)
}

// keptTries and keptPause are how long a call is looked for that its client left before it was kept: a second in all,
// which is far more than a commit takes.
const keptTries, keptPause = 10, 100 * time.Millisecond

// kept is a call that its client left. It may be under way to the store still.
func (h *call) kept(ctx context.Context, id string) (made store.ToolCall, err error) {
	for range keptTries {
		if made, err = h.from.call(ctx, id); !errors.Is(err, store.ErrNotFound) {
			return made, err
		}
		if err := retry.Sleep(ctx, keptPause); err != nil {
			return made, err
		}
	}
	return made, err
}

// leftBy remembers a call whose client has left, and returns why it cannot be answered.
func (h *call) leftBy(ctx context.Context, key, id string, err error) error {
	if ctx.Err() == nil {
		return err
	}
	if id != "" {
		h.left.put(h.from.user(), key, id)
	}
	return ctx.Err()
}

// unanswered is leftBy, also for a client that is there and gets an error: the call goes on, and is the one that this client makes
// again.
func (h *call) unanswered(ctx context.Context, key, id string, err error) error {
	if ctx.Err() == nil && err == nil {
		return nil
	}
	h.left.put(h.from.user(), key, id) // once: a call that is there twice is given to two clients
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// awayPause is how long a held call is not looked at when the store is away. The client keeps waiting: what became of
// its call is not known yet.
const awayPause = time.Second

// hold waits for the end of a call, whether or not the store is there meanwhile. A client that leaves first may make the same
// call again, also one that left when the result was there: it has not got it.
func (h *call) hold(ctx context.Context, req *mcp.CallToolRequest, args json.RawMessage, made store.ToolCall) (*mcp.CallToolResult, error) {
	// Held from here on too: the call that goes on may be one that was taken over (made), which was not counted as
	// held.
	began, key := time.Now(), keyOf(h.from, req.Params.Name, args)
	defer h.left.hold(key)()
	var err error
	for err == nil && !made.Status.Terminal() {
		h.notify(ctx, req, made, time.Since(began))
		now, failed := h.from.wait(ctx, made.ID, noticeEvery)
		switch {
		case failed == nil:
			made = now
		case errors.Is(failed, store.ErrUnavailable):
			err = retry.Sleep(ctx, awayPause)
		default:
			err = failed
		}
	}
	if err = h.unanswered(ctx, key, made.ID, err); err != nil {
		return nil, err
	}
	return resultOf(made), nil
}

// notify reports that a call is held: as progress where the client asked for that.
func (h *call) notify(ctx context.Context, req *mcp.CallToolRequest, made store.ToolCall, since time.Duration) {
	token := req.Params.GetProgressToken()
	if token == nil {
		h.beat()
		return
	}
	text := made.Name + " is running."
	if made.Status == store.ToolWaitingApproval {
		text = made.Name + " waits for a decision."
	}
	if made.Status == store.ToolUnknown {
		text = "It is not known whether " + made.Name + " was carried out. A person is asked."
	}
	// A notification that cannot be sent is the client's leaving, which ends ctx.
	_ = req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: token, Progress: since.Seconds(), Message: text})
}

// keyOf is the same for calls that are the same.
func keyOf(from caller, name string, args json.RawMessage) string {
	sum := sumOf(args)
	return from.key() + "\x00" + name + "\x00" + string(sum[:])
}

// refusedResult is a call of which nothing was kept; what is no refusal of the tool proxy is an error of the protocol.
func refusedResult(err error) (*mcp.CallToolResult, error) {
	var refused *fault.Error
	switch {
	case errors.As(err, &refused):
		return failed(refused.Code, refused.Message), nil
	case errors.Is(err, tools.ErrTooManyQuestions):
		return failed("too_many_questions", "Too many calls wait for a decision."), nil
	}
	return nil, err
}
