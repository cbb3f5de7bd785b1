package httpagent

import (
	"encoding/json"

	"aqueduct/agui"
	"aqueduct/bridge"
)

func (t *translator) ask(dst []bridge.Output, data []byte) ([]bridge.Output, error) {
	var body struct {
		ID, Kind, Title, Tool, Name, Risk string
		Args                              json.RawMessage
		Options                           []bridge.Option
		ResponseSchema                    json.RawMessage `json:"response_schema"`
		ExpiresIn                         float64         `json:"expires_in"`
	}
	if err := decode(frameAsk, data, &body); err != nil {
		return dst, err
	}
	if body.ID == "" {
		return dst, missing(frameAsk, "id")
	}
	q := &bridge.Question{
		UpstreamID: body.ID, Kind: bridge.QuestionKind(body.Kind), ToolName: body.Name, Tool: body.Tool,
		Title: body.Title, Args: notNull(body.Args), Options: body.Options, ResponseSchema: notNull(body.ResponseSchema),
		Risk: body.Risk, ExpiresIn: seconds(body.ExpiresIn),
	}
	if q.Kind != bridge.AskPermission && q.Kind != bridge.AskInput {
		return dst, missing(frameAsk, "kind (permission or input)")
	}
	return append(dst, bridge.Output{Question: q}), nil
}

func (t *translator) clientTool(dst []bridge.Output, data []byte) ([]bridge.Output, error) {
	var body struct {
		ID, Name  string
		Args      json.RawMessage
		ExpiresIn float64 `json:"expires_in"`
	}
	if err := decode(frameClientTool, data, &body); err != nil {
		return dst, err
	}
	if body.ID == "" || body.Name == "" {
		return dst, missing(frameClientTool, "id or name")
	}
	return append(dst, bridge.Output{Question: &bridge.Question{
		UpstreamID: body.ID, Kind: bridge.AskClientTool, ToolName: body.Name, Args: notNull(body.Args), ExpiresIn: seconds(body.ExpiresIn),
	}}), nil
}

func (t *translator) done(dst []bridge.Output, data []byte) ([]bridge.Output, error) {
	var body struct {
		Usage   usage
		Pending []string
		Result  json.RawMessage
	}
	if err := decode(frameDone, data, &body); err != nil {
		return dst, err
	}
	t.ended = true
	return append(dst, bridge.Output{End: &bridge.End{
		Usage: body.Usage.tokens(), Result: notNull(body.Result), Pending: body.Pending,
	}}), nil
}

func (t *translator) error(dst []bridge.Output, data []byte) ([]bridge.Output, error) {
	var body struct{ Code, Message string }
	if err := decode(frameError, data, &body); err != nil {
		return dst, err
	}
	if body.Code == "" {
		body.Code = "agent_error"
	}
	if body.Message == "" {
		body.Message = "The agent reported an error."
	}
	t.ended = true
	return append(dst, bridge.Output{End: &bridge.End{Failure: &bridge.Failure{Code: body.Code, Message: body.Message}}}), nil
}

// usage is the contract's usage: {"tokens":n}, or the usual names of providers.
type usage struct {
	Provider, Model  string
	Tokens           *float64
	InputTokens      *float64 `json:"input_tokens"`
	OutputTokens     *float64 `json:"output_tokens"`
	TotalTokens      *float64 `json:"total_tokens"`
	PromptTokens     *float64 `json:"prompt_tokens"`
	CompletionTokens *float64 `json:"completion_tokens"`
}

func (u usage) tokens() []agui.TokenUsage {
	t := agui.TokenUsage{
		Provider: u.Provider, Model: u.Model,
		InputTokens: count(u.InputTokens, u.PromptTokens), OutputTokens: count(u.OutputTokens, u.CompletionTokens),
		TotalTokens: count(u.TotalTokens, u.Tokens),
	}
	if t.InputTokens == nil && t.OutputTokens == nil && t.TotalTokens == nil {
		return nil
	}
	return []agui.TokenUsage{t}
}

// maxTokens is 2^53: what the clients' number type holds exactly.
const maxTokens = 1 << 53

// count is the first number that is given, as AG-UI wants it: whole and not negative.
func count(numbers ...*float64) *int64 {
	for _, n := range numbers {
		if n != nil && *n >= 0 && *n <= maxTokens {
			whole := int64(*n)
			return &whole
		}
	}
	return nil
}

func notNull(raw json.RawMessage) json.RawMessage {
	if string(raw) == "null" {
		return nil
	}
	return raw
}
