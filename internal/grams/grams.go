// Package grams cuts text into the tokens by which a search finds it: every one, two and three characters that stand
// together in a word. Such tokens find any part of a word in any script, Chinese among them, which writes no spaces.
// The tokens say where to look; whether a text has the words is then compared with the text itself.
package grams

import (
	"hash/fnv"
	"slices"
	"strings"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

const (
	// longest is the number of characters of the longest token. Longer tokens find fewer wrong texts and take more room.
	longest = 3
	// MaxText bounds the text that is searched of one message, in bytes: the tokens of a longer one would hold up the
	// database's writer for seconds. What lies beyond is not found.
	MaxText = 1 << 20
)

// Fold returns a text as it is searched: letters in one case (of which ς is the same as σ, and ß as ss), full-width characters
// as the usual ones, and spaces of all kinds as one.
func Fold(text string) string {
	if len(text) > MaxText {
		text = strings.ToValidUTF8(text[:MaxText], "")
	}
	return strings.Join(strings.Fields(norm.NFKC.String(cases.Fold().String(norm.NFKC.String(text)))), " ")
}

// Words are the words of a query, folded.
func Words(query string) []string { return strings.Fields(Fold(query)) }

// Of returns the tokens of a folded text, sorted, each once. Those of a text contain those of each of its parts.
func Of(folded string) []int32 {
	seen := make(map[int32]struct{})
	for word := range strings.FieldsSeq(folded) {
		addGrams(seen, word, 1)
	}
	return sorted(seen)
}

// OfWords returns the tokens that a text with all the words has. A word is looked for by its longest tokens alone: they
// imply the others.
func OfWords(words []string) []int32 {
	seen := make(map[int32]struct{})
	for _, word := range words {
		addGrams(seen, word, min(longest, len([]rune(word))))
	}
	return sorted(seen)
}

// addGrams adds the tokens of a word that have at least shortest characters.
func addGrams(seen map[int32]struct{}, word string, shortest int) {
	starts := make([]int, 0, len(word)+1)
	for i := range word {
		starts = append(starts, i)
	}
	starts = append(starts, len(word))
	for i := range len(starts) - 1 {
		for n := shortest; n <= longest && i+n < len(starts); n++ {
			seen[hash("", word[starts[i]:starts[i+n]])] = struct{}{}
		}
	}
}

// Label is the token of a thing that a text belongs to. No gram of a text begins with a zero byte, as its hash does.
func Label(name string) int32 { return hash("\x00", name) }

func hash(kind, text string) int32 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(kind)) // a hash never fails
	_, _ = h.Write([]byte(text))
	return int32(h.Sum32()) // all 32 bits, whatever they mean
}

func sorted(seen map[int32]struct{}) []int32 {
	all := make([]int32, 0, len(seen))
	for t := range seen {
		all = append(all, t)
	}
	slices.Sort(all)
	return all
}
