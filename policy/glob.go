package policy

// glob reports whether the whole text has the pattern's form: * is any number of any
// characters, ? is one, and a backslash takes the special sense from what follows it.
// It tries a * again from one character further, which takes time in proportion to pattern times text and no more:
// both come from untrusted places.
func glob(pattern, text string) bool {
	p, t := []rune(pattern), []rune(text)
	pi, ti := 0, 0
	star, mark := -1, 0 // the last * and where the text after it begins, to try again from
	for ti < len(t) {
		want, width, any := next(p, pi)
		switch {
		case any && want == '*':
			star, mark = pi, ti
			pi++
			continue
		case width > 0 && (any || want == t[ti]):
			pi += width
			ti++
			continue
		case star < 0:
			return false
		}
		mark++
		pi, ti = star+1, mark
	}
	for pi < len(p) && p[pi] == '*' {
		pi++
	}
	return pi == len(p)
}

// next is the pattern's element at i: a character, or with any * or ?. Width 0 is its end.
func next(p []rune, i int) (want rune, width int, any bool) {
	switch {
	case i >= len(p):
		return 0, 0, false
	case p[i] == '\\' && i+1 < len(p):
		return p[i+1], 2, false
	}
	return p[i], 1, p[i] == '*' || p[i] == '?'
}
