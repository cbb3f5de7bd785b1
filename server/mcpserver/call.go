package mcpserver

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"aqueduct/bridge/tools"
	"aqueduct/internal/fault"
	"aqueduct/store"
)

// noticeEvery is how often a client is notified that its call is still held. It is less than the minute after which most
// clients, and things in between, give up a request that is silent.
const noticeEvery = 10 * time.Second

// call is the handler of tools/call.
type call struct {
	from caller
	left *leftCalls
	beat func() // keeps the stream alive where the client wants no progress
}

// handle implements mcp.ToolHandler. The call is held until it has ended: a person may take long, and the client is notified
// meanwhile. What the tool proxy refuses is a result too, because the client's model should read it.
func (h *call) handle(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
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
			return askFor(made), nil
		}
		if err := h.answered(ctx, req, made); err != nil {
			return refusedResult(err)
		}
	}
	return h.hold(ctx, req, args, made)
}

// made is the call that a request makes; again is set where the request goes on with one that it was asked about. A client that
// left before its call ended and makes it once more gets that one.
func (h *call) made(ctx context.Context, req *mcp.CallToolRequest, args json.RawMessage) (made store.ToolCall, again bool, err error) {
	if id := req.Params.RequestState; id != "" {
		if made, err = h.goOn(ctx, req.Params.Name, args, id); err == nil || !errors.Is(err, store.ErrNotFound) {
			return made, true, err
		}
	}
	key := h.keyOf(req.Params.Name, args)
	if id := h.left.take(key); id != "" {
		if made, err = h.from.call(ctx, id); err == nil {
			return made, false, nil
		}
	}
	made, err = h.from.invoke(ctx, req.Params.Name, args)
	if err != nil && ctx.Err() != nil && made.ID != "" {
		h.left.put(key, made.ID)
	}
	return made, false, err
}

// hold waits for the end of a call. A client that leaves first may make the same call again.
func (h *call) hold(ctx context.Context, req *mcp.CallToolRequest, args json.RawMessage, made store.ToolCall) (*mcp.CallToolResult, error) {
	began := time.Now()
	var err error
	for !made.Status.Terminal() {
		h.notify(ctx, req, made, time.Since(began))
		if made, err = h.from.wait(ctx, made.ID, noticeEvery); err != nil {
			h.left.put(h.keyOf(req.Params.Name, args), made.ID)
			return nil, err
		}
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

func (h *call) keyOf(name string, args json.RawMessage) string {
	sum := sha256.Sum256(args)
	return h.from.key() + "\x00" + name + "\x00" + string(sum[:])
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

const (
	// leftTime is how long a call that its client left can be gone on with by making it again.
	leftTime = time.Hour
	// leftMost bounds those that are remembered; the oldest is forgotten, and asked for anew.
	leftMost = 1000
)

// leftCalls are calls that ended later than their clients waited. Most clients give up after a minute and try again: they
// must neither run the tool twice nor ask the person twice. It is in memory alone: after a restart the call is made anew.
type leftCalls struct {
	mu    sync.Mutex
	byKey map[string]leftCall
}

type leftCall struct {
	id string
	at time.Time
}

func (l *leftCalls) put(key, id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.byKey == nil {
		l.byKey = make(map[string]leftCall)
	}
	if len(l.byKey) >= leftMost {
		oldest := ""
		for k, c := range l.byKey {
			if oldest == "" || c.at.Before(l.byKey[oldest].at) {
				oldest = k
			}
		}
		delete(l.byKey, oldest)
	}
	l.byKey[key] = leftCall{id, time.Now()}
}

// take gives a call up to one client: a second that makes the same call makes one of its own.
func (l *leftCalls) take(key string) (id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c, ok := l.byKey[key]
	delete(l.byKey, key)
	if !ok || time.Since(c.at) > leftTime {
		return ""
	}
	return c.id
}
