package llmproxy

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/labstack/echo/v4"

	"aqueduct/bridge"
	"aqueduct/bridge/modelcalls"
	"aqueduct/bridge/trace"
	"aqueduct/internal/fault"
	"aqueduct/server/decode"
	"aqueduct/server/problem"
	"aqueduct/server/route"
	"aqueduct/store"
)

// Config is what a Handler needs.
type Config struct {
	Upstreams Upstreams
	// Client is the way out to them.
	Client *http.Client
	// Calls keeps what is called.
	Calls *modelcalls.Service
	// Caller is the token of the agent that calls, and its user; what is wrong with it is refused there.
	Caller func(c echo.Context) (token string, who store.Principal, err error)
	In     *decode.Decoder
	// Draining ends when the server goes away; answers under way are cut then.
	Draining context.Context
}

// Handler is the model proxy's routes. It keeps nothing between requests.
type Handler struct{ cfg Config }

// New makes a Handler. It follows no redirect, which would send the key and the conversation to another server.
func New(cfg Config) *Handler {
	if cfg.Client != nil {
		client := *cfg.Client
		client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
		cfg.Client = &client
	}
	return &Handler{cfg}
}

// maxBody bounds a body: requests hold pictures as base64.
const maxBody = 64 << 20

// longestAnswer is how long an upstream may take for an answer that is no stream, or until a stream begins: models that
// think take minutes.
const longestAnswer = 15 * time.Minute

// longestQuestion is how long a call may wait for a person, where a budget is used up. The question expires before.
const longestQuestion = 7 * 24 * time.Hour

// Mount adds the routes. All of them are for agents, by a run or session token.
func (h *Handler) Mount(to *route.Routes) {
	for _, name := range []string{routeChat, routeEmbeddings, routeResponses} {
		to.Open(http.MethodPost, "/v1/"+name, func(c echo.Context) error { return shaped(h.call(c, name)) })
	}
	to.Open(http.MethodGet, "/v1/models", func(c echo.Context) error { return shaped(h.models(c)) })
}

// call passes one call on. The order of its steps is what keeps it cheap and honest:
//
//   - the token comes before the body, so that a caller without a good one makes the server hold nothing
//   - the body is read whole before the upstream is called, because another upstream may have to get it again
//   - the call is committed before it is passed on, and its end before the last bytes go out, also when the agent has left
//
// The upstream's call ends with ctx: when the agent's connection does, and when the server drains. net/http watches the
// connection only once the body has been read, which it has.
func (h *Handler) call(c echo.Context, name string) error {
	token, who, err := h.cfg.Caller(c)
	if err != nil {
		return err
	}
	body, err := h.cfg.In.BodyOf(c, who, maxBody)
	if err != nil {
		return err
	}
	r, err := read(name, body)
	if err != nil {
		return err
	}
	upstreams := h.cfg.Upstreams.of(r.model)
	if len(upstreams) == 0 {
		return unknownModel(problem.Truncate(r.model))
	}
	ctx, cancel := context.WithCancelCause(c.Request().Context())
	defer cancel(nil)
	defer context.AfterFunc(h.cfg.Draining, func() { cancel(errStopping) })()
	h.cfg.In.Awaits(c, longestQuestion)
	least := estimate(len(body))
	kept, span, err := h.cfg.Calls.Begin(ctx, token, modelcalls.Request{
		Route: name, Model: r.model, Stream: r.stream, Tokens: least, Cost: h.cfg.Upstreams.cost(r.model, least),
		Waits: func() error { return decode.ParkBody(c) },
	})
	if errors.Is(err, bridge.ErrRunToken) || errors.Is(err, modelcalls.ErrTurnEnded) { // the run has ended since the token was looked at
		err = problem.RefuseAgent()
	}
	if err != nil {
		return err
	}
	// Until the first byte nothing is written; from then on each write has a deadline of its own (relay).
	h.cfg.In.Awaits(c, longestAnswer)
	c.Response().Header().Set("X-Aqueduct-Request-Id", kept.ID)
	m := &meter{route: name, asked: len(body)}
	t, err := h.attempt(ctx, name, r, upstreams, callID{kept.ID, span})
	m.took = t.taken(ctx, err)
	var once sync.Once
	end := func(err error) { once.Do(func() { h.end(ctx, kept, t, m, err) }) }
	if err == nil {
		decode.ReleaseBody(c) // a stream is long, and the request may be a picture of megabytes
		err = relay(c, t.resp, m, r.usage, end)
		_ = t.resp.Body.Close()
	}
	end(err)
	if err != nil && c.Response().Committed {
		panic(http.ErrAbortHandler) // cut, as the upstream's answer was: a clean end would pass for a whole answer
	}
	return err
}

