// Package grams cuts text into the tokens by which a search finds it: all sequences of one, two and three characters in a
// word. Such tokens find any part of a word in any script, including Chinese, which writes no spaces. The tokens only select
// candidates; the search then compares each text with the words.
package grams

import (
	"hash/fnv"
	"slices"
	"strings"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

const (
	// longest is the number of characters of the longest token. Longer tokens match fewer wrong texts and take more room.
	longest = 3
	// MaxText bounds the searched text of one message, in bytes. The tokens of a longer one would block the database's writer
	// for seconds. The rest is not found.
	MaxText = 1 << 20
)

// Fold returns a text in its searched form: letters in one case (ς as σ, ß as ss), full-width characters as the usual ones,
// and any white space as one space.
func Fold(text string) string {
	if len(text) > MaxText {
		text = strings.ToValidUTF8(text[:MaxText], "")
	}
	return strings.Join(strings.Fields(norm.NFKC.String(cases.Fold().String(norm.NFKC.String(text)))), " ")
}

// Words returns the words of a query, folded.
func Words(query string) []string { return strings.Fields(Fold(query)) }

// Of returns the distinct tokens of a folded text, sorted. The tokens of a text include those of each of its parts.
func Of(folded string) []int32 {
	seen := make(map[int32]struct{})
	for word := range strings.FieldsSeq(folded) {
		addGrams(seen, word, 1)
	}
	return sorted(seen)
}

// OfWords returns the tokens that a text with all the words has. For a word it returns only the longest tokens, which imply
// the others.
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

// Label returns a token for an object that a text belongs to. The hashed name begins with a zero byte; no token of a text does.
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
