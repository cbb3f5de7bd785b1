package translate

import (
	"encoding/binary"
	"errors"
)

// errNotSnapshot is a snapshot that was not written by a Translator of this form.
var errNotSnapshot = errors.New("translate: not a snapshot")

// putText appends a text with its length before it.
func putText[T ~string | ~[]byte](dst []byte, s T) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}

func putNumber(dst []byte, n int) []byte { return binary.AppendUvarint(dst, uint64(n)) }

// snapshotReader is what is left to read of a snapshot. Once it was short, all that follows is empty.
type snapshotReader struct {
	left []byte
	bad  bool
}

// number reads a count or a length. No length in a snapshot is above maxSnapshot, and one that was believed would have
// the reader allocate.
func (sr *snapshotReader) number() int {
	n, size := binary.Uvarint(sr.left)
	if size <= 0 || n > maxSnapshot {
		sr.left, sr.bad = nil, true
		return 0
	}
	sr.left = sr.left[size:]
	return int(n)
}

// bytes is the text that follows, within the snapshot: who keeps it clones it (given).
func (sr *snapshotReader) bytes() []byte {
	n := sr.number()
	if n > len(sr.left) {
		sr.left, sr.bad = nil, true
		return nil
	}
	b := sr.left[:n:n]
	sr.left = sr.left[n:]
	return b
}

func (sr *snapshotReader) text() string { return string(sr.bytes()) }

func (sr *snapshotReader) texts() []string {
	list := make([]string, 0, 4)
	for n := sr.number(); n > 0 && !sr.bad; n-- {
		list = append(list, sr.text())
	}
	return list
}

func putTexts(dst []byte, list []string) []byte {
	dst = putNumber(dst, len(list))
	for _, s := range list {
		dst = putText(dst, s)
	}
	return dst
}
