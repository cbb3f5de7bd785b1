package translate

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"aqueduct/acpgateway/wire"
)

// What a person was asked about is compared with what runs then. Agents spell the two
// differently: opencode asks with {filepath, diff} and runs {filePath, content}; the call's
// arguments may come in parts; and one side often explains more than the other. So members are
// compared one by one, by names without case and underscores, and only what contradicts counts.

// stated is what the agent had stated of a call's arguments when it asked.
type stated struct {
	members []statedMember // of the question first
	asked   int            // how many are the question's; the others the call itself had named
	whole   bool           // the question showed the call's own arguments: any other member was not stated
}

// statedMember is one of them. Of a long value only the hash is kept.
type statedMember struct {
	name  string
	value string // canonical JSON; "" for a long one
	hash  []byte
}

const (
	// statedHash is how much of a hash is kept, in bytes.
	statedHash = 16
	// statedValue is how long a value is kept as it is: a path is compared by its end.
	statedValue = 256
	// statedMembers bounds how many are compared; a call with more is compared as one.
	statedMembers = 32
)

// statedOf reads the arguments of a question, and those that its call had before.
func statedOf(asked, own json.RawMessage) *stated {
	s := &stated{whole: wire.EmptyInput(asked)}
	if s.whole {
		asked = own
	}
	s.members = membersOf(asked)
	s.asked = len(s.members)
	for _, m := range membersOf(own) {
		if indexOf(s.members, m.name) < 0 {
			s.members = append(s.members, m)
		}
	}
	if len(s.members) > statedMembers {
		return &stated{members: []statedMember{memberOf("", decodeExact(asked))}, asked: 1, whole: true}
	}
	return s
}

// membersOf are the members of arguments, sorted by the names they have there. A name is replaced by the usual one
// unless the arguments have that too: then the two mean different things.
func membersOf(input json.RawMessage) []statedMember {
	fields, _ := decodeExact(input).(map[string]any)
	members := make([]statedMember, 0, len(fields))
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		members = append(members, memberOf(plainKey(name), fields[name]))
	}
	for i, m := range members {
		if other := usualKey(m.name); indexOf(members, other) < 0 {
			members[i].name = other
		}
	}
	return members
}

func indexOf(members []statedMember, name string) int {
	return slices.IndexFunc(members, func(m statedMember) bool { return m.name == name })
}

// memberOf is a member with its value in canonical form.
func memberOf(name string, value any) statedMember {
	raw := marshal(value)
	sum := sha256.Sum256(raw)
	m := statedMember{name: name, hash: sum[:statedHash]}
	if len(raw) <= statedValue {
		m.value = string(raw)
	}
	return m
}

// plainKey is a member's name as agents have in common: file_path, filePath, filepath.
func plainKey(name string) string {
	return strings.ToLower(strings.NewReplacer("_", "", "-", "").Replace(name))
}

// usualKey is the name that most agents have for what some call otherwise.
func usualKey(name string) string {
	switch name {
	case "cmd", "commandline":
		return "command"
	case "filepath", "file", "filename", "absolutepath":
		return "path"
	case "workdir", "workingdirectory", "directory":
		return "cwd"
	}
	return name
}

// contradicts reports whether arguments are others than what was stated. A member that is missing may come later. One
// that was not stated counts only where all of the question's are there: else the two are in different vocabularies, and
// nothing follows from a name that the question does not have.
func (sa *stated) contradicts(now json.RawMessage) bool {
	if len(sa.members) == 1 && sa.members[0].name == "" {
		return !sa.members[0].same(memberOf("", decodeExact(now)))
	}
	members := membersOf(now)
	alike := 0
	for i, was := range sa.members {
		at := indexOf(members, was.name)
		if at < 0 {
			continue
		}
		if i < sa.asked {
			alike++
		}
		if !was.same(members[at]) {
			return true
		}
	}
	if alike < sa.asked && !sa.whole {
		return false // of another vocabulary, or a part
	}
	return slices.ContainsFunc(members, func(m statedMember) bool { return !explains(m.name) && indexOf(sa.members, m.name) < 0 })
}

// explains lists members that say something of a call and change nothing that it does.
func explains(name string) bool {
	switch name {
	case "description", "title", "reason", "explanation", "justification", "summary", "timeout", "timeoutms", "callid", "toolcallid":
		return true
	}
	return false
}

// same reports whether two members of one name agree.
func (m statedMember) same(now statedMember) bool {
	if bytes.Equal(m.hash, now.hash) {
		return true
	}
	return strings.Contains(m.name, "path") && samePath(m.value, now.value)
}

// samePath reports whether one is the other's end: of the same file one side may name the whole
// path and the other the path in the workspace.
func samePath(a, b string) bool {
	var x, y string
	if json.Unmarshal([]byte(a), &x) != nil || json.Unmarshal([]byte(b), &y) != nil || x == "" || y == "" {
		return false
	}
	return endsWith(x, y) || endsWith(y, x)
}

// endsWith reports whether short is a path in some directory of which whole is the full path.
func endsWith(whole, short string) bool {
	short = strings.TrimPrefix(short, "./")
	return strings.HasPrefix(whole, "/") && !strings.HasPrefix(short, "/") && !slices.Contains(strings.Split(short, "/"), "..") && strings.HasSuffix(whole, "/"+short)
}

// diffsOf are the changes of files that a call shows, nil when it shows none.
func diffsOf(c wire.ToolCall) json.RawMessage {
	type change struct {
		Path string  `json:"path"`
		Old  *string `json:"old"`
		New  string  `json:"new"`
	}
	var changes []change
	for _, piece := range c.Content {
		if piece.Type == wire.ToolContentDiff {
			changes = append(changes, change{piece.Path, piece.OldText, piece.NewText})
		}
	}
	if changes == nil {
		return nil
	}
	return marshal(changes)
}

func (sa *stated) snapshot(dst []byte) []byte {
	if sa == nil {
		return putNumber(dst, 0)
	}
	whole := 0
	if sa.whole {
		whole = 1
	}
	dst = putNumber(putNumber(putNumber(dst, len(sa.members)+1), sa.asked), whole)
	for _, m := range sa.members {
		dst = putText(putText(putText(dst, m.name), m.value), m.hash)
	}
	return dst
}

func readStated(from *snapshotReader) *stated {
	n := from.number()
	if n == 0 || n > statedMembers+1 {
		return nil
	}
	s := &stated{asked: from.number(), whole: from.number() == 1}
	for ; n > 1 && !from.bad; n-- {
		s.members = append(s.members, statedMember{name: from.text(), value: from.text(), hash: given(from.bytes())})
	}
	return s
}
