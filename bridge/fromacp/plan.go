package fromacp

import (
	"encoding/json"
	"strconv"

	"aqueduct/acpgateway/acp"
	"aqueduct/agui"
)

// ActivityPlan is the type of the activity that shows a plan.
const ActivityPlan = "PLAN"

// plan shows a plan as an activity of the prompt and keeps it as state. Every frame
// brings the whole list.
func (t *Translator) plan(dst []Out, u acp.Update) []Out {
	p := u.Plan()
	if p.Type != acp.PlanItems {
		return t.unknown(dst, u) // markdown and files are the page's to show
	}
	entries := json.RawMessage("[]")
	if len(p.Entries) > 0 {
		entries = marshal(p.Entries)
	}
	if !t.replay.going() {
		dst = t.drawPlan(t.closeSpeech(dst), p.ID, entries)
	}
	return t.set(dst, member{"plan", entries})
}

func (t *Translator) drawPlan(dst []Out, upstream string, entries json.RawMessage) []Out {
	id, drawn := t.plans[upstream]
	if !drawn {
		id = t.id("plan", t.epoch+":"+strconv.Itoa(t.prompts)+":"+upstream)
		t.plans[upstream] = id
		content := append(append([]byte(`{"entries":`), entries...), '}')
		return event(dst, &agui.ActivitySnapshot{MessageID: id, ActivityType: ActivityPlan, Content: content})
	}
	return event(dst, &agui.ActivityDelta{MessageID: id, ActivityType: ActivityPlan, Patch: marshal([]operation{{"replace", "/entries", entries}})})
}
