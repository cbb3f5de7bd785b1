package seqlink

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestInboxRestoresOrder from frames that are shuffled in a window of 20 and doubled.
func TestInboxRestoresOrder(t *testing.T) {
	t.Parallel()
	const n, window = 5000, 20
	r := rand.New(rand.NewPCG(1, 2))
	var sent []int64
	for i := int64(1); i <= n; i++ {
		sent = append(sent, i)
		if r.IntN(3) == 0 {
			sent = append(sent, i)
		}
	}
	for i := 0; i+window < len(sent); i += window {
		part := sent[i : i+window]
		r.Shuffle(window, func(a, b int) { part[a], part[b] = part[b], part[a] })
	}
	in := NewInbox[int64](nil)
	var got []int64
	for _, seq := range sent {
		var ok bool
		if got, ok = in.Take(got, "r", seq, seq); !ok {
			t.Fatalf("%d: too much waits", seq)
		}
	}
	if len(got) != n || !slices.IsSorted(got) || in.Last("r") != n {
		t.Errorf("%d frames, the last is %d", len(got), in.Last("r"))
	}
}

func TestInboxBeginsBehindWhatIsGone(t *testing.T) {
	t.Parallel()
	in := NewInbox[int](map[string]int64{"a": 7})
	if got, _ := in.Take(nil, "a", 7, 7); len(got) != 0 {
		t.Error("a frame that is gone was taken")
	}
	if got, _ := in.Take(nil, "a", 8, 8); len(got) != 1 {
		t.Error("the next frame was not taken")
	}
	if got, _ := in.Take(nil, "b", 2, 2); len(got) != 0 {
		t.Error("another run has a gap before its second frame")
	}
}

func TestInboxRefusesAWideGap(t *testing.T) {
	t.Parallel()
	in := NewInbox[int64](nil)
	for seq := int64(2); seq <= maxAhead+1; seq++ {
		if _, ok := in.Take(nil, "r", seq, seq); !ok {
			t.Fatal(seq)
		}
	}
	if _, ok := in.Take(nil, "r", maxAhead+2, 0); ok {
		t.Error("it waits for ever")
	}
	got, ok := in.Take(nil, "r", maxAhead+3, maxAhead+3) // it cannot send the first
	if !ok || len(got) != maxAhead+2 || got[0] != 2 {
		t.Errorf("after a second try: %d frames, %v", len(got), ok)
	}
}
