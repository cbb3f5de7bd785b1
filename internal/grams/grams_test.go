package grams_test

import (
	"slices"
	"strings"
	"testing"

	"aqueduct/internal/grams"
)

// TestPartsAreFound: a text has all tokens of each part of each of its words, in any script, and few of another text.
func TestPartsAreFound(t *testing.T) {
	t.Parallel()
	text := "The Ｑuarterly report, 上海的天气 für Ünïcode 👩‍💻 and naïve ΣΊΣΥΦΟΣ Straße x"
	of := grams.Of(grams.Fold(text))
	has := func(query string) bool {
		for _, token := range grams.OfWords(grams.Words(query)) {
			if _, ok := slices.BinarySearch(of, token); !ok {
				return false
			}
		}
		return true
	}
	for word := range strings.FieldsSeq(text) {
		runes := []rune(word)
		for i := range runes {
			for j := i + 1; j <= len(runes); j++ {
				if part := string(runes[i:j]); !has(part) {
					t.Errorf("%q of %q is not found", part, word)
				}
			}
		}
	}
	for _, query := range []string{"quarterly 天气", "REPORT the", "ünïcode", "σίσυφος", "STRASSE"} {
		if !has(query) {
			t.Errorf("%q is not found", query)
		}
	}
	for _, query := range []string{"z", "天上", "quarts", "海上", "xy"} {
		if has(query) {
			t.Errorf("%q is found", query)
		}
	}
	if words := grams.Words(" \t\u3000 "); len(words) > 0 {
		t.Errorf("%q", words)
	}
	if long := grams.Fold(strings.Repeat("天", grams.MaxText)); len(long) > grams.MaxText || !strings.HasPrefix(long, "天") {
		t.Errorf("%d bytes", len(long))
	}
}
