package judges_test

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"aqueduct/test/nodetest"
)

// TestConformance puts the protocol's conformance cases, which agui's own test of that name
// holds our decoder and grammar to, to the official client.
func TestConformance(t *testing.T) {
	nodetest.Need(t, "node_modules/agui1/package.json", "make setup-judges")
	judge(t, "", "conformance.test.mjs")
}

// TestFuzzStreams: whatever an agent streams, in any order and with any JSON, all three
// dialects stay legal: both official clients neither throw nor warn, TDesign's stream keeps to
// its grammar, and each Run has one terminal event, also for a client that joins afterwards.
// AQUEDUCT_FUZZ_SEED repeats a seed, AQUEDUCT_FUZZ_STREAMS is the number of streams,
// and AQUEDUCT_FUZZ_FROM with which of a seed to begin.
func TestFuzzStreams(t *testing.T) {
	nodetest.Need(t, "node_modules/agui1/package.json", "make setup-judges")
	seed := fuzzNumber(t, "AQUEDUCT_FUZZ_SEED", rand.Uint64N(1_000_000))
	t.Logf("AQUEDUCT_FUZZ_SEED=%d", seed)
	streams := fuzzNumber(t, "AQUEDUCT_FUZZ_STREAMS", 200)
	url := serve(t, "0s", "--agent", "fuzz="+fuzzAgent(t, seed), "--default-agent", "fuzz", "--max-user-questions", "1000000")
	env := []string{"BASE_URL=" + url, "AQUEDUCT_FUZZ_STREAMS=" + strconv.FormatUint(streams, 10)}
	patience := nodetest.Patience + time.Duration(streams)*time.Second // 50 to 100 ms a stream
	t.Log(nodetest.Totals(nodetest.RunWithin(t, patience, env, "fuzz.test.mjs")))
}

func fuzzNumber(t *testing.T, name string, otherwise uint64) uint64 {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}
