package bridge_test

import (
	"testing"

	"github.com/google/uuid"

	"aqueduct/bridge"
)

// TestOwnRun: the id of a call is its Turn's with that Turn's token alone, and any other id is what it is.
func TestOwnRun(t *testing.T) {
	t.Parallel()
	turn, other := uuid.Must(uuid.NewV7()).String(), uuid.Must(uuid.NewV7()).String()
	id, again := bridge.NewCallID(turn), bridge.NewCallID(turn)
	if id == again || uuid.Validate(id) != nil {
		t.Fatal(id, again)
	}
	for _, test := range []struct{ token, named, want string }{
		{"run_" + turn + "_secret", id, turn},
		{"run_" + turn + "_secret", turn, turn},
		{"run_" + turn + "_secret", other, other},
		{"run_" + turn + "_secret", bridge.NewCallID(other), ""},
		{"run_" + other + "_secret", id, id},
		{"run_" + turn + "_secret", "R1", "R1"},
		{"no token", id, id},
	} {
		if got := bridge.OwnRun(test.token, test.named); got != test.want && test.want != "" || got == turn && test.want == "" {
			t.Errorf("%s with %s is %s", test.named, test.token, got)
		}
	}
}
