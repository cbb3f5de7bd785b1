package fromacp

import (
	"encoding/binary"
	"errors"
)

// errSlip is a snapshot that was not written by a Translator of this form.
var errSlip = errors.New("fromacp: not a snapshot")

func putText[T ~string | ~[]byte](dst []byte, s T) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}

func putNumber(dst []byte, n int) []byte { return binary.AppendUvarint(dst, uint64(n)) }

// slip is what is left to read of a snapshot. Once it was short, all that follows is empty.
type slip struct {
	left []byte
	bad  bool
}

func (s *slip) number() int {
	n, size := binary.Uvarint(s.left)
	if size <= 0 || n > maxSnapshot {
		s.left, s.bad = nil, true
		return 0
	}
	s.left = s.left[size:]
	return int(n)
}

func (s *slip) bytes() []byte {
	n := s.number()
	if n > len(s.left) {
		s.left, s.bad = nil, true
		return nil
	}
	b := s.left[:n:n]
	s.left = s.left[n:]
	return b
}

func (s *slip) text() string { return string(s.bytes()) }

func (s *slip) texts() []string {
	list := make([]string, 0, 4)
	for n := s.number(); n > 0 && !s.bad; n-- {
		list = append(list, s.text())
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
