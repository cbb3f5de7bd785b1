package approval

import (
	"context"
	"strconv"
	"strings"

	"aqueduct/bridge/redact"
)

// OptionIDs makes the ids that options have on pages of TDesign and of decision links: <card>:<n>:<mac>. Agents number their
// options alike, and such a page may lose the id of the card that it answers.
//
// An agent can write any text into a card of its own, also the id of its pending Question. Without the MAC the press of a
// button on that card would decide the Question.
type OptionIDs struct{ Hash redact.Hasher }

// ID returns the id of the nth option of a card.
func (o OptionIDs) ID(cardID string, n int) string {
	name := cardID + ":" + strconv.Itoa(n)
	return name + ":" + o.Hash.MAC("option", name)
}

// card returns the card of an option id. It reports false for an id that ID has not made.
func (o OptionIDs) card(id string) (cardID string, n int, ok bool) {
	at := strings.LastIndexByte(id, ':')
	if at < 0 || !o.Hash.VerifyMAC("option", id[:at], id[at+1:]) {
		return "", 0, false
	}
	name := id[:at]
	at = strings.LastIndexByte(name, ':')
	n, err := strconv.Atoi(name[at+1:])
	return name[:max(at, 0)], n, at > 0 && err == nil
}

// Complete names the Question of an answer whose page lost the card's id, by the option that it chose. An answer that names a
// card is for that card, whatever its option says.
func (o OptionIDs) Complete(a Answer) Answer {
	if a.QuestionID != "" || a.Command != nil {
		return a
	}
	said, err := parsePermission(a.Payload)
	if err != nil || len(said.options) == 0 {
		return a
	}
	if cardID, _, ok := o.card(said.options[0]); ok {
		a.QuestionID, a.CardID = QuestionOf(cardID), cardID
	}
	return a
}

// Read turns an Answer into a Decision. Only an option the Question offered counts, and
// only its kind decides what it does; whatever else comes is *fault.Error and changes nothing.
// An answer is checked against its schema outside of a transaction: see schema.Outside.
//
// It changes nothing and may be called as often as one likes: in the transaction that applies it, and before it, to
// find out whether a schema has to be checked first.
func (o OptionIDs) Read(ctx context.Context, q Question, a Answer) (Decision, error) {
	return read(ctx, q, a, func(id string) (n int, ok bool) {
		cardID, n, ok := o.card(id)
		return n, ok && QuestionOf(cardID) == q.Call.ID
	})
}
