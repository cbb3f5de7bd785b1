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
	"aqueduct/bridge/signed"
	"aqueduct/bridge/trace"
	"aqueduct/store"
)

// post calls a server tool. What it answers with 2xx is the result: JSON, or a text.
func (s *Service) post(ctx context.Context, tool store.Tool, call store.ToolCall, asked bool, span trace.Context) (json.RawMessage, *Error) {
	body, approval := bodyOf(call, asked)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, tool.Endpoint, bytes.NewReader(body))
	if err != nil {
		return nil, &Error{CodeUnreachable, "The tool's address is not one."}
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Idempotency-Key", call.ID)
	req.Header.Set("X-Run-Id", call.TurnID)
	if approval != "" {
		req.Header.Set(signed.HeaderApproval, approval)
	}
	signed.Set(req.Header, s.secretOf(tool), body, time.Now())
	span.SetHeaders(req.Header)
	resp, err := s.cfg.Client.Do(req)
	if err != nil {
		return nil, notReached(ctx, err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, s.cfg.Limits.ResultBytes+1))
	switch {
	case err != nil:
		return nil, notReached(ctx, err)
	case resp.StatusCode/100 != 2:
		return nil, &Error{CodeStatus, "The tool answered HTTP " + strconv.Itoa(resp.StatusCode) + "."}
	case int64(len(raw)) > s.cfg.Limits.ResultBytes:
		return nil, &Error{CodeResultTooLarge, "The tool's answer is larger than is taken."}
	}
	return resultOf(resp.Header.Get("Content-Type"), raw), nil
}

func notReached(ctx context.Context, err error) *Error {
	var no *outbound.Refused
	switch {
	case errors.As(err, &no):
		return &Error{CodeRefusedAddress, "The tool's address may not be called: " + outbound.Cause(err) + "."}
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return &Error{CodeTimeout, "The tool took too long."}
	}
	return &Error{CodeUnreachable, "The tool could not be reached."}
}

func resultOf(contentType string, raw []byte) json.RawMessage {
	kind, _, err := mime.ParseMediaType(contentType)
	isJSON := err == nil && (kind == "application/json" || strings.HasSuffix(kind, "+json"))
	var line bytes.Buffer
	switch {
	case len(bytes.TrimSpace(raw)) == 0:
		return json.RawMessage("null")
	case isJSON && json.Compact(&line, raw) == nil:
		return bytes.ToValidUTF8(line.Bytes(), []byte("\uFFFD")) // as the store keeps it
	}
	return mustJSON(strings.ToValidUTF8(string(raw), "\uFFFD"))
}

func newID() string { return uuid.Must(uuid.NewV7()).String() }
