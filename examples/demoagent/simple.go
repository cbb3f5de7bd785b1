// This file has the parts that are one answer from beginning to end: no question, nothing that the next call needs.

package demoagent

import "encoding/json"

// showText sends deltas, which become one text message: TEXT_MESSAGE_START, a CONTENT for each, and END.
func showText(s *stream, c invocation) {
	s.say("This answer travels as one event per word. Each of them is kept before you see it, " +
		"so you may close the page at any moment and miss nothing.")
	s.done(c)
}

// showThink sends thoughts before deltas: REASONING_* and then a text message.
func showThink(s *stream, c invocation) {
	s.think("The question is short, so the answer should be short too. ")
	s.think("First weigh it, then say it.")
	s.say("I thought about it first: forty-two.")
	s.done(c)
}

// showTool gives one result as JSON and one as plain words, because both exist.
func showTool(s *stream, c invocation) {
	s.say("Let me look that up. ")
	s.send("tool_call", callFrame{"call_weather", "get_weather", json.RawMessage(`{"city":"Paris","unit":"celsius"}`)})
	s.send("tool_result", resultFrame{"call_weather", map[string]any{"temp": 25, "sky": "clear"}})
	s.send("tool_call", callFrame{"call_clock", "get_time", json.RawMessage(`{"zone":"Europe/Paris"}`)})
	s.send("tool_result", resultFrame{"call_clock", "half past nine in the morning"})
	s.say("It is half past nine in Paris, clear, at 25 degrees.")
	s.done(c)
}

// showStep opens a step within another (STEP_STARTED, STEP_FINISHED) and sends a CUSTOM event between them.
func showStep(s *stream, c invocation) {
	s.send("step", stepFrame{"gather", "started"})
	s.say("Gathering. ")
	s.send("step", stepFrame{"compare", "started"})
	s.say("Comparing what was gathered. ")
	s.send("custom", customFrame{"demo_note", map[string]any{"compared": 3}})
	s.send("step", stepFrame{"compare", "finished"})
	s.send("step", stepFrame{"gather", "finished"})
	s.say("Both steps are done.")
	s.done(c)
}

// showError breaks off in mid-answer: the frame error becomes RUN_ERROR, with its code and message as they are. There
// is no done behind it.
func showError(s *stream, c invocation) {
	s.say("This begins well, and then ")
	s.send("error", errorFrame{"demo_error", "The demo agent failed on purpose."})
}
