package fromacp

import (
	"maps"
	"slices"
)

// maxSnapshot bounds a snapshot, in bytes. It is kept with every commit, so it must be short.
const maxSnapshot = 6 << 10

// snapshotForm is the first byte: another form is another byte, and is not read.
const snapshotForm = 2

// Snapshot appends what a Translator that takes this one's place has to know of the prompt
// under way: what is being said, which calls, plans and steps are open, and which ids were
// given. It appends nothing when there is nothing to know, as between prompts. It is false
// when that is more than a snapshot may hold: the other then begins under ids of its own.
func (t *Translator) Snapshot(dst []byte) ([]byte, bool) {
	if t.speech.id == "" && len(t.given)+len(t.open)+len(t.plans)+len(t.steps) == 0 && t.replay.none() {
		return dst, true
	}
	if len(t.given) > maxSnapshot || len(t.open) > maxSnapshot/8 {
		return dst, false // it need not be written to be seen to be too much
	}
	begin := len(dst)
	dst = append(dst, snapshotForm, t.replay.flags())
	dst = putText(t.speech.snapshot(dst), t.given)
	dst = putNumber(dst, len(t.open))
	for _, c := range t.open {
		var ok bool
		if dst, ok = c.snapshot(dst); !ok {
			return dst[:begin], false
		}
	}
	dst = putNumber(dst, len(t.plans))
	for _, upstream := range slices.Sorted(maps.Keys(t.plans)) {
		dst = putText(putText(dst, upstream), t.plans[upstream])
	}
	dst = putTexts(dst, t.steps)
	if len(dst)-begin > maxSnapshot {
		return dst[:begin], false
	}
	return dst, true
}

// resume takes up what another Translator's snapshot says, all of it or nothing.
func (t *Translator) resume(snapshot []byte) error {
	if len(snapshot) == 0 {
		return nil
	}
	s := slip{left: snapshot}
	if len(snapshot) < 2 || snapshot[0] != snapshotForm {
		return errSlip
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
		return errSlip
	}
	spoken.segments = t.speech.segments
	t.speech, t.plans, t.steps = spoken, plans, steps
	t.replay.setFlags(snapshot[1])
	t.before, t.given = readIDs(given), append(t.given, given...)
	for _, c := range calls {
		c.id = t.id("call", ordinal(c.seen.ID, c.use))
		t.calls[c.seen.ID] = c
		t.open = append(t.open, c)
	}
	return nil
}

func (s *speech) snapshot(dst []byte) []byte {
	dst = putText(dst, s.parent)
	if s.id == "" {
		return putText(dst, "")
	}
	return putText(putText(putText(dst, s.id), voice(s.thought)), s.upstream)
}

func readSpeech(from *slip) (s speech) {
	s.parent, s.id = from.text(), from.text()
	if s.id != "" {
		s.thought, s.upstream = from.text() == voice(true), from.text()
		s.taken, s.unended = true, true
	}
	return s
}
