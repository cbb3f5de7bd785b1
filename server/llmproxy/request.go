package llmproxy

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"aqueduct/internal/fault"
	"aqueduct/internal/ids"
	"aqueduct/internal/strictjson"
	"aqueduct/server/problem"
)

// Routes of OpenAI's API.
const (
	routeChat       = "chat/completions"
	routeEmbeddings = "embeddings"
	routeResponses  = "responses"
)

// request is what has to be known of a body. Everything else in it is the upstream's business.
type request struct {
	model  string
	stream bool
	// usage: that of the stream is asked for here, and the caller did not: its chunk is taken out of the answer.
	usage    bool
	body     []byte
	original []byte // as the caller sent it
}

// member is a member of the body's object: its value is body[from:to].
type member struct {
	name     string
	from, to int
}

// known are the members that are read here.
var known = []string{"model", "stream", "stream_options", "background"}

// steering are members by which some servers of OpenAI's API let a caller choose where a call goes, with which key or with which headers.
// The operator's file decides that: a server that an agent chose would get the operator's key.
var steering = []string{
	"api_base", "base_url", "api_key", "api_type", "api_version", "organization", "headers", "extra_headers", "default_headers", "extra_query", "extra_body",
	"custom_llm_provider", "proxies", "user_config",
}

// steers reports whether a member is one of these, in whatever case.
func (m member) steers() bool {
	return slices.ContainsFunc(steering, func(name string) bool { return strings.EqualFold(name, m.name) })
}

// counts reports whether a member counts, and not only looks like one that is read here. Of two models one decoder takes the
// first, another the last, and Go's the last in whatever case: the upstream could run a model that is not the one that was looked
// up, and whose price is another.
func (m member) counts(last map[string]member) bool {
	for _, k := range known {
		if strings.EqualFold(k, m.name) {
			return m == last[k]
		}
	}
	return true
}

// only is the body with nothing but some of its members.
func only(body []byte, members []member) []byte {
	kept := []byte("{")
	for i, m := range members {
		if i > 0 {
			kept = append(kept, ',')
		}
		name, _ := json.Marshal(m.name) // of a string
		kept = append(append(kept, name...), ':')
		kept = append(kept, body[m.from:m.to]...)
	}
	return append(kept, '}')
}

// read finds out about a body. What the upstream would refuse passes: it words its refusals for the SDKs that read them. It is decoded no deeper than its first level.
//
// Of a member that is read here and stands twice the last one goes on, in its own spelling, so that every decoder finds the same.
//
// Only a stream of chat completions is asked for its usage. The other routes have no such option, and OpenAI refuses it there;
// the last event of a response has the usage anyway.
func read(route string, body []byte) (request, error) {
	all, end, err := membersOf(body)
	if errors.Is(err, errTooMany) {
		return request{}, err
	}
	if err != nil {
		return request{}, problem.Refuse(problem.InvalidBody, "The body is not a JSON object.")
	}
	members := make(map[string]member, len(all))
	for _, m := range all {
		if m.steers() {
			return request{}, problem.Refuse(problem.InvalidBody, "/"+m.name+": is not passed on. The operator says where models are called, and how.")
		}
		members[m.name] = m
	}
	counting := slices.DeleteFunc(slices.Clone(all), func(m member) bool { return !m.counts(members) })
	if len(counting) < len(all) {
		return read(route, only(body, counting))
	}
	r := request{body: body, original: body}
	if m, ok := members["model"]; !ok || json.Unmarshal(body[m.from:m.to], &r.model) != nil || !ids.Valid(r.model) {
		return r, problem.Refuse(problem.InvalidBody, "/model: must be the name of a model, of at most 128 characters.")
	}
	if m, ok := members["stream"]; ok && json.Unmarshal(body[m.from:m.to], &r.stream) != nil {
		return r, problem.Refuse(problem.InvalidBody, "/stream: must be true or false.")
	}
	var background bool // a response goes on at the upstream when its agent has left: its usage would never be known
	if m, ok := members["background"]; ok && (json.Unmarshal(body[m.from:m.to], &background) != nil || background) {
		return r, problem.Refuse(problem.InvalidBody, "/background: must be false. What is used in the background cannot be counted.")
	}
	if !r.stream || route != routeChat {
		return r, nil
	}
	options, given := members["stream_options"]
	var o struct {
		Usage bool `json:"include_usage"`
	}
	if given && json.Unmarshal(body[options.from:options.to], &o) != nil {
		return r, problem.Refuse(problem.InvalidBody, "/stream_options: must be an object.")
	}
	if r.usage = !o.Usage; r.usage {
		r.body = withUsage(body, options, given, end)
	}
	return r, nil
}

// mostValues bounds the values of a body: the tokens that one call for embeddings may have at most providers, as numbers, fit.
const mostValues = 500_000

var errTooMany = problem.Refuse(problem.InvalidBody, fmt.Sprintf("The body has more than %d members or %d values.", strictjson.MostElements, mostValues))

// membersOf finds the members of the body's object, and where its closing brace stands. Values are stepped over as raw JSON,
// so a conversation with pictures costs one pass over its bytes and no tree of values.
func membersOf(body []byte) (members []member, end int, err error) {
	if strictjson.TooMany(body, mostValues) {
		return nil, 0, errTooMany
	}
	dec := json.NewDecoder(bytes.NewReader(body))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return nil, 0, errors.New("no object")
	}
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return nil, 0, err
		}
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return nil, 0, err
		}
		to := int(dec.InputOffset())
		if len(members) == strictjson.MostElements {
			return nil, 0, errTooMany
		}
		key, _ := name.(string) // a name always is one
		members = append(members, member{key, to - len(value), to})
	}
	if _, err := dec.Token(); err != nil {
		return nil, 0, err
	}
	end = int(dec.InputOffset()) - 1
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, 0, errors.New("there is more behind the object")
	}
	return members, end, nil
}

// withUsage asks the upstream for the usage of a stream: the last member of the body is then stream_options with
// include_usage. Nothing else in the body changes, not even its spaces.
func withUsage(body []byte, options member, given bool, end int) []byte {
	value := []byte(`{"include_usage":true}`)
	if given {
		value = merged(body[options.from:options.to])
		changed := append(make([]byte, 0, len(body)+len(value)), body[:options.from]...)
		return append(append(changed, value...), body[options.to:]...)
	}
	changed := append(make([]byte, 0, len(body)+len(value)+24), body[:end]...)
	changed = append(changed, `,"stream_options":`...) // there is a model before it
	return append(append(changed, value...), body[end:]...)
}

// merged is stream_options with include_usage; other options stay. Their order may change, which no upstream can tell.
func merged(options []byte) []byte {
	all := make(map[string]json.RawMessage)
	_ = json.Unmarshal(options, &all) // an object, or null
	if all == nil {
		all = make(map[string]json.RawMessage)
	}
	all["include_usage"] = json.RawMessage("true")
	raw, _ := json.Marshal(all) // of JSON
	return raw
}

// Codes of refusals and failures of this package.
const (
	ModelUnknown     = "model_unknown"
	ModelUnreachable = "model_unreachable"
	ModelTimeout     = "model_timeout"
)

// Codes of ends that no caller gets.
const (
	codeStatus    = "upstream_status"    // the upstream refused, or failed
	codeTruncated = "upstream_truncated" // its answer broke off
	codeLeft      = "client_left"
	codeStopping  = "shutting_down"
)

func unknownModel(model string) error {
	return fault.New(ModelUnknown, "No upstream answers for the model "+model+".")
}
