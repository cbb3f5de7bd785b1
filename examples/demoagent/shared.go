// This file has the parts that change something beside the text: the shared state, and an activity.

package demoagent

// taskState is the member "report" of the state.
type taskState struct {
	Progress int    `json:"progress"`
	Message  string `json:"message"`
}

// showState touches one top-level key per delta, because TDesign Chat applies no more.
func showState(s *stream, c invocation) {
	s.send("state", stateFrame{"working", map[string]any{"on": "the report"}})
	s.send("state_snapshot", c.stateWith(map[string]any{"report": taskState{0, "starting"}, "items": map[string]any{"list": []string{}}}))
	s.say("Watch the state: ")
	for _, next := range []taskState{{30, "reading"}, {60, "writing"}, {100, "ready"}} {
		s.send("state_delta", deltaFrame{[]op{
			{"replace", "/report/progress", next.Progress},
			{"replace", "/report/message", next.Message},
		}})
		s.send("state_delta", deltaFrame{[]op{{"add", "/items/list/-", next.Message}}})
		s.say(next.Message + " ")
	}
	s.send("state", stateFrame{"idle", nil})
	s.done(c)
}

type planEntry struct {
	Content string `json:"content"`
	Status  string `json:"status"`
}

// showActivity sends one snapshot and then patches: a second snapshot of the same activity
// would be drawn twice by TDesign Chat.
func showActivity(s *stream, c invocation) {
	s.say("Here is the plan. ")
	s.send("activity", activityFrame{ID: "plan", Type: "plan", Content: map[string]any{
		"title":   "Tidy the workshop",
		"entries": []planEntry{{"Sort the tools", "pending"}, {"Sweep the floor", "pending"}},
	}})
	for _, path := range []string{"/entries/0/status", "/entries/1/status"} {
		s.send("activity", activityFrame{ID: "plan", Type: "plan", Patch: []op{{"replace", path, "in_progress"}}})
		s.say("Working. ")
		s.send("activity", activityFrame{ID: "plan", Type: "plan", Patch: []op{{"replace", path, "completed"}}})
	}
	s.send("activity", activityFrame{ID: "plan", Type: "plan", Patch: []op{{"add", "/entries/-", planEntry{"Rest", "completed"}}}})
	s.say("All of it is done.")
	s.done(c)
}
