package fromacp

import "encoding/hex"

// idBytes is how much of an id tells it from all others of a prompt.
const idBytes = 6

// idHead is an id's first bytes.
type idHead [idBytes]byte

// ids are ids that were given.
type ids map[idHead]bool

// give notes an id that was given to what the agent names, and may name again.
func (t *Translator) give(id string) {
	h := headOf(id)
	t.given = append(t.given, h[:]...)
}

func (s ids) has(id string) bool { return len(s) > 0 && s[headOf(id)] }

func readIDs(raw []byte) ids {
	s := make(ids, len(raw)/idBytes)
	for ; len(raw) >= idBytes; raw = raw[idBytes:] {
		s[idHead(raw[:idBytes])] = true
	}
	return s
}

// headOf reads the form of a UUID: eight digits, a hyphen, four digits.
func headOf(id string) (h idHead) {
	var digits [2 * idBytes]byte
	copy(digits[copy(digits[:], id[:8]):], id[9:13])
	_, _ = hex.Decode(h[:], digits[:]) // every id of ours is a UUID
	return h
}
