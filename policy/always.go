package policy

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"strings"
	"time"
)

// Scope is how far an "always" reaches.
type Scope string

// The Scopes, from the narrowest.
const (
	ForSession Scope = "session" // this Session
	ForUser    Scope = "user"    // all Sessions of who prompted, with this agent
	ForAgent   Scope = "agent"   // all of the tenant who prompt this agent
)

// Always is which calls an "always" covers.
//
// A button "always" is pressed quickly and holds for long. So each kind is only offered where the call itself shows
// what it would cover, and what covers more holds for hours instead of weeks.
type Always string

// The kinds of Always, from the narrowest. The empty one is AlwaysExact.
const (
	AlwaysAgent  Always = "agent"  // none: it is a choice of the agent's own, such as of a mode, and is passed on
	AlwaysOnce   Always = "once"   // this call only: it cannot be distinguished from others
	AlwaysExact  Always = "exact"  // the same title with exactly the same arguments
	AlwaysFile   Always = "file"   // edits of the same files, whatever the content
	AlwaysFolder Always = "folder" // edits in the same folder
	AlwaysTool   Always = "tool"   // whatever the tool is called with
)

// How long a standing answer holds that was given by a button. What covers more ends sooner.
const (
	exactTTL = 30 * 24 * time.Hour
	wideTTL  = 8 * time.Hour
)

// ttl is how long an Always holds.
func (a Always) ttl() time.Duration {
	if a == AlwaysExact {
		return exactTTL
	}
	return wideTTL
}

// within reports whether an Always may be given under a limit of a policy's.
func (a Always) within(limit AlwaysLimit) bool {
	return a == AlwaysExact && limit != LimitNone || limit == "" || limit == LimitWide
}

// AlwaysLimit is how wide a standing answer a rule lets people give by a button.
type AlwaysLimit string

// The limits. The empty one is LimitWide.
const (
	LimitNone  AlwaysLimit = "none"
	LimitExact AlwaysLimit = "exact"
	LimitWide  AlwaysLimit = "wide"
)

// GrantFor is the Grant that an "always" to this call means: of the same agent, tool and kind, and
// as far as the call's Always goes. Id, count and giver are the caller's to fill in, and the end
// from the TTL. It fails where the call cannot be distinguished from others.
// The Grant is tried on its own call before it is given: one that would not cover it is an error here and no silent
// nothing.
func GrantFor(c Call, s Scope) (Grant, error) {
	args, err := readStrictly(c.Args)
	if err != nil {
		return Grant{}, err
	}
	fields, ok := args.(map[string]any)
	switch {
	case !ok:
		return Grant{}, errors.New("policy: an always needs arguments that are an object")
	case c.By.Tenant == "" || c.By.User == "" || c.AgentID == "" || c.Session == "":
		return Grant{}, errors.New("policy: an always needs to know whose call it is")
	}
	always := cmp.Or(c.Always, AlwaysExact)
	g := Grant{
		Tenant: c.By.Tenant, Tool: c.Tool, Kind: c.Kind, Agent: c.AgentID, UsesLeft: Unlimited, TTL: always.ttl(),
		Match: always.match(c.Title, fields),
	}
	if !g.fits(&question{Call: c}) {
		return Grant{}, errors.New("policy: an always cannot be written down for this call")
	}
	if s != ForAgent {
		g.User = c.By.User
	}
	if s != ForAgent && s != ForUser {
		g.Session = c.Session
	}
	return g, nil
}

// match is the Match of an Always; nil, which covers nothing, where there can be none.
func (a Always) match(stated string, fields map[string]any) json.RawMessage {
	if hidesChange(fields) && a == AlwaysExact {
		return nil
	}
	name, files := filesOf(fields)
	switch a {
	case AlwaysExact:
		return exactly(stated, fields)
	case AlwaysTool:
		return written(map[string]any{anyOther: true})
	case AlwaysFile:
		if name != "" {
			return written(map[string]any{escaped(name): map[string]any{"equals": fields[name]}, anyOther: true})
		}
	case AlwaysFolder:
		if folder := folderOf(files); folder != "" {
			inside := "prefix_path"
			if _, list := fields[name].([]any); list {
				inside = "prefix_paths"
			}
			return written(map[string]any{escaped(name): map[string]any{inside: folder}, anyOther: true})
		}
	default:
	}
	return nil
}

// hidesChange reports arguments that name files and show nothing of what would change in them:
// the same once more could be anything.
// An agent may ask to edit a file without showing the edit. The same arguments tomorrow could be another change.
func hidesChange(fields map[string]any) bool {
	_, paths := fields["paths"].([]any)
	content, list := fields["content"].([]any)
	return paths && list && len(content) == 0
}

// exactly is the Match of this title with these arguments and no others. Objects among them
// might look like operators.
// The description beside a command is left open, since agents word it anew each time; the command itself is not.
func exactly(stated string, fields map[string]any) json.RawMessage {
	want := make(map[string]any, len(fields)+1)
	if stated != "" {
		want[title] = stated
	}
	for name, value := range fields {
		if _, object := value.(map[string]any); object {
			value = map[string]any{"equals": value}
		}
		want[escaped(name)] = value
	}
	if runs(fields) {
		want["description"] = map[string]any{"any": true}
	}
	return written(want)
}

