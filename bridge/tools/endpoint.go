package tools

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"aqueduct/bridge/outbound"
	"aqueduct/bridge/redact"
	"aqueduct/bridge/signed"
	"aqueduct/internal/fault"
	"aqueduct/store"
)

// endpoint is the Runtime of tools that are called over HTTP. Its client decides which addresses may be reached.
type endpoint struct {
	client      *http.Client
	registry    *registry // has the secrets
	resultBytes int64     // most that an answer may have
}

// Execute sends a call to its tool, signed if there is a secret. The body of a 2xx answer is the result: JSON, or a text.
// The call's own id is the Idempotency-Key, so that a tool which is asked twice (a person chose run_again) can
// recognize it. One byte more than the bound is read, which distinguishes an answer of just that size from one that is
// too large. Nothing of a failed answer's body reaches the agent: it may hold an internal page.
func (e endpoint) Execute(ctx context.Context, d Dispatch) (json.RawMessage, *fault.Error) {
	body, approval := bodyOf(d.Call, d.Asked)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, d.Tool.Endpoint, bytes.NewReader(body))
	if err != nil {
		return nil, fault.New(CodeUnreachable, "The tool's address is not one.")
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Idempotency-Key", d.Call.ID)
	req.Header.Set("X-Run-Id", d.Call.TurnID)
	if approval != "" {
		req.Header.Set(signed.HeaderApproval, approval)
	}
	signed.Set(req.Header, e.registry.secretOf(d.Tool), body, time.Now())
	d.Span.SetHeaders(req.Header)
	resp, err := e.client.Do(req)
	if err != nil {
		return nil, notReached(ctx, err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, e.resultBytes+1))
	switch {
	case err != nil:
		return nil, notReached(ctx, err)
	case resp.StatusCode/100 != 2:
		return nil, fault.New(CodeStatus, "The tool answered HTTP "+strconv.Itoa(resp.StatusCode)+".")
	case int64(len(raw)) > e.resultBytes:
		return nil, fault.New(CodeResultTooLarge, "The tool's answer is larger than is taken.")
	}
	return resultOf(resp.Header.Get("Content-Type"), raw), nil
}

// notReached is why no answer came, without the address: it may hold credentials, and the agent's words go to the
// chat.
func notReached(ctx context.Context, err error) *fault.Error {
	var no *outbound.Refused
	switch {
	case errors.As(err, &no):
		return fault.New(CodeRefusedAddress, "The tool's address may not be called: "+outbound.Cause(err)+".")
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return fault.New(CodeTimeout, "The tool took too long.")
	}
	return fault.New(CodeUnreachable, "The tool could not be reached.")
}

// resultOf is an answer's body as a call's result. JSON counts only where the tool declares it as JSON, so a text such
// as 12 stays a text; what claims to be JSON and is not is a text as well, and nothing at all is null.
func resultOf(contentType string, raw []byte) json.RawMessage {
	kind, _, err := mime.ParseMediaType(contentType)
	isJSON := err == nil && (kind == "application/json" || strings.HasSuffix(kind, "+json"))
	var line bytes.Buffer
	switch {
	case len(bytes.TrimSpace(raw)) == 0:
		return json.RawMessage("null")
	case isJSON && json.Compact(&line, raw) == nil:
		return bytes.ToValidUTF8(line.Bytes(), []byte("\uFFFD")) // the store keeps valid UTF-8 only
	}
	return mustJSON(strings.ToValidUTF8(string(raw), "\uFFFD"))
}

// newID makes an id of a row: a UUID of version 7, which sorts by its time.
func newID() string { return uuid.Must(uuid.NewV7()).String() }

// bodyOf is the request body of a call. The arguments are written as they are kept: encoding them again would escape <, >
// and &, and the bytes sent would hash differently from the bytes approved. approval is the id of the Approval that let
// the call through, which is the call's own; "" where no person was asked.
func bodyOf(call store.ToolCall, asked bool) (body []byte, approval string) {
	if asked {
		approval = call.ID
	}
	head := mustJSON(struct {
		ToolCallID string `json:"tool_call_id"`
		ToolName   string `json:"tool_name"`
		RunID      string `json:"run_id"`
		SessionID  string `json:"session_id"`
		ApprovalID string `json:"approval_id,omitempty"`
		ArgsSHA256 string `json:"args_sha256"`
	}{call.ID, call.Name, call.TurnID, call.SessionID, approval, plainHash(call.Args)})
	var out bytes.Buffer
	out.Write(head[:len(head)-1])
	out.WriteString(`,"args":`)
	out.Write(orNull(call.Args))
	out.WriteByte('}')
	return out.Bytes(), approval
}

// plainHash is a hash that the tool can compute as well, over exactly the bytes it is sent. The hash that an approval is
// bound to may be keyed.
func plainHash(sent []byte) string {
	return redact.Hasher{}.Sum(orNull(sent))
}

// orNull is raw, or the JSON null where there is none.
func orNull(raw []byte) json.RawMessage {
	if len(raw) == 0 {
		return json.RawMessage("null")
	}
	return raw
}
