// This file reads the answer to a permission. Chats, TDesign pages, REST and sockets spell it in ways of their own: an
// option's id, its kind, approved, or a word. All of them become one of the options that the agent offered, or a
// refusal; what could mean two of them is an error, never a guess.

package approval

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"

	"aqueduct/agui"
	"aqueduct/internal/fault"
	"aqueduct/internal/strictjson"
	"aqueduct/store"
)

// The order decides between contradictory answers: a cancel wins over a refusal, a refusal over an option. None of
// them can turn a no into a yes.
func readPermission(d Decision, q Question, a Answer, place places) (Decision, error) {
	payload := Unwrapped(a.Payload)
	if offer, ok := OfferOf(q.Approval.ResponseSchema); ok {
		payload = offer.canonical(payload)
	}
	said, err := parsePermission(payload)
	if err != nil {
		return d, err
	}
	d.Reason = cmp.Or(d.Reason, said.reason)
	if said.cancelled || said.refuses(q, place) {
		d.decline(store.ApprovalCancelled, agui.ResumeCancelled)
		return d, nil
	}
	o, err := said.choose(q, place)
	if err != nil {
		return d, err
	}
	d.Option, d.Payload = o, permissionPayload(o)
	d.Status, d.Result = store.ApprovalApproved, permissionResult("approved", o)
	if d.Edited = said.edited; !o.Allows() {
		d.Edited = nil
		d.Status, d.ErrorCode, d.Result = store.ApprovalRejected, "rejected", permissionResult("rejected", o)
	}
	return d, nil
}

// saidPermission is what the spellings of a permission's answer have in common.
// It names every option that the answer names, not the first: an answer with two is refused, since guessing could
// allow what was not meant.
type saidPermission struct {
	options   []string // every option it names
	approved  *bool
	cancelled bool
	edited    json.RawMessage
	reason    string
}

// parsePermission accepts {optionId}, {option_id}, {choice}, {approved}, an ACP outcome
// {outcome:{outcome,optionId}}, and a bare option string, as JSON or as text.
//
// The spellings are those of AG-UI 1.0's resume, of TDesign's cards, of CopilotKit's renderers, of ACP clients and of
// people with curl. Names are compared exactly, with case: an "OptionID" that a lenient reader would take is an error
// here.
func parsePermission(payload json.RawMessage) (saidPermission, error) {
	payload = Unwrapped(payload)
	var bare string
	if json.Unmarshal(payload, &bare) == nil && bare != "" {
		return saidPermission{options: []string{bare}}, nil
	}
	var body struct {
		OptionID  string          `json:"optionId"`
		OptionID2 string          `json:"option_id"`
		Choice    string          `json:"choice"`
		Approved  *bool           `json:"approved"`
		Outcome   json.RawMessage `json:"outcome"`
		Edited    json.RawMessage `json:"editedArgs"`
		Edited2   json.RawMessage `json:"edited_args"`
		Reason    json.RawMessage `json:"reason"`
	}
	if err := strictjson.Unmarshal(payload, &body); err != nil {
		return saidPermission{}, fault.New(InvalidAnswer, `expected {"optionId":…} or {"approved":true|false}`)
	}
	said := saidPermission{approved: body.Approved}
	_ = json.Unmarshal(body.Reason, &said.reason) // a value that is not text is ignored
	if said.edited = body.Edited; len(said.edited) == 0 {
		said.edited = body.Edited2
	}
	if string(said.edited) == "null" { // a member that is not set; kept, it would count as an edit
		said.edited = nil
	}
	var outcome struct {
		Outcome  string `json:"outcome"`
		OptionID string `json:"optionId"`
	}
	if len(body.Outcome) > 0 {
		if strictjson.Unmarshal(body.Outcome, &outcome) != nil {
			return said, fault.New(InvalidAnswer, "outcome is not an ACP outcome")
		}
		said.cancelled = outcome.Outcome == "cancelled"
	}
	for _, id := range []string{body.OptionID, body.OptionID2, body.Choice, outcome.OptionID} {
		if id != "" {
			said.options = append(said.options, id)
		}
	}
	if len(said.options) == 0 && said.approved == nil && !said.cancelled {
		return said, fault.New(InvalidAnswer, `expected {"optionId":…} or {"approved":true|false}`)
	}
	return said, nil
}

