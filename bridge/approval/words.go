package approval

import (
	"context"
	"encoding/json"

	"aqueduct/internal/fault"
	"aqueduct/internal/strictjson"
	"aqueduct/store"
)

// Words is a decision in the words of the platform contract, as the HTTP API, the sockets and the webhooks of channels take
// it: approve or reject, an option by its id, or the value of an input. Which of them fit depends on the Question.
type Words struct {
	Decision string // approve, reject, cancel; "" when Approved, OptionID or Payload decides
	Approved *bool
	OptionID string
	Payload  json.RawMessage
	Edited   json.RawMessage // the arguments as they shall be instead
	Reason   string
}

// DecideInWords is Decide for the surfaces that take Words.
func (s *Service) DecideInWords(ctx context.Context, who store.Principal, approvalID string, w Words, via string) (Settled, error) {
	return s.answer(ctx, who, approvalID, w.answer, via)
}

// answer reads the words as every other surface's answer is read. To reject an input is to give none.
// Decision and Approved mean the same in two forms that clients have; where both are given they must agree. A payload
// is passed on as it is and judged like any other answer; what stands beside it is refused for a permission, since
// nothing shows which of the two was meant.
func (w Words) answer(q Question) (Answer, error) {
	out := Answer{QuestionID: q.Call.ID, Reason: w.Reason}
	if strictjson.IsSet(w.Payload) {
		out.Payload = w.Payload
	}
	approved := w.Approved
	if w.Decision == "approve" || w.Decision == "reject" {
		yes := w.Decision == "approve"
		if approved != nil && *approved != yes {
			return out, fault.New(InvalidAnswer, "decision and approved contradict each other.")
		}
		approved = &yes
	}
	input := q.Approval.Kind == store.ApprovalInput
	refused := approved != nil && !*approved
	switch {
	case w.Decision == "cancel" || refused && input:
		out.Cancelled = true
		return out, nil
	case out.Payload != nil:
		if q.Approval.Kind == store.ApprovalPermission && (approved != nil || w.OptionID != "" || strictjson.IsSet(w.Edited)) {
			return out, fault.New(InvalidAnswer, "A permission is answered in the payload or beside it, not in both: they could differ.")
		}
		return out, nil
	case input:
		return out, fault.New(InvalidAnswer, "An input is answered with a payload.")
	}
	payload, err := json.Marshal(struct {
		OptionID string          `json:"optionId,omitempty"`
		Approved *bool           `json:"approved,omitempty"`
		Edited   json.RawMessage `json:"editedArgs,omitempty"`
	}{w.OptionID, approved, w.Edited})
	out.Payload = payload
	return out, err
}
