package inbox

import (
	"bytes"
	"encoding/json"
	"errors"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Schema is a JSON Schema, ready to check values.
type Schema struct{ compiled *jsonschema.Schema }

// ParseSchema reads a schema. None, and one that is itself broken, accepts all: the person
// cannot mend it, and the agent sees the value anyway.
func ParseSchema(raw json.RawMessage) Schema {
	if len(raw) == 0 {
		return Schema{}
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return Schema{}
	}
	c := jsonschema.NewCompiler()
	if c.AddResource("value.json", doc) != nil {
		return Schema{}
	}
	compiled, err := c.Compile("value.json")
	if err != nil {
		return Schema{}
	}
	return Schema{compiled}
}

// Check says whether a value is what the schema describes.
func (s Schema) Check(value json.RawMessage) error {
	if s.compiled == nil {
		return nil
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(value))
	if err != nil {
		return errors.New("it is not JSON")
	}
	if s.compiled.Validate(v) != nil {
		return errors.New("it does not fit the schema")
	}
	return nil
}
