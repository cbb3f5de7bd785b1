package fromacp

// A Run that asks somebody ends while the agent may go on, and what is open in the log ends
// with it. What goes on in the next Run is something new there.

// Part appends the end of what is said, when the Run may end behind it. A call whose arguments
// are still to come may be ended too.
func (t *Translator) Part(dst []Out) []Out {
	dst = t.SayArguments(dst)
	for _, c := range t.open {
		c.taken = c.taken || !c.said
	}
	return t.closeSpeech(dst)
}

// Parted is told when the Run has ended: with it all that was open. Arguments that were not told
// by then cannot be told any more, but as a change.
func (t *Translator) Parted() {
	t.speech.id = ""
	for _, c := range t.open {
		if !c.said {
			c.said, c.args = true, arguments(nil)
		}
	}
}
