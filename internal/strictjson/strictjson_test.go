package strictjson

import (
	"encoding/json"
	"errors"
	"testing"
)

type inner struct {
	Status string `json:"status"`
}

type body struct {
	Approved *bool           `json:"approved"`
	Outcome  inner           `json:"outcome"`
	List     []inner         `json:"list"`
	Raw      json.RawMessage `json:"raw"`
	inner
}

// TestExactNames: a name in another case, or twice, is refused at every depth that is decoded; unknown names, and what is
// taken as it is, are not.
func TestExactNames(t *testing.T) {
	t.Parallel()
	for text, ok := range map[string]bool{
		`{"approved":true,"other":1,"Other":2,"raw":{"A":1,"a":2}}`: true,
		`{"approved":false,"Approved":true}`:                        false,
		`{"Approved":true}`:                                         false,
		`{"approved":false,"approved":true}`:                        false,
		`{"\u0041pproved":true}`:                                    false,
		`{"outcome":{"status":"a","STATUS":"b"}}`:                   false,
		`{"list":[{"status":"a"},{"Status":"b"}]}`:                  false,
		`{"lıst":[]}`:                                               true,  // no letter of another case
		`{"li\u017Ft":[{"status":"a"}]}`:                            false, // the long s is one of s
		`{"Status":"x"}`:                                            false,
	} {
		var b body
		err := Unmarshal([]byte(text), &b)
		var name *NameError
		if ok != (err == nil) || !ok && !errors.As(err, &name) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
