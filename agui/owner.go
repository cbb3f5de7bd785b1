package agui

// Everything started belongs to a subagent or to the run itself (AG-UI 1.0, "Subagent attribution").

// owners are the subagents to which the things of a run belong, "" being the run itself. They outlive the end of the
// thing: what comes late, such as an encrypted value, must still agree.
// A run's owners are forgotten when the next run starts: ids are unique within a run.
type owners map[ownedItem]string

// ownedItem is what has an owner. An ended item is one too.
type ownedItem struct {
	kind kind
	id   string
}

// ownerKind: a span and a message of one id share an owner, though they open
// and close on their own.
func ownerKind(k kind) kind {
	if k == kindSpan {
		return kindThought
	}
	return k
}

// check: an untagged event agrees with any owner, a tagged one only with
// its own. Things of the run itself have the empty owner, which no tag matches.
func (o owners) check(ev Event, k kind, id, tag string) error {
	if owner, known := o[ownedItem{k, id}]; known && tag != "" && tag != owner {
		return broken(RuleOwner, ev, id)
	}
	return nil
}

// ofCall is the owner of a call that begins: it belongs to the message that carries it, so it belongs to
// whom that message belongs.
func (o owners) ofCall(ev Event, call *item) (string, error) {
	if call.extra == "" {
		return call.owner, nil
	}
	if err := o.check(ev, kindText, call.extra, call.owner); err != nil {
		return "", err
	}
	owner, known := o[ownedItem{kindText, call.extra}]
	if !known {
		return call.owner, nil
	}
	if before, started := o[ownedItem{kindTool, call.id}]; started && before != owner {
		return "", broken(RuleOwner, ev, call.id)
	}
	return owner, nil
}

// checkEncrypted looks for what an encrypted value belongs to: a call, a message, or a thought.
func (o owners) checkEncrypted(e *ReasoningEncryptedValue) error {
	k := kindThought
	if _, known := o[ownedItem{kindText, e.EntityID}]; known {
		k = kindText
	}
	if e.Subtype == "tool-call" {
		k = kindTool
	}
	return o.check(e, k, e.EntityID, e.SubagentRunID)
}