// refuses reports whether a plain refusal was meant for a Question that offers no way to reject: that is its
// cancelling, because it must be possible to say no to anything.
func (s saidPermission) refuses(q Question, place places) bool {
	options := q.Options()
	if _, offered := first(options, RejectOnce, RejectAlways); offered || s.approved != nil && *s.approved {
		return false
	}
	for _, id := range s.options {
		if _, named := find(options, id, place); named || !plainRefusal(id) {
			return false
		}
	}
	return s.approved != nil || len(s.options) > 0
}

// plainRefusal are the words that mean no where no such option was offered.
func plainRefusal(word string) bool {
	switch strings.ToLower(word) {
	case "reject", "deny", "no", RejectOnce, RejectAlways:
		return true
	}
	return false
}

// choose finds the one offered option that was meant.
func (s saidPermission) choose(q Question, place places) (Option, error) {
	options := q.Options()
	if len(s.options) == 0 {
		kinds := []string{RejectOnce, RejectAlways}
		if *s.approved {
			kinds = []string{AllowOnce, AllowAlways}
		}
		if o, ok := first(options, kinds...); ok {
			return o, nil
		}
		return Option{}, fault.New(UnknownOption, "no option of that kind was offered")
	}
	var o Option
	for i, id := range s.options {
		named, ok := find(options, id, place)
		if !ok {
			return Option{}, fault.New(UnknownOption, fmt.Sprintf("%q is not an option of this question", id))
		}
		if i > 0 && named.ID != o.ID {
			return Option{}, fault.New(InvalidAnswer, "the answer names two options")
		}
		o = named
	}
	if s.approved != nil && *s.approved != o.Allows() {
		return Option{}, fault.New(InvalidAnswer, "approved contradicts the option")
	}
	return o, nil
}

// places returns the place of the option that an id of a page names; false if it names none of this Question.
type places func(id string) (n int, ok bool)

// find takes an option's own id, or the id that it has on a page (OptionIDs).
// TDesign pages may answer an older card of the same chat, and agents number their options alike; the longer form is
// refused by any other Question.
func find(options []Option, id string, place places) (Option, bool) {
	for _, o := range options {
		if o.ID == id {
			return o, true
		}
	}
	if n, ok := place(id); ok && n >= 0 && n < len(options) {
		return options[n], true
	}
	return Option{}, false
}

// first is the first offered option of the first of the kinds that has one: the order of kinds is a preference.
func first(options []Option, kinds ...string) (Option, bool) {
	for _, kind := range kinds {
		for _, o := range options {
			if o.Kind == kind {
				return o, true
			}
		}
	}
	return Option{}, false
}

// Choosing is the agent's answer when the first option of the first kind that was
// offered is chosen; false when none of the kinds was.
func Choosing(options []Option, kinds ...string) (json.RawMessage, bool) {
	o, ok := first(options, kinds...)
	return permissionPayload(o), ok
}

// permissionPayload is what the Agent gets for a chosen option. The kept decision has it too, and optionIn reads it
// back.
func permissionPayload(o Option) json.RawMessage {
	return mustJSON(struct {
		OptionID string `json:"optionId"`
		Approved bool   `json:"approved"`
		Kind     string `json:"kind"`
	}{o.ID, o.Allows(), o.Kind})
}

func permissionResult(status string, o Option) json.RawMessage {
	return mustJSON(struct {
		Status   string `json:"status"`
		OptionID string `json:"optionId"`
		Kind     string `json:"kind"`
	}{status, o.ID, o.Kind})
}

// optionIn is the option that a permissionPayload names, by id and kind. The answer to an input may hold anything under
// these names, so what is no text is left out.
func optionIn(payload json.RawMessage) Option {
	var chosen struct {
		OptionID string `json:"optionId"`
		Kind     string `json:"kind"`
	}
	_ = json.Unmarshal(payload, &chosen)
	return Option{ID: chosen.OptionID, Kind: chosen.Kind}
}
