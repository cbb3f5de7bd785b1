// This file makes the requests of a call to this server's own API: the same routes, with the same errors, as for any
// other agent.

package assistant

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	"aqueduct/internal/fault"
)

// platform makes the requests of one call, with its run token. That token is good for this call alone: what an earlier call
// of the Turn may still do is refused.
type platform struct {
	client      *http.Client
	base, token string
}

// maxAnswer bounds an answer that is read whole: a tool's result is bounded by the server (--tool-result-bytes), and what
// is beyond a few megabytes no model takes.
const maxAnswer = 16 << 20

// open makes a request and returns the body of an answer with status 200; any other status is an error with the answer's own
// code.
func (p platform) open(ctx context.Context, method, path string, body any) (io.ReadCloser, error) {
	resp, err := p.get(ctx, method, path, body)
	if err != nil {
		return nil, err
	}
	return resp.Body, nil
}

// get is open with the answer's headers.
func (p platform) get(ctx context.Context, method, path string, body any) (*http.Response, error) {
	var content io.Reader
	if body != nil {
		raw, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		content = bytes.NewReader(raw)
	}
	req, err := http.NewRequestWithContext(ctx, method, p.base+path, content)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+p.token)
	req.Header.Set("Content-Type", "application/json")
	resp, err := p.client.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode == http.StatusOK {
		return resp, nil
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxProblem))
	if err != nil {
		return nil, err
	}
	return nil, problemOf(resp.StatusCode, raw)
}

// maxProblem bounds the body of an error.
const maxProblem = 64 << 10

// problemOf is the error of an answer: a problem of this server, or the error of a model's upstream in OpenAI's form.
func problemOf(status int, body []byte) *fault.Error {
	var p struct {
		Code   string
		Detail string
		Title  string
		Error  struct{ Message string }
	}
	_ = json.Unmarshal(body, &p) // what is neither has its status
	code := cmp.Or(p.Code, codeModel)
	message := cmp.Or(p.Detail, p.Title, p.Error.Message)
	if p.Code == "" && message != "" {
		message = fmt.Sprintf("The model's server answered HTTP %d: %s", status, message)
	}
	return fault.New(code, cmp.Or(message, fmt.Sprintf("The model's server answered HTTP %d.", status)))
}

// call makes a request and decodes the answer.
func (p platform) call(ctx context.Context, method, path string, body, answer any) error {
	content, err := p.open(ctx, method, path, body)
	if err != nil {
		return err
	}
	defer content.Close()
	return json.NewDecoder(io.LimitReader(content, maxAnswer)).Decode(answer)
}
