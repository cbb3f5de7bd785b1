package wire

import "encoding/json"

// Plan is what an agent means to do. ID is "" for the one plan that stable ACP knows.
type Plan struct {
	ID      string
	Type    string // items, markdown or file
	Entries []PlanEntry
}

// PlanItems is the type of a plan made of entries; the others are kept raw.
const PlanItems = "items"

// PlanEntry is one step of a plan.
type PlanEntry struct {
	Content  string `json:"content"`
	Priority string `json:"priority,omitempty"` // high, medium or low
	Status   string `json:"status,omitempty"`   // pending, in_progress or completed
}

// UnmarshalJSON reads tolerantly.
func (e *PlanEntry) UnmarshalJSON(raw []byte) error {
	var wire struct{ Content, Priority, Status lax[string] }
	if err := json.Unmarshal(raw, &wire); err != nil {
		return err
	}
	*e = PlanEntry{Content: wire.Content.Val, Priority: wire.Priority.Val, Status: wire.Status.Val}
	return nil
}

// Plan is the view of plan, plan_update and plan_removed. Every one brings the whole
// list.
func (u Update) Plan() Plan {
	type plan struct {
		Type    lax[string]        `json:"type"`
		PlanID  lax[string]        `json:"planId"`
		Entries laxList[PlanEntry] `json:"entries"`
	}
	var wire struct {
		plan
		Plan lax[plan] `json:"plan"`
	}
	if json.Unmarshal(u.Raw, &wire) != nil {
		return Plan{}
	}
	switch u.Variant {
	case PlanUpdate:
		p := wire.Plan.Val
		return Plan{ID: p.PlanID.Val, Type: p.Type.Val, Entries: p.Entries.Val}
	case PlanRemoved:
		return Plan{ID: wire.PlanID.Val, Type: PlanItems}
	}
	return Plan{Type: PlanItems, Entries: wire.Entries.Val}
}