// runs reports arguments with a command. What describes it beside is made up anew each time, and
// changes nothing.
func runs(fields map[string]any) bool {
	for _, name := range [...]string{"command", "cmd"} {
		switch value := fields[name].(type) {
		case string:
			return value != ""
		case []any:
			return len(value) > 0
		}
	}
	return false
}

// written is a Match as it is kept.
func written(want map[string]any) json.RawMessage {
	raw, err := json.Marshal(want)
	if err != nil {
		return nil // covers nothing; what was read from JSON can be written
	}
	return raw
}

// filesOf finds the one argument that names the files of an edit.
// Two arguments that name files ("from" and "to" as paths) leave it unclear which one the answer was about, so there
// is none.
func filesOf(fields map[string]any) (name string, files []string) {
	for field, value := range fields {
		switch strings.ToLower(strings.ReplaceAll(field, "_", "")) {
		case "path", "paths", "file", "filepath", "filename", "absolutepath", "notebookpath":
		default:
			continue
		}
		named := []string{}
		switch v := value.(type) {
		case string:
			named = append(named, v)
		case []any:
			var ok bool
			if named, ok = texts(v); !ok {
				continue
			}
		default:
			continue
		}
		if name != "" {
			return "", nil // it is unclear which of them is meant
		}
		name, files = field, named
	}
	if len(files) == 0 {
		return "", nil
	}
	return name, files
}

// folderOf is the folder that all files are in, "" when there is no such one that means anything.
// "." and "/" would cover everything.
func folderOf(files []string) string {
	folder := ""
	for _, file := range files {
		if !clear(file) {
			return ""
		}
		dir := path.Dir(path.Clean(file))
		if folder != "" && dir != folder || dir == "." || dir == "/" {
			return ""
		}
		folder = dir
	}
	return folder
}

// Standing is a standing answer that may be offered.
type Standing struct {
	Always Always
	Words  string // what it means, for a button
}

// Standings are those that can be given to a call, the exact one first. A tool of high risk gets
// no wide ones, nor does what is asked under a rule that limits them.
// The order is that of the buttons: the narrowest first.
func Standings(c Call, v Verdict) []Standing {
	limit := v.Always
	if limit == "" && v.Risk == High {
		limit = LimitExact
	}
	candidates := []Always{AlwaysExact, AlwaysTool}
	if c.Kind == "edit" {
		candidates = []Always{AlwaysExact, AlwaysFile, AlwaysFolder, AlwaysTool}
	}
	var list []Standing
	for _, a := range candidates {
		c.Always = a
		if _, err := GrantFor(c, ForSession); err == nil && a.within(limit) {
			list = append(list, Standing{a, a.words(c, min(a.ttl(), cmp.Or(v.GrantTTL, a.ttl())))})
		}
	}
	return list
}

// shownPath bounds a path on a button, in characters; its end is the most specific.
const shownPath = 24

// words is a button's text. It names what is covered and for how long, in terms of the call and never of the agent's
// label.
func (a Always) words(c Call, holds time.Duration) string {
	what := "any " + Visible(c.Tool, shownPath)
	args, _ := readStrictly(c.Args) // a Grant was made of them
	fields, _ := args.(map[string]any)
	_, files := filesOf(fields)
	switch a {
	case AlwaysExact:
		switch what = "exactly this call"; c.Kind {
		case "execute":
			what = "exactly this command"
		case "edit", "delete", "move":
			what = "exactly this change"
		}
	case AlwaysFile:
		what = "edits of these files"
		if len(files) == 1 {
			what = "edits of " + lastOf(files[0])
		}
	case AlwaysFolder:
		what = "edits under " + lastOf(folderOf(files)) + "/"
	default:
	}
	return fmt.Sprintf("always %s in this session, for %s", what, span(holds))
}

// lastOf is the end of a path, made safe to show.
func lastOf(file string) string {
	shown := []rune(Visible(file, len(file)))
	if len(shown) <= shownPath {
		return string(shown)
	}
	return "…" + string(shown[len(shown)-shownPath+1:])
}

func span(d time.Duration) string {
	if days := d / (24 * time.Hour); days > 1 {
		return fmt.Sprintf("%d days", days)
	}
	if d < 2*time.Hour {
		return fmt.Sprintf("%d minutes", d/time.Minute)
	}
	return fmt.Sprintf("%d hours", d/time.Hour)
}

// ForAll reports whether an agent's own label claims that it stands for all calls of the tool, as
// claude's "Always Allow all Write" does.
// A label that goes further than the tool is the agent's own choice and must be shown as such.
func ForAll(label string, c Call) bool {
	words := strings.FieldsFunc(strings.ToLower(plain(label)), func(r rune) bool { return r == ' ' || r == '`' || r == '"' || r == '\'' })
	for i, word := range words {
		if word != "all" || i != len(words)-2 { // "all Write, access to /etc" is more than this tool
			continue
		}
		of := strings.TrimSuffix(words[i+1], "s")
		return of != "" && (of == strings.TrimSuffix(strings.ToLower(c.Tool), "s") || of == c.Kind)
	}
	return false
}
