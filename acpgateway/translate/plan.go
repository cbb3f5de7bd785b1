package translate

import (
	"encoding/json"
	"strconv"

	"aqueduct/acpgateway/wire"
	"aqueduct/agui"
)

// ActivityPlan is the type of the activity that shows a plan.
const ActivityPlan = "PLAN"

// plans draws the plans of a prompt, each as one activity, and keeps the last one in the state. The Translator's
// goroutine owns it.
//
// A frame {"sessionUpdate":"plan","entries":[{"content":"Read the file","priority":"high","status":"pending"}]}
// becomes ACTIVITY_SNAPSHOT (PLAN) the first time and ACTIVITY_DELTA with a replace of /entries afterwards; the last
// list is also /acp/plan of the state.
type plans struct {
	ids     *ids
	replay  *replay
	speech  *speech
	state   *state
	prompts int               // how many have ended
	shown   map[string]string // activities of this prompt, by the agent's id
}

// update shows a plan as an activity of the prompt and keeps it as state. Every frame brings the whole list. False when
// the frame is no list of entries: markdown and files are for the page to show.
func (p *plans) update(dst []Out, u wire.Update) ([]Out, bool) {
	plan := u.Plan()
	if plan.Type != wire.PlanItems {
		return dst, false
	}
	entries := json.RawMessage("[]")
	if len(plan.Entries) > 0 {
		entries = marshal(plan.Entries)
	}
	if !p.replay.going() {
		dst = p.show(p.speech.close(dst), plan.ID, entries)
	}
	return p.state.set(dst, member{"plan", entries}), true
}

func (p *plans) show(dst []Out, upstream string, entries json.RawMessage) []Out {
	id, drawn := p.shown[upstream]
	if !drawn {
		id = p.ids.id("plan", p.ids.epoch+":"+strconv.Itoa(p.prompts)+":"+upstream)
		p.shown[upstream] = id
		content := append(append([]byte(`{"entries":`), entries...), '}')
		return event(dst, &agui.ActivitySnapshot{MessageID: id, ActivityType: ActivityPlan, Content: content})
	}
	return event(dst, &agui.ActivityDelta{MessageID: id, ActivityType: ActivityPlan, Patch: marshal([]operation{{"replace", "/entries", entries}})})
}
