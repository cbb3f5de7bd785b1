//go:build race

package bubbletest

// raced reports whether this program was built with the race detector.
const raced = true
