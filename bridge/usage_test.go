package bridge

import (
	"fmt"
	"math"
	"testing"

	"aqueduct/agui"
)

// TestUsageOfHostileAgents: what called agents report is added up in bounds, and never to less than there was.
func TestUsageOfHostileAgents(t *testing.T) {
	t.Parallel()
	most := int64(math.MaxInt64)
	var many []agui.TokenUsage
	for i := range 50_000 {
		many = append(many, agui.TokenUsage{Model: fmt.Sprint("m", i), InputTokens: &most})
	}
	sum := addUsage(addUsage(nil, many), many)
	if len(sum) != MostUsage {
		t.Errorf("%d counts", len(sum))
	}
	if got := *sum[0].InputTokens; got < 0 || got > mostCount {
		t.Errorf("the sum is %d", got)
	}
}
