package llmproxy

import (
	"bytes"
	"encoding/json"
	"math"
	"strings"
	"time"

	"github.com/r3labs/sse/v2"

	"aqueduct/store"
)

// meter reads what an answer used while it passes. It must cost next to nothing: of a stream it decodes the events until the
// first token has come, and then only those with a usage in them. It belongs to the goroutine of its request.
type meter struct {
	route string
	asked int // bytes of the request
	// took: an upstream took the request, or may have. Else nothing was used.
	took bool
	// first is when the first token of a stream came.
	first  time.Time
	events int // of a stream, so far
	usage  *usage
	// head and tail are the two ends of an answer that is no stream, and size its bytes. The usage stands behind the choices,
	// or before large data.
	head, tail []byte
	size       int
	whole      bool // nothing of the answer is missing
}

// estimate is what a call used whose request an upstream may have taken, as far as only that is known.
func estimate(asked int) store.ModelTokens {
	return store.ModelTokens{Input: int64(asked / bytesPerToken), Estimated: true}
}

// usage is what an upstream counts: chat completions and embeddings have one set of names, responses the other.
type usage struct {
	PromptTokens     int64 `json:"prompt_tokens"`
	CompletionTokens int64 `json:"completion_tokens"`
	InputTokens      int64 `json:"input_tokens"`
	OutputTokens     int64 `json:"output_tokens"`
	TotalTokens      int64 `json:"total_tokens"`
	PromptDetails    struct {
		Cached int64 `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
	InputDetails struct {
		Cached int64 `json:"cached_tokens"`
	} `json:"input_tokens_details"`
	CompletionDetails struct {
		Reasoning int64 `json:"reasoning_tokens"`
	} `json:"completion_tokens_details"`
	OutputDetails struct {
		Reasoning int64 `json:"reasoning_tokens"`
	} `json:"output_tokens_details"`
}

// maxCount is far above what any call uses of a model, and so low that a day's sums of tokens and of costs do not overflow.
const maxCount = 1e9

// possible reports whether a call can have used that. One that is counted with less than nothing would give a budget back, and
// one with nothing, or with more than a row holds, would not be counted.
func (u *usage) possible() bool {
	t := u.tokens()
	for _, n := range []int64{
		u.PromptTokens, u.CompletionTokens, u.InputTokens, u.OutputTokens,
		u.PromptDetails.Cached, u.InputDetails.Cached, u.CompletionDetails.Reasoning, u.OutputDetails.Reasoning,
	} {
		if n < 0 || n > maxCount {
			return false
		}
	}
	return t.Input+t.Output > 0
}

// tokens are the same in one set of names. What was cached is a part of the input, and reasoning one of the output.
func (u *usage) tokens() store.ModelTokens {
	t := store.ModelTokens{Input: u.PromptTokens + u.InputTokens, Output: u.CompletionTokens + u.OutputTokens}
	t.Cached = min(u.PromptDetails.Cached+u.InputDetails.Cached, t.Input)
	t.Reasoning = min(u.CompletionDetails.Reasoning+u.OutputDetails.Reasoning, t.Output)
	return t
}

const (
	// maxEvent bounds an event of a stream; a chunk with a picture in it has some megabytes.
	maxEvent = 16 << 20
	// tailBytes is how much of each end of a plain answer is looked at for its usage.
	tailBytes = 64 << 10
	// bytesPerToken is what English text has in most tokenizers.
	bytesPerToken = 4
)

// usageMark stands before the usage. In a text it would have backslashes.
var usageMark = []byte(`"usage":`)

// counted reports whether some of the events have a usage in them. OpenAI's own chunks all have "usage":null until the last.
func counted(events []byte) bool {
	for {
		i := bytes.Index(events, usageMark)
		if i < 0 {
			return false
		}
		events = bytes.TrimLeft(events[i+len(usageMark):], " ")
		if !bytes.HasPrefix(events, []byte("null")) {
			return true
		}
	}
}

// stream takes whole events of a stream.
func (m *meter) stream(events []byte) {
	m.events += bytes.Count(events, []byte("data:"))
	// Most events are text between the first token and the usage, and need not be read.
	if !m.first.IsZero() && !counted(events) {
		return
	}
	for reader := sse.NewEventStreamReader(bytes.NewReader(events), maxEvent); ; {
		event, err := reader.ReadEvent()
		if err != nil {
			return
		}
		if m.first.IsZero() && hasToken(event) {
			m.first = time.Now()
		}
		if m.route == routeResponses {
			m.response(event)
		} else {
			m.take(event)
		}
	}
}

// response takes an event of a streamed response. The response itself, which the first event has already, repeats the tools and
// the schema that the agent sent, and so any "usage" in them: only its own counts.
func (m *meter) response(event []byte) {
	_, data, _ := bytes.Cut(event, []byte("data:"))
	var of struct{ Response struct{ Usage *usage } }
	if json.Unmarshal(data, &of) == nil && of.Response.Usage != nil && of.Response.Usage.possible() {
		m.usage = of.Response.Usage
	}
}

// hasToken reports whether an event brings something of the answer itself, and not only its frame.
func hasToken(event []byte) bool {
	_, data, found := bytes.Cut(event, []byte("data:"))
	if !found {
		return false
	}
	var chunk struct {
		Type    string // of responses
		Choices []struct {
			Text  string
			Delta map[string]json.RawMessage
		}
	}
	if json.Unmarshal(data, &chunk) != nil {
		return false
	}
	for _, c := range chunk.Choices {
		for name, value := range c.Delta {
			if name != "role" && len(value) > len(`""`) && string(value) != "null" {
				return true
			}
		}
		if c.Text != "" {
			return true
		}
	}
	return strings.HasSuffix(chunk.Type, ".delta")
}

// plain takes a part of an answer that is no stream. Only its ends are kept: an embedding of a long text has megabytes before
// its usage, or behind it.
func (m *meter) plain(part []byte) {
	m.size += len(part)
	m.head = append(m.head, part[:min(len(part), tailBytes-len(m.head))]...)
	if len(part) >= tailBytes {
		m.tail = append(m.tail[:0], part[len(part)-tailBytes:]...)
		return
	}
	if over := len(m.tail) + len(part) - tailBytes; over > 0 {
		m.tail = append(m.tail[:0], m.tail[over:]...)
	}
	m.tail = append(m.tail, part...)
}

// take looks for a usage; the last one that is possible counts. Some upstreams send a running one with each chunk, each of which replaces the
// one before.
func (m *meter) take(text []byte) {
	for {
		i := bytes.Index(text, usageMark)
		if i < 0 {
			return
		}
		text = text[i+len(usageMark):]
		end := valueEnd(text)
		if end < 0 {
			return // the value is cut, and so is all that stands in it
		}
		var u *usage
		if json.Unmarshal(text[:end], &u) == nil && u != nil && u.possible() {
			m.usage = u
		}
		text = text[end:]
	}
}

// valueEnd is where the JSON value ends that text begins with; -1 when it is cut. What stands in a value is not looked at again,
// so usages within usages cost each byte once.
func valueEnd(text []byte) int {
	depth, quoted := 0, false
	for i := 0; i < len(text); i++ {
		switch b := text[i]; {
		case quoted && b == '\\':
			i++
		case b == '"':
			quoted = !quoted
		case quoted:
		case b == '{' || b == '[':
			depth++
			continue
		case b == '}' || b == ']':
			depth--
		case depth == 0 && b == ',':
			return i
		default:
			continue
		}
		if depth < 0 {
			return i // of the object that it stands in
		}
		if depth == 0 && !quoted {
			return i + 1
		}
	}
	return -1
}

// tokens are what the answer used. The upstream's own count always goes first, also the one of an answer that broke off
// behind it. What the upstream did not tell is estimated, by the size of the request, and by the number of events, each of which
// brings about a token, or by the size of a plain answer. Embeddings are no tokens. A call is not free because its agent left
// before the first event: the upstream was at work.
func (m *meter) tokens() store.ModelTokens {
	if m.whole || m.route != routeResponses { // what is missing of a response has its usage; before it there is what the agent sent
		m.take(m.head)
		m.take(m.tail)
	}
	if u := m.usage; u != nil {
		return u.tokens()
	}
	if !m.took {
		return store.ModelTokens{}
	}
	t := estimate(m.asked)
	if m.route != routeEmbeddings {
		t.Output = int64(max(m.events, m.size/bytesPerToken))
	}
	return t
}

// cost is in millionths of the currency; 0 for a model without a price. It is computed when the call ends and kept with it: a
// table that changes later changes no call of before.
func (u Upstreams) cost(model string, t store.ModelTokens) int64 {
	for _, p := range u.Prices {
		if !matches(p.Model, model) {
			continue
		}
		cached := p.CachedInput
		if cached == 0 {
			cached = p.Input
		}
		// A price for a million tokens is one in millionths for a token.
		return int64(max(0, min(math.Round(float64(t.Input-t.Cached)*p.Input+float64(t.Cached)*cached+float64(t.Output)*p.Output), float64(store.MostAmount))))
	}
	return 0
}
