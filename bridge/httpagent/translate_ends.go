package httpagent

import (
	"cmp"
	"encoding/json"

	"aqueduct/agui"
	"aqueduct/bridge"
	"aqueduct/bridge/approval"
	"aqueduct/internal/fault"
)

// ask is a Question to a person. The engine decides when it is shown and what an option without a kind means.
//
//	{"id":"q1","kind":"permission","title":"Delete 3 files?","tool":"rm","args":{…},
//	 "options":[{"id":"yes","label":"Yes","kind":"allow_once"}],"expires_in":600}
func (t *translator) ask(dst []bridge.Output, data []byte) ([]bridge.Output, error) {
	var body struct {
		ID, Kind, Title, Tool, Name, Risk string
		Args                              json.RawMessage
		Options                           []approval.Option
		ResponseSchema                    json.RawMessage `json:"response_schema"`
		ExpiresIn                         float64         `json:"expires_in"`
	}
	if err := decode(frameAsk, data, &body); err != nil {
		return dst, err
	}
	if body.ID == "" {
		return dst, missing(frameAsk, "id")
	}
	q := &approval.Request{
		UpstreamID: body.ID, Kind: approval.Kind(body.Kind), ToolName: body.Name, Tool: t.names.Own(body.Tool),
		Title: body.Title, Args: notNull(body.Args), Options: body.Options, ResponseSchema: notNull(body.ResponseSchema),
		Risk: body.Risk, ExpiresIn: seconds(body.ExpiresIn),
	}
	if q.Kind != approval.AskPermission && q.Kind != approval.AskInput {
		return dst, missing(frameAsk, "kind (permission or input)")
	}
	return append(dst, bridge.Output{Question: q}), nil
}

// clientTool is a call of a tool that the user's client has.
// {"id":"c1","name":"show_map","args":{"lat":52.5}} becomes a tool call in the chat, whose result comes back with the
// next invoke. A call that frames have shown under this id is that call.
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
	var shown string
	if t.calls[body.ID] > 0 { // by frames of its own, in this answer
		shown = t.callID(body.ID)
	}
	return append(dst, bridge.Output{Question: &approval.Request{
		UpstreamID: body.ID, CallID: shown, Kind: approval.AskClientTool, ToolName: t.names.Own(body.Name), Args: notNull(body.Args), ExpiresIn: seconds(body.ExpiresIn),
	}}), nil
}

// done ends the answer. Pending lists the Questions that the agent waits for; the engine calls it again when they are
// answered.
// {"usage":{"input_tokens":12,"output_tokens":40},"pending":["q1"],"result":{…}}; every member may be left out.
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

// error ends the answer with a failure. The agent's code and message reach the user, so both have defaults.
// {"code":"quota","message":"…"} becomes RUN_ERROR.
func (t *translator) error(dst []bridge.Output, data []byte) ([]bridge.Output, error) {
	var body struct{ Code, Message string }
	if err := decode(frameError, data, &body); err != nil {
		return dst, err
	}
	t.ended = true
	failure := fault.New(cmp.Or(body.Code, "agent_error"), cmp.Or(body.Message, "The agent reported an error."))
	return append(dst, bridge.Output{End: &bridge.End{Failure: failure}}), nil
}

// usage is the contract's {"tokens":n}, or the names that model providers use.
type usage struct {
	Provider, Model  string
	Tokens           *float64
	InputTokens      *float64 `json:"input_tokens"`
	OutputTokens     *float64 `json:"output_tokens"`
	TotalTokens      *float64 `json:"total_tokens"`
	PromptTokens     *float64 `json:"prompt_tokens"`
	CompletionTokens *float64 `json:"completion_tokens"`
}

// tokens is the usage as AG-UI has it, nil where the agent counted nothing. TotalTokens is what the agent counted and
// never a sum of ours: providers count cached and reasoning tokens in different ways.
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

// maxTokens is 2^53, the largest whole number that a JavaScript client holds exactly.
const maxTokens = 1 << 53

// count is the first number that is given, in AG-UI's form: whole and not negative. The members are float64:
// a serializer may write 12.0, which an integer would refuse, and with it the frame that ends the Turn.
func count(numbers ...*float64) *int64 {
	for _, n := range numbers {
		if n != nil && *n >= 0 && *n <= maxTokens {
			whole := int64(*n)
			return &whole
		}
	}
	return nil
}

// notNull drops a null, which many serializers write for a member that is not set.
func notNull(raw json.RawMessage) json.RawMessage {
	if string(raw) == "null" {
		return nil
	}
	return raw
}
