package demoagent

import "encoding/json"

// showAll is the travel planner that TDesign's AG-UI guide walks through, word for word
// where the guide gives words: text, a tool, state, an activity, a question, and the rest
// after its answer.
func showAll(s *stream, c invocation) {
	const id = "ask_travel"
	if a, ok := c.answered(id); ok {
		finishTravel(s, c, a)
		return
	}
	s.send("state_snapshot", c.stateWith(map[string]any{"plan_task": map[string]any{"progress": 0, "steps": []string{}}}))
	s.think("The traveller wants a plan. Weather first, then what they like.")
	s.say("好的， 我来帮您 规划行程...")
	s.send("tool_call", callFrame{"call_weather", "get_weather", json.RawMessage(`{"city":"北京"}`)})
	s.send("tool_result", resultFrame{"call_weather", map[string]any{"temp": 25}})
	s.send("state_delta", deltaFrame{[]op{{"replace", "/plan_task/progress", 50}}})
	s.send("state_delta", deltaFrame{[]op{{"add", "/plan_task/steps/-", "get_weather"}}})
	s.send("activity", activityFrame{ID: "stocks", Type: "stock-chart", Content: map[string]any{"title": "相关股票", "data": []any{}}})
	s.wait(s.pace.Pace)
	s.send("activity", activityFrame{ID: "stocks", Type: "stock-chart", Patch: []op{{"add", "/data/-", map[string]any{"price": 100}}}})
	s.send("ask", askFrame{
		ID: id, Kind: "input", Name: "collect_preferences", Title: "请选择您的偏好",
		Args: map[string]any{"options": []string{"经济型", "舒适型"}},
		ResponseSchema: json.RawMessage(
			`{"type":"object","properties":{"choice":{"type":"string","enum":["经济型","舒适型"]}},"required":["choice"]}`),
	})
	s.done(c, id)
}

// finishTravel is the call with the answer. The state that the first call set up is in the thread, so it is changed
// here without a new snapshot.
func finishTravel(s *stream, c invocation, a answer) {
	choice := "经济型" // the cheaper one, without a choice of the person's
	var p struct {
		Choice string `json:"choice"`
	}
	if !a.cancelled() && json.Unmarshal(a.Payload, &p) == nil && p.Choice != "" {
		choice = p.Choice
	}
	s.think("The choice is made, so the plan can be. ")
	s.send("state_delta", deltaFrame{[]op{{"replace", "/plan_task/progress", 100}}})
	s.send("state_delta", deltaFrame{[]op{{"add", "/plan_task/steps/-", "collect_preferences"}}})
	s.say("根据您的偏好 " + choice + "， 推荐以下行程： 第一天 故宫， 第二天 长城。")
	s.done(c)
}
