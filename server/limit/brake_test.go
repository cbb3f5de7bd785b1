package limit

import (
	"fmt"
	"testing"
	"time"
)

func TestTakeRefusesAfterTheBurst(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	b := NewBrakeAt(Rate{PerSecond: 2, Burst: 3}, func() time.Time { return now })
	for i := range 3 {
		if _, ok := b.Take("a"); !ok {
			t.Fatalf("attempt %d within the burst was refused", i+1)
		}
	}
	if wait, ok := b.Take("a"); ok || wait != 500*time.Millisecond {
		t.Errorf("after the burst: wait %v, allowed %v; want 500ms, false", wait, ok)
	}
	if _, ok := b.Take("a"); ok {
		t.Error("an empty bucket gave one more")
	}
	if _, ok := b.Take("b"); !ok {
		t.Error("one key's attempts count for another")
	}
	now = now.Add(500 * time.Millisecond)
	if _, ok := b.Take("a"); !ok {
		t.Error("refused when a token has come back")
	}
}

func TestWithoutARateNothingIsRefused(t *testing.T) {
	t.Parallel()
	var none *Brake
	for range 100 {
		if _, ok := none.Take("a"); !ok {
			t.Fatal("a nil Brake refused")
		}
		if _, ok := NewBrake(Rate{}).Take("a"); !ok {
			t.Fatal("the zero Rate refused")
		}
	}
}

func TestKeysAreBounded(t *testing.T) {
	t.Parallel()
	b := NewBrake(Rate{PerSecond: 1, Burst: 1})
	for i := range 3 * mostKeys {
		b.Take(fmt.Sprint(i))
	}
	if len(b.byKey) != mostKeys || b.used.Len() != mostKeys {
		t.Errorf("%d keys and %d buckets are held; want %d", len(b.byKey), b.used.Len(), mostKeys)
	}
	if _, ok := b.Take(fmt.Sprint(3*mostKeys - 1)); ok {
		t.Error("the newest key was evicted")
	}
}

func TestAddress(t *testing.T) {
	t.Parallel()
	for remote, want := range map[string]string{
		"192.0.2.7:4711":             "192.0.2.7",
		"[::ffff:192.0.2.7]:1":       "192.0.2.7",
		"[2001:db8:1:2:3:4:5:6]:443": "2001:db8:1:2::/64",
		"[fe80::1%eth0]:80":          "fe80::/64",
		"@":                          "@",
	} {
		if got := Address(remote); got != want {
			t.Errorf("Address(%q) = %q, want %q", remote, got, want)
		}
	}
}

func TestRetryAfterIsWholeSeconds(t *testing.T) {
	t.Parallel()
	for wait, want := range map[time.Duration]int{time.Millisecond: 1, time.Second: 1, 1001 * time.Millisecond: 2} {
		if got := RetryAfter(wait); got != want {
			t.Errorf("RetryAfter(%v) = %d, want %d", wait, got, want)
		}
	}
}
