package safetext

import (
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

// LooksLike reports whether a person could take one name for the other. Case, accents, spaces, punctuation and what does not
// show do not count. A letter of another script counts as the Latin letter that it looks like, and one that is not in the
// table as any letter, if at least half of the name agrees.
func LooksLike(a, b string) bool {
	x, y := []rune(skeleton(a)), []rune(skeleton(b))
	if len(x) != len(y) || len(x) == 0 {
		return false
	}
	same := 0
	for i := range x {
		switch {
		case x[i] == y[i]:
			same++
		case x[i] < unicode.MaxASCII && y[i] < unicode.MaxASCII:
			return false
		}
	}
	return 2*same >= len(x)
}

// drawnAlike folds ASCII letters that many fonts draw alike. Each name is folded, so a fold that goes too far only refuses
// more.
var drawnAlike = strings.NewReplacer("0", "o", "1", "l", "i", "l", "|", "l", "$", "s", "@", "a")

// drawnAsOne are pairs that are drawn like one letter. They are folded after the letters, because i is l by then.
var drawnAsOne = strings.NewReplacer("rn", "m", "vv", "w", "cl", "d")

// skeleton is what of a name a person compares.
func skeleton(name string) string {
	var out strings.Builder
	for _, r := range norm.NFKD.String(name) {
		if !unicode.IsGraphic(r) || unicode.In(r, unicode.M, unicode.Z) || blank(r) || unicode.IsPunct(r) && r != '@' {
			continue
		}
		r = latin(r)
		out.WriteRune(latin(unicode.ToLower(r)))
	}
	return drawnAsOne.Replace(drawnAlike.Replace(out.String()))
}

// latin is the Latin letter that a character looks like, or the character. Capitals are looked up before they are lowered:
// the small letter of the Cyrillic В does not look like b.
func latin(r rune) rune {
	for _, block := range []struct{ first, last rune }{
		{0x1f150, 0x1f169}, {0x1f170, 0x1f189}, {0x1f1e6, 0x1f1ff}, // letters on black, and of flags
	} {
		if r >= block.first && r <= block.last {
			return 'a' + r - block.first
		}
	}
	if as, ok := confusable[r]; ok {
		return as
	}
	return r
}

// confusable are letters of the scripts in which whole words can be written that look like Latin ones.
var confusable = confusables(
	// Cyrillic
	"аa", "ӕa", "вb", "сc", "ԁd", "еe", "ёe", "єe", "ғf", "ԍg", "һh", "іi", "їi", "јj", "кk", "ӏl", "мm", "пn", "оo", "рp", "ԛq", "гr", "ѕs", "тt", "цu", "ѵv", "ԝw", "шw", "хx", "уy", "үy",
	"АA", "ВB", "СC", "ЕE", "ЁE", "Ԍg", "НH", "ІI", "ЇI", "ЈJ", "КK", "ӀI", "МM", "ОO", "РP", "Ԛq", "ЅS", "ТT", "Ѵv", "Ԝw", "ХX", "УY", "ҮY", "Зz",
	// Greek
	"αa", "βb", "ϲc", "δd", "εe", "ϝf", "ηn", "ιi", "ϳj", "κk", "νv", "οo", "ρp", "σo", "τt", "υu", "χx", "γy", "ωw", "μu",
	"ΑA", "ΒB", "ϹC", "ΕE", "ΗH", "ΙI", "ͿJ", "ΚK", "ΜM", "ΝN", "ΟO", "ΡP", "ΤT", "ΥY", "ΧX", "ΖZ",
	// Armenian
	"օo", "հh", "ոn", "սu", "ցg", "զq", "յj", "ԼL", "ՍU", "ՕO", "Տs",
	// Cherokee
	"ᎪA", "ᏴB", "ᏟC", "ᎠD", "ᎬE", "ᏀG", "ᎻH", "ᎫJ", "ᏦK", "ᏞL", "ᎷM", "ᏁN", "ᏢP", "ᎡR", "ᏒR", "ᏚS", "ᎢT", "ᏙV", "ᎳW", "ᎽY", "ᏃZ",
	// Lisu
	"ꓮA", "ꓐB", "ꓚC", "ꓓD", "ꓰE", "ꓝF", "ꓖG", "ꓧH", "ꓲI", "ꓙJ", "ꓗK", "ꓡL", "ꓟM", "ꓠN", "ꓳO", "ꓑP", "ꓣR", "ꓢS", "ꓔT", "ꓴU", "ꓦV", "ꓪW", "ꓫX", "ꓬY", "ꓜZ",
	// Latin letters that are no accented ones, and small capitals
	"ıi", "ɑa", "ɡg", "łl", "ŁL", "øo", "ØO", "đd", "ĐD", "ħh", "ŋn", "ɩi", "ƖI", "ǀl", "ʟl",
	"ᴀa", "ʙb", "ᴄc", "ᴅd", "ᴇe", "ꜰf", "ɢg", "ʜh", "ɪi", "ᴊj", "ᴋk", "ᴍm", "ɴn", "ᴏo", "ᴘp", "ʀr", "ꜱs", "ᴛt", "ᴜu", "ᴠv", "ᴡw", "ʏy", "ᴢz",
)

// confusables reads pairs: a character, and the Latin letter that it looks like.
func confusables(pairs ...string) map[rune]rune {
	table := make(map[rune]rune, len(pairs))
	for _, pair := range pairs {
		letters := []rune(pair)
		table[letters[0]] = letters[1]
	}
	return table
}
