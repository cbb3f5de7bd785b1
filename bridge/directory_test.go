package bridge_test

import (
	"testing"

	"aqueduct/bridge"
)

// away is an Agent that may be out of reach.
type away struct {
	bridge.Agent
	here bool
}

func (a *away) Available() bool { return a.here }

// TestDefaultAgentIsTheOperators: no prompt goes to an agent that a program registered because the operator's is out of
// reach, but where the operator has none, or has chosen it.
func TestDefaultAgentIsTheOperators(t *testing.T) {
	t.Parallel()
	d := bridge.NewDirectory()
	is := func(want string) {
		t.Helper()
		if got := d.Default("t"); got != want {
			t.Errorf("the default is %q, not %q", got, want)
		}
	}
	d.Put("other", "foreign", nil, &away{here: true})
	is("")
	d.Put("t", "registered", nil, &away{here: true})
	d.Put("t", "also", nil, &away{here: true})
	is("registered")
	first := &away{}
	d.Add("own", first)
	is("own")
	first.here = true
	is("own")
	first.here = false
	second := &away{here: true}
	d.Add("second", second)
	is("second")
	second.here = false
	is("own")
	d.SetDefault("also")
	is("also")
	d.SetDefault("foreign")
	is("own")
}

// TestDefaultAgent: the chosen one; else the first that is available; else the first.
func TestDefaultAgent(t *testing.T) {
	t.Parallel()
	d := bridge.NewDirectory()
	is := func(want string) {
		t.Helper()
		if got := d.Default("t"); got != want {
			t.Errorf("the default is %q, not %q", got, want)
		}
	}
	is("")
	first, second := &away{}, &away{}
	d.Add("z", first)
	d.Add("m", second)
	is("z")
	second.here = true
	is("m")
	first.here = true
	is("z")
	d.SetDefault("a")
	is("z") // it may come yet
	d.Add("a", &away{})
	is("a")
	d.Remove("a")
	is("z")
	d.Remove("z")
	is("m")
}
