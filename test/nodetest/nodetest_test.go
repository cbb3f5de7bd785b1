package nodetest_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"aqueduct/test/nodetest"
)

// TestEnds: neither a test that is never over nor one that leaves a server behind holds the tests after it, and both are
// failures with node's report.
func TestEnds(t *testing.T) {
	for file, want := range map[string]string{"testdata/hangs.mjs": "not over within 5s", "testdata/leaves.mjs": "the hook failed"} {
		t.Run(file, func(t *testing.T) {
			began := time.Now()
			failure := make(chan string, 1)
			go func() {
				defer close(failure)
				nodetest.RunWithin(&recorder{TB: t, failure: failure}, 5*time.Second, nil, file)
			}()
			if got := <-failure; !strings.Contains(got, want) {
				t.Errorf("failed with %q, want %q", got, want)
			}
			if took := time.Since(began); took > time.Minute {
				t.Errorf("took %s", took)
			}
		})
	}
}

// recorder takes a test's failure instead of failing it.
type recorder struct {
	testing.TB
	failure chan<- string
}

func (r *recorder) Fatalf(format string, args ...any) {
	r.failure <- fmt.Sprintf(format, args...)
	runtime.Goexit()
}
