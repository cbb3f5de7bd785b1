package policy

import (
	"slices"
	"strings"
)

const (
	// shellMeta ends a command, begins another, or puts something else in a word's place.
	shellMeta = ";&|<>$`(){}\n\r"
	// shellOpen means something to a shell where it is not quoted.
	shellOpen = `*?[]~#!^%\`
	// shellHalf means something even between double quotes.
	shellHalf = `\!`
)

// isCommand reports whether a shell would make exactly these words of a text.
func isCommand(command string, argv []string) bool {
	words, ok := split(command)
	return ok && slices.Equal(words, argv)
}

// split takes a command apart as a shell does, and refuses every command of which a shell
// would make more than its words: a character that is special to it, quoted or not, and
// whatever cannot be seen.
//
// It is not a shell. Whatever only a shell could take apart (substitution, redirection, patterns, escapes) is refused,
// because a rule for ["git","status"] must not let "git status $(rm -rf /)" through.
func split(command string) (words []string, ok bool) {
	if strings.ContainsAny(command, shellMeta) || unseen(command) {
		return nil, false
	}
	for rest := strings.Trim(command, " \t"); rest != ""; rest = strings.TrimLeft(rest, " \t") {
		var word string
		if word, rest, ok = nextWord(rest); !ok {
			return nil, false
		}
		words = append(words, word)
	}
	return words, len(words) > 0
}

// nextWord takes the first word off. Its parts may be quoted or not.
func nextWord(text string) (word, rest string, ok bool) {
	var b strings.Builder
	for text != "" && !strings.ContainsRune(" \t", rune(text[0])) {
		var part string
		if part, text, ok = nextPart(text); !ok {
			return "", "", false
		}
		b.WriteString(part)
	}
	return b.String(), text, true
}

// nextPart takes a quoted or an unquoted piece of a word off. text is not empty. An open quote is refused, and so is
// what a shell still interprets within its kind of quotes.
func nextPart(text string) (part, rest string, ok bool) {
	switch quote := text[0]; quote {
	case '\'', '"':
		part, rest, ok = strings.Cut(text[1:], string(quote))
		return part, rest, ok && (quote == '\'' || !strings.ContainsAny(part, shellHalf))
	}
	end := strings.IndexAny(text, " \t'\"")
	if end < 0 {
		end = len(text)
	}
	return text[:end], text[end:], !strings.ContainsAny(text[:end], shellOpen)
}

// unseen reports whether a text has what cannot be seen, or spaces that are not spaces.
func unseen(text string) bool {
	return strings.ContainsFunc(text, func(r rune) bool { return r != ' ' && r != '\t' && !visible(r) })
}

// hasMeta is for commands that come as a list. No shell takes such a list apart, but a program that joins its words
// might give them to one.
func hasMeta(words []string) bool {
	return slices.ContainsFunc(words, func(w string) bool { return strings.ContainsAny(w, shellMeta) || unseen(w) })
}

// sameMeta reports whether a text has the special characters of the pattern it fits, one by
// one, and no others: * stands for none of them.
// So "go test *" allows "go test ./... -run X" and not "go test ./... && curl …".
func sameMeta(pattern, text string) bool { return metaOf(pattern) == metaOf(text) }

func metaOf(text string) string {
	if !strings.ContainsAny(text, shellMeta) {
		return ""
	}
	return strings.Map(func(r rune) rune {
		if strings.ContainsRune(shellMeta, r) {
			return r
		}
		return -1
	}, text)
}
