package wake_test

import (
	"testing"

	"aqueduct/internal/wake"
)

// TestSignal checks that rings before a look are one, and that none is lost.
func TestSignal(t *testing.T) {
	t.Parallel()
	s := wake.New()
	s.Ring()
	s.Ring()
	<-s
	select {
	case <-s:
		t.Fatal("two rings were received as two")
	default:
	}
	s.Ring()
	s.Clear()
	s.Clear()
	select {
	case <-s:
		t.Fatal("a cleared ring was received")
	default:
	}
}
