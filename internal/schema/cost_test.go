//go:build !race

// Run by scripts/test-unraced, which gives the reason.

package schema_test

import (
	"encoding/json"
	"runtime"
	"strings"
	"testing"
	"time"

	"aqueduct/internal/schema"
)

// TestChecksAreBounded shows that no value makes a check take long or much memory. The bound is of visits, so that the
// times compared are those of one run: the costly ones against the most that is done for an ordinary one.
func TestChecksAreBounded(t *testing.T) {
	ordinary := schema.Of(json.RawMessage(`{"items":{"type":"integer"}}`))
	begin := time.Now()
	if err := ordinary.Check(json.RawMessage(`[` + strings.Repeat(`7,`, 100_000) + `7]`)); err != nil {
		t.Fatal(err)
	}
	unit := time.Since(begin)
	for name, c := range costly() {
		s := schema.Of(json.RawMessage(c[0]))
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		begin := time.Now()
		compiled := s.Compile()
		compiling := time.Since(begin)
		err := s.Check(json.RawMessage(c[1]))
		took := time.Since(begin)
		runtime.ReadMemStats(&after)
		allocated := (after.TotalAlloc - before.TotalAlloc) >> 20
		t.Logf("%-24s %-20s compile %7s, all %8s, %4d MiB (ordinary: %s)", name, code(err), compiling.Round(time.Millisecond), took.Round(time.Millisecond), allocated, unit.Round(time.Millisecond))
		if compiled != nil || err == nil && name != "many subschemas" {
			t.Errorf("%s: compiled %v, checked %v", name, compiled, err)
		}
		if took > 20*unit {
			t.Errorf("%s: %s, against %s of an ordinary value", name, took, unit)
		}
		if allocated > 256 {
			t.Errorf("%s: %d MiB", name, allocated)
		}
	}
}
