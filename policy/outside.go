package policy

import (
	"path"
	"strings"
)

// looksOutside is why the default does not allow a call that claims only to look: it names a
// command, or a place that is not in the Session's folder as far as the text shows. "" when it
// may look.
// Reading is the one thing that the default allows without asking, so that an agent can look around its own project.
// Keys and other people's files lie outside of it.
func (q *question) looksOutside() string {
	if q.namesCommand() {
		return "It says that it only looks, and its arguments say more, or cannot be read for certain."
	}
	args, err := q.args.read(q.Args)
	if err != nil || !q.inside(args) {
		return "It looks outside the folder of its session."
	}
	for _, word := range strings.Fields(q.Title) {
		if !q.insideText(strings.Trim(word, "`'\"()[],:")) {
			return "It looks outside the folder of its session."
		}
	}
	return ""
}

// inside reports whether no text among the arguments is a place outside.
func (q *question) inside(value any) bool {
	switch v := value.(type) {
	case string:
		return q.insideText(v)
	case []any:
		for _, item := range v {
			if !q.inside(item) {
				return false
			}
		}
	case map[string]any:
		for _, field := range v {
			if !q.inside(field) {
				return false
			}
		}
	}
	return true
}

// insideText reports whether a text names no place, or one in the folder. Whatever could be a
// place elsewhere is taken for one: to ask needlessly costs a question only.
func (q *question) insideText(text string) bool {
	text = strings.TrimSpace(text)
	if scheme, rest, ok := strings.Cut(text, "://"); ok {
		if !strings.EqualFold(scheme, "file") {
			return true // of the network: that it is fetched is another kind of call
		}
		text = rest
	}
	switch {
	case strings.HasPrefix(text, "~"), strings.HasPrefix(text, `\`), driven(text), goesUp(text):
		return false
	case path.IsAbs(text):
		return q.Folder != "" && within(q.Folder, text)
	}
	return true
}

// driven reports a path of Windows, such as C:\Users.
func driven(text string) bool {
	return len(text) > 2 && text[1] == ':' && (text[2] == '\\' || text[2] == '/')
}
