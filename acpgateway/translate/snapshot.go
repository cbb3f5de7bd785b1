package translate

import (
	"maps"
	"slices"
)

// maxSnapshot bounds a snapshot, in bytes. It is kept with every commit, so it must be short.
const maxSnapshot = 6 << 10

// snapshotForm is the first byte: another form is another byte, and is not read.
const snapshotForm = 2

// Snapshot appends what a Translator that takes this one's place has to know of the prompt
// under way: the open message, which calls, plans and steps are open, and which ids were
// given. It appends nothing when there is nothing to know, as between prompts. It is false
// when that is more than a snapshot may hold: the other then begins under ids of its own.
//
// Its form: a version byte, flags of the replay, the open message, the ids given, the open calls, the plans, the open
// steps; texts with their length before them. It is binary because it stands in every commit while a prompt runs.
func (t *Translator) Snapshot(dst []byte) ([]byte, bool) {
	if t.speech.id == "" && len(t.ids.given)+len(t.calls.open)+len(t.plans.shown)+len(t.host.steps) == 0 && t.replay.none() {
		return dst, true
	}
	if len(t.ids.given) > maxSnapshot || len(t.calls.open) > maxSnapshot/8 {
		return dst, false // it need not be written to be seen to be too much
	}
	begin := len(dst)
	dst = append(dst, snapshotForm, t.replay.flags())
	dst = putText(t.speech.snapshot(dst), t.ids.given)
	dst = putNumber(dst, len(t.calls.open))
	for _, c := range t.calls.open {
		var ok bool
		if dst, ok = c.snapshot(dst); !ok {
			return dst[:begin], false
		}
	}
	dst = putNumber(dst, len(t.plans.shown))
	for _, upstream := range slices.Sorted(maps.Keys(t.plans.shown)) {
		dst = putText(putText(dst, upstream), t.plans.shown[upstream])
	}
	dst = putTexts(dst, t.host.steps)
	if len(dst)-begin > maxSnapshot {
		return dst[:begin], false
	}
	return dst, true
}

// resume takes over the state in another Translator's snapshot, all of it or nothing.
// An error leaves the Translator as New made it, with ids that cannot meet those of the snapshot.
func (t *Translator) resume(snapshot []byte) error {
	if len(snapshot) == 0 {
		return nil
	}
	s := snapshotReader{left: snapshot}
	if len(snapshot) < 2 || snapshot[0] != snapshotForm {
		return errNotSnapshot
	}
	s.left = snapshot[2:]
	spoken := readSpeech(&s)
	given := s.bytes()
	calls := make([]*call, 0, 4)
	for n := s.number(); n > 0 && !s.bad; n-- {
		calls = append(calls, readCall(&s))
	}
	plans := make(map[string]string)
	for n := s.number(); n > 0 && !s.bad; n-- {
		upstream := s.text()
		plans[upstream] = s.text()
	}
	steps := s.texts()
	if s.bad || len(s.left) > 0 {
		return errNotSnapshot
	}
	// Nothing was changed up to here, so a snapshot that cannot be read leaves no trace.
	spoken.ids, spoken.replay, spoken.segments = t.ids, t.replay, t.speech.segments
	*t.speech, t.plans.shown, t.host.steps = spoken, plans, steps
	t.replay.setFlags(snapshot[1])
	t.ids.before, t.ids.given = readIDs(given), append(t.ids.given, given...)
	for _, c := range calls {
		c.id = t.ids.id("call", ordinal(c.seen.ID, c.use))
		t.calls.byID[c.seen.ID], t.ids.calls[c.seen.ID] = c, c.id
		t.calls.open = append(t.calls.open, c)
	}
	return nil
}

// snapshot appends the message that tool calls hang under, and the open one, if any. Which messages an upstream id has
// begun (segments) is not in it: their ids are among those given, which nextMessageID passes over.
func (s *speech) snapshot(dst []byte) []byte {
	dst = putText(dst, s.parent)
	if s.id == "" {
		return putText(dst, "")
	}
	return putText(putText(putText(dst, s.id), voice(s.thought)), s.upstream)
}

func readSpeech(from *snapshotReader) (s speech) {
	s.parent, s.id = from.text(), from.text()
	if s.id != "" {
		s.thought, s.upstream = from.text() == voice(true), from.text()
		// The log's writer ends what a Run leaves open, so the END is not ours to emit until words follow.
		s.resumed, s.endedByLog = true, true
	}
	return s
}
