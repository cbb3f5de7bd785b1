package server_test

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// This file is the part of the judge that reads streams: each event of a response of text/event-stream is compared with what
// the operation has for its name under x-events. What has no name is a "message", as in a browser.

const (
	// judgedEvents is how many events of one kind are compared of one response. The first of a stream differ, and the
	// thousandth delta is like the tenth; tests stream tens of thousands.
	judgedEvents = 20
	// judgedFrame bounds what is kept of a frame that is not at its end yet.
	judgedFrame = 1 << 20
)

// streamJudge compares the events of one response.
type streamJudge struct {
	doc   *described
	at    string // of x-events in the document
	names map[string]any
	rest  []byte // of the last frame, which is not at its end yet
	large bool   // a frame was too large to be kept
	seen  map[string]int
	errs  []error
}

// ofStream is a judge of an operation's stream, nil where its events are others' (of models, MCP).
func (d *described) ofStream(o *operation) *streamJudge {
	at := o.at("responses", "200") + "/content/" + escape("text/event-stream") + "/x-events"
	names, ok := d.lookUp(at).(map[string]any)
	if !ok {
		return nil
	}
	return &streamJudge{doc: d, at: at, names: names, seen: make(map[string]int)}
}

// read takes what was written next.
func (j *streamJudge) read(b []byte) {
	if j == nil || j.large || len(j.errs) > 0 {
		return
	}
	j.rest = append(j.rest, b...)
	for {
		frame, rest, ok := bytes.Cut(j.rest, []byte("\n\n"))
		if !ok {
			break
		}
		j.frame(frame)
		j.rest = append(j.rest[:0], rest...)
	}
	j.large = len(j.rest) > judgedFrame
}

// frame takes one apart. One without data is a comment, or sets the time after which a client comes back.
func (j *streamJudge) frame(frame []byte) {
	name, data := "message", []byte(nil)
	for line := range bytes.Lines(frame) {
		line = bytes.TrimSuffix(line, []byte("\n"))
		if value, ok := bytes.CutPrefix(line, []byte("event: ")); ok {
			name = string(value)
		}
		if value, ok := bytes.CutPrefix(line, []byte("data: ")); ok {
			data = append(data, value...)
		}
	}
	if data == nil {
		return
	}
	if j.names[name] == nil {
		j.errs = append(j.errs, fmt.Errorf("streams an event %q, which is not documented: %s", name, head(data)))
		return
	}
	if err := j.event(name, data); err != nil {
		j.errs = append(j.errs, err)
	}
}

// event compares one with its schema: where that has a discriminator, with the one of its type.
func (j *streamJudge) event(name string, data []byte) error {
	instance, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		return fmt.Errorf("%w: %s", err, head(data))
	}
	place := j.doc.kind(j.at+"/"+escape(name), instance)
	if j.seen[place]++; j.seen[place] > judgedEvents {
		return nil
	}
	j.doc.drive(eventName(place))
	if err := j.doc.validate(sentBy+place, instance); err != nil {
		return fmt.Errorf("streams: %w\n%s", err, head(data))
	}
	return nil
}

// wrong is what did not fit.
func (j *streamJudge) wrong() []error {
	if j == nil {
		return nil
	}
	return j.errs
}

// kind is the place of the schema that an instance is of: of several the one that a discriminator names.
func (d *described) kind(place string, instance any) string {
	object, _ := instance.(map[string]any)
	for {
		schema, _ := d.lookUp(place).(map[string]any)
		if ref, ok := schema["$ref"].(string); ok {
			place = ref
			continue
		}
		for _, one := range []string{"oneOf", "anyOf"} {
			if _, composed := schema[one]; !composed {
				continue
			}
			by, _ := schema["discriminator"].(map[string]any)
			mapping, _ := by["mapping"].(map[string]any)
			name, _ := by["propertyName"].(string)
			value, _ := object[name].(string)
			if to, ok := mapping[value].(string); ok {
				return to
			}
		}
		return place
	}
}

// validate compares an instance with the schema at a place of one of the documents.
func (d *described) validate(place string, instance any) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	schema := d.schemas[place]
	if schema == nil {
		var err error
		if schema, err = d.compiler.Compile(place); err != nil {
			return err
		}
		d.schemas[place] = schema
	}
	return schema.Validate(instance)
}

// eventName is a kind of event in described.driven.
func eventName(place string) string {
	return "event " + strings.TrimPrefix(place, "#/components/schemas/")
}

// undrivenEvents are those documented that no test streamed.
func (d *described) undrivenEvents() (out []string) {
	for place := range d.eventPlaces() {
		if name := eventName(place); !d.driven[name] {
			out = append(out, name)
		}
	}
	return out
}

// eventPlaces are the schemas of all events of all streams.
func (d *described) eventPlaces() map[string]bool {
	all := make(map[string]bool)
	for _, o := range d.operations {
		j := d.ofStream(o)
		if j == nil {
			continue
		}
		for name := range j.names {
			d.kinds(j.names[name], all)
		}
	}
	return all
}

// kinds adds the schemas that a schema is one of.
func (d *described) kinds(node any, to map[string]bool) {
	schema, _ := node.(map[string]any)
	ref, _ := schema["$ref"].(string)
	if ref != "" {
		schema, _ = d.lookUp(ref).(map[string]any)
	}
	parts := 0
	for _, one := range []string{"oneOf", "anyOf"} {
		list, _ := schema[one].([]any)
		for _, part := range list {
			d.kinds(part, to)
			parts++
		}
	}
	if parts == 0 && ref != "" {
		to[ref] = true
	}
}
