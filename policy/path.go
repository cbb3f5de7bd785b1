package policy

import (
	"path"
	"slices"
	"strings"
)

// within reports whether a path is root or under it, as far as the text shows. Links are
// not seen here: who runs the tool has to resolve them before it compares.
// Both must be absolute or both relative: without the folder, a relative path cannot be compared.
func within(root, text string) bool {
	if !clear(root) || !clear(text) || path.IsAbs(root) != path.IsAbs(text) {
		return false
	}
	root, text = path.Clean(root), path.Clean(text)
	return root == "." || root == "/" || text == root || strings.HasPrefix(text, root+"/")
}

// clear reports whether everybody takes the text for the same path. One that goes up does
// not: after a link, up is somewhere else.
func clear(text string) bool {
	return text != "" && plain(text) == text && !goesUp(text) && !strings.ContainsAny(text, `\%`) && !strings.HasPrefix(text, "~")
}

// goesUp reports whether one of the path's steps is "..".
func goesUp(text string) bool {
	return slices.Contains(strings.FieldsFunc(text, func(r rune) bool { return r == '/' || r == '\\' }), "..")
}