var errStopping = errors.New("llmproxy: the server is stopping")

// end keeps how a call ended. The cause of ctx is looked at before the error: a call that is cancelled fails in whatever
// step it happens to be, with that step's own error. An answer that arrived with an error status is a failure, though
// nothing failed here.
func (h *Handler) end(ctx context.Context, call store.ModelCall, t tried, m *meter, err error) {
	more := trace.ModelEnded{Attempts: t.failed, Currency: h.cfg.Upstreams.Currency}
	call.EndedAt, call.FirstTokenAt, call.Status = time.Now().Truncate(time.Millisecond), m.first, store.ModelDone
	if t.from != nil {
		call.Upstream = t.from.Name
	}
	if t.resp != nil {
		more.HTTPStatus = t.resp.StatusCode
	}
	switch {
	case errors.Is(context.Cause(ctx), errStopping):
		call.Status, call.Code = store.ModelCut, codeStopping
	case errors.Is(err, errLeft) || ctx.Err() != nil:
		call.Status, call.Code = store.ModelCut, codeLeft
	case err != nil:
		call.Status, call.Code = store.ModelFailed, cmp.Or(fault.CodeOf(err), codeTruncated)
	case t.resp.StatusCode >= http.StatusBadRequest:
		call.Status, call.Code = store.ModelFailed, codeStatus
	}
	call.Tokens = m.tokens()
	call.Cost = h.cfg.Upstreams.cost(call.Model, call.Tokens)
	h.cfg.Calls.End(ctx, call, more)
}

// openAIError is what clients of OpenAI's API look for in a refusal.
type openAIError struct {
	Message string  `json:"message"`
	Type    string  `json:"type"`
	Code    string  `json:"code"`
	Param   *string `json:"param"`
}

// shaped gives the refusal of a request the member error beside those of a problem. The error itself stays in the chain,
// for the log.
func shaped(err error) error {
	if err == nil {
		return nil
	}
	p := *problem.Of(err)
	kind := "invalid_request_error"
	if p.Status >= http.StatusInternalServerError {
		kind = "server_error"
	}
	p.Shaped = openAIError{Message: cmp.Or(p.Detail, p.Title), Type: kind, Code: p.Code}
	return fmt.Errorf("%w: %w", &p, err)
}

// listTime is how long the upstreams may take to list their models.
const listTime = 10 * time.Second

// model is an entry of the list. What upstreams know of it beside its name differs from one to the other.
type model struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Created int64  `json:"created"`
	OwnedBy string `json:"owned_by"`
}

// models lists what can be called: the models that the operator's file names, and those that upstreams list for its
// patterns. An upstream that does not answer is left out. The upstreams are asked each time: the list is for people and
// for SDKs that check a name at their start, and a cache would hide a model that an operator has just added.
func (h *Handler) models(c echo.Context) error {
	if _, _, err := h.cfg.Caller(c); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(c.Request().Context(), listTime)
	defer cancel()
	all := h.cfg.Upstreams.Upstreams
	lists := make([][]model, len(all))
	var wait sync.WaitGroup
	for i := range all {
		wait.Go(func() { lists[i] = h.listed(ctx, &all[i]) })
	}
	wait.Wait()
	known := make(map[string]bool)
	data := []model{}
	for _, m := range slices.Concat(lists...) {
		if !known[m.ID] {
			known[m.ID] = true
			data = append(data, m)
		}
	}
	return c.JSON(http.StatusOK, struct {
		Object string  `json:"object"`
		Data   []model `json:"data"`
	}{"list", data})
}

// listed are the models of one upstream that the operator's file lets through.
func (h *Handler) listed(ctx context.Context, up *Upstream) (list []model) {
	for _, name := range up.Models {
		if !slices.Contains([]byte(name), '*') {
			list = append(list, model{ID: name, Object: "model", OwnedBy: up.Name})
		}
	}
	resp, err := h.send(ctx, up, http.MethodGet, "models", nil, callID{})
	if err != nil {
		return list
	}
	defer resp.Body.Close()
	var page struct{ Data []model }
	if resp.StatusCode != http.StatusOK || json.NewDecoder(http.MaxBytesReader(nil, resp.Body, maxEvent)).Decode(&page) != nil {
		return list
	}
	for _, m := range page.Data {
		if slices.ContainsFunc(up.Models, func(pattern string) bool { return matches(pattern, m.ID) }) && !slices.Contains(up.Models, m.ID) {
			list = append(list, model{ID: m.ID, Object: "model", Created: m.Created, OwnedBy: cmp.Or(m.OwnedBy, up.Name)})
		}
	}
	return list
}
