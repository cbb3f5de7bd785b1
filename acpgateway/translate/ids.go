package translate

import (
	"encoding/hex"
	"encoding/json"
	"strconv"

	"github.com/google/uuid"

	"aqueduct/agui"
)

// ids gives the log's ids for the agent's: the same for the same, in all of the Session. The log must never
// show an id of the agent's own, because with it a client could answer or address the agent directly.
//
// An id is the UUIDv5 of kind and the agent's id in the Session's namespace, so it needs no table: the same frame
// after a restart, or on another replica, gets the same id.
type ids struct {
	namespace uuid.UUID
	epoch     string
	nameless  int               // ids made for what came without one
	calls     map[string]string // of tool calls, the newest of each of the agent's ids; raw values refer to that
	given     []byte            // the beginnings of ids given in this prompt
	before    idSet             // those given before a snapshot
}

func newIDs(session, epoch string) *ids {
	namespace, err := uuid.Parse(session)
	if err != nil {
		namespace = uuid.NewSHA1(uuid.NameSpaceOID, []byte(session))
	}
	return &ids{namespace: namespace, epoch: epoch, calls: make(map[string]string)}
}

// separate moves all further ids out of the way of those that an unreadable snapshot may have listed.
func (i *ids) separate() { i.namespace = uuid.NewSHA1(i.namespace, []byte(i.epoch)) }

// id stands for an id of the agent's.
func (i *ids) id(kind, upstream string) string {
	return uuid.NewSHA1(i.namespace, []byte(kind+":"+upstream)).String()
}

// fresh is an id for what came without one.
func (i *ids) fresh(kind string) string {
	i.nameless++
	return i.id(kind, "epoch:"+i.epoch+":"+strconv.Itoa(i.nameless))
}

// ordinal is an upstream id's nth use.
func ordinal(upstream string, n int) string {
	if n == 0 {
		return upstream
	}
	return upstream + "#" + strconv.Itoa(n)
}

// maxName bounds a name that an agent makes up.
const maxName = 128

// custom keeps a raw value, with the log's ids in it.
func (i *ids) custom(dst []Out, name string, raw json.RawMessage) []Out {
	return event(dst, &agui.Custom{Name: head(name, maxName), Value: i.scrub(raw)})
}

// idBytes is how much of an id separates it from all others of a prompt.
const idBytes = 6

// idHead is an id's first bytes.
type idHead [idBytes]byte

// idSet holds ids by their first bytes.
type idSet map[idHead]bool

// give records an id that stands for one of the agent's, which may send it again. A Translator that resumes
// from the snapshot must know that the log has it.
// Only the first six bytes are kept: the list stands in every snapshot, and two ids of one prompt that agree in them
// are not to be expected.
func (i *ids) give(id string) {
	h := headOf(id)
	i.given = append(i.given, h[:]...)
}

func (set idSet) has(id string) bool { return len(set) > 0 && set[headOf(id)] }

func readIDs(raw []byte) idSet {
	set := make(idSet, len(raw)/idBytes)
	for ; len(raw) >= idBytes; raw = raw[idBytes:] {
		set[idHead(raw[:idBytes])] = true
	}
	return set
}

// headOf reads the form of a UUID: eight digits, a hyphen, four digits.
func headOf(id string) (h idHead) {
	var digits [2 * idBytes]byte
	copy(digits[copy(digits[:], id[:8]):], id[9:13])
	_, _ = hex.Decode(h[:], digits[:]) // every id given here is a UUID
	return h
}
