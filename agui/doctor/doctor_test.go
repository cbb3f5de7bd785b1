package doctor_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"aqueduct/agui"
	"aqueduct/agui/doctor"
)

// sound is a run without a fault that has everything: thoughts, text, a tool, state, an activity and a step.
const sound = `{"type":"RUN_STARTED","threadId":"T","runId":"R","protocolVersion":"1.0"}
{"type":"STEP_STARTED","stepName":"s"}
{"type":"REASONING_START","messageId":"r"}
{"type":"REASONING_MESSAGE_START","messageId":"r","role":"reasoning"}
{"type":"REASONING_MESSAGE_CONTENT","messageId":"r","delta":"hm"}
{"type":"REASONING_MESSAGE_END","messageId":"r"}
{"type":"REASONING_END","messageId":"r"}
{"type":"STATE_SNAPSHOT","snapshot":{"n":1}}
{"type":"STATE_DELTA","delta":[{"op":"replace","path":"/n","value":2}]}
{"type":"ACTIVITY_SNAPSHOT","messageId":"a","activityType":"plan","content":{"p":0}}
{"type":"ACTIVITY_DELTA","messageId":"a","activityType":"plan","patch":[{"op":"replace","path":"/p","value":1}]}
{"type":"TEXT_MESSAGE_START","messageId":"m","role":"assistant"}
{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"Hellö"}
{"type":"TEXT_MESSAGE_END","messageId":"m"}
{"type":"TOOL_CALL_START","toolCallId":"c","toolCallName":"look","parentMessageId":"m"}
{"type":"TOOL_CALL_ARGS","toolCallId":"c","delta":"{\"q\":"}
{"type":"TOOL_CALL_ARGS","toolCallId":"c","delta":"1}"}
{"type":"TOOL_CALL_END","toolCallId":"c"}
{"type":"TOOL_CALL_RESULT","messageId":"t","toolCallId":"c","content":"7"}
{"type":"STEP_FINISHED","stepName":"s"}
{"type":"CUSTOM","name":"x","value":null}
{"type":"RUN_FINISHED","threadId":"T","runId":"R","outcome":{"type":"success"}}`

// body is events as a stream, with ids.
func body(events string) string {
	var b strings.Builder
	for i, event := range strings.Split(events, "\n") {
		fmt.Fprintf(&b, "id: %d\ndata: %s\n\n", i+1, event)
	}
	return b.String()
}

// run is a recorded run with this body, of which each line came 10 ms after the one before.
func run(body string) *doctor.Run {
	r := &doctor.Run{
		ThreadID: "T", RunID: "R", State: []byte("{}"), Patience: 3 * time.Second,
		Messages: []agui.Message{{ID: "u", Role: agui.RoleUser, Content: agui.Text("hi")}},
		Answer:   doctor.Answer{Status: http.StatusOK, Header: http.Header{"Content-Type": {"text/event-stream; charset=utf-8"}, "Cache-Control": {"no-cache"}, "X-Accel-Buffering": {"no"}}},
	}
	for _, line := range strings.SplitAfter(body, "\n") {
		r.After += 10 * time.Millisecond
		r.Chunks = append(r.Chunks, doctor.Chunk{At: r.After, Data: []byte(line)})
	}
	return r
}

// codes are what a report found, each once.
func codes(report doctor.Report) []string {
	found := []string{}
	for _, f := range report.Findings {
		found = append(found, f.Code)
	}
	return found
}

// TestSound: nothing is found in a run without a fault, and every rule is in one list of the report.
func TestSound(t *testing.T) {
	t.Parallel()
	report := doctor.Examine(doctor.Exchange{Run: run(body(sound)), Malformed: &doctor.Answer{Status: 400}})
	if got := codes(report); len(got) > 0 || !report.Complete || report.Events["TOOL_CALL_ARGS"] != 2 {
		t.Errorf("%+v", report)
	}
	all := slices.Clone(report.Sound)
	for _, n := range report.NotSeen {
		all = append(all, n.Code)
	}
	want := []string{}
	for _, r := range doctor.Rules() {
		want = append(want, r.Code)
	}
	slices.Sort(all)
	slices.Sort(want)
	if !slices.Equal(all, want) || len(slices.Compact(want)) != len(doctor.Rules()) {
		t.Errorf("reported %v\nof %v", all, want)
	}
	for _, code := range []string{"buffered", "no_heartbeat", "cors_refused", "id_reused", "thread_id"} {
		if !slices.ContainsFunc(report.NotSeen, func(n doctor.NotSeen) bool { return n.Code == code }) {
			t.Errorf("there was no occasion for %s", code)
		}
	}
}

// TestFaults: each fault is found under its code, and nothing else is.
func TestFaults(t *testing.T) {
	t.Parallel()
	stream := body(sound)
	line := func(i int) string { return strings.Split(sound, "\n")[i] }
	without := func(events ...int) string {
		lines := strings.Split(sound, "\n")
		for i := range events {
			lines = slices.Delete(lines, events[len(events)-1-i], events[len(events)-1-i]+1)
		}
		return body(strings.Join(lines, "\n"))
	}
	with := func(i int, more ...string) string {
		return body(strings.Join(slices.Insert(strings.Split(sound, "\n"), i, more...), "\n"))
	}
	swap := func(part, by string) string { return strings.Replace(stream, part, by, 1) }
	for _, c := range []struct{ code, body string }{
		{"line_ends", strings.ReplaceAll(stream, "\n", "\r\n")},
		{"line_ends", strings.ReplaceAll(stream, "\n", "\r")},
		{"framing", stream[:len(stream)-1] + "{\"loose\":true}\n\n"},
		{"framing", swap("data: "+line(20)+"\n", "payload: "+line(20)+"\n")},
		{"frame_unfinished", strings.TrimSuffix(stream, "\n")},
		{"frame_too_large", swap("Hellö", strings.Repeat("x", 10<<20))},
		{"not_utf8", swap("Hellö", "Hell\xf6")},
		{"data_not_json", stream + "data: [DONE]\n\n"},
		{"data_not_json", with(20, line(20)+line(20))},
		{"data_not_json", stream + "data:\n\n"},
		{"id_repeated", swap("id: 5\n", "id: 4\n")},
		{"truncated", without(21)},
		{"truncated", ""},
		{"unknown_event", with(20, `{"type":"META_EVENT","x":1}`)},
		{"retired_event", swap(line(6), line(6)+"\n\nid: t1\ndata: "+`{"type":"THINKING_START"}`+"\n\nid: t2\ndata: "+`{"type":"THINKING_END"}`)},
		{"malformed_event", with(20, `{"type":"STEP_STARTED"}`)},
		{"malformed_event", with(20, `{"type":"CUSTOM","name":7,"value":1}`)},
		{"malformed_event", with(20, `{"name":"x"}`)},
		{"unknown_member", swap(`"messageId":"m","role"`, `"messageId":"m","model":"gpt","role"`)},
		{"unknown_member", swap(`"threadId":"T","runId":"R","protocol`, `"thread_id":"T","threadId":"T","runId":"R","protocol`)},
		{"null_member", swap(`"parentMessageId":"m"`, `"parentMessageId":null`)},
		{"empty_delta", swap(`"delta":"hm"`, `"delta":""`)},
		{"request_ids", strings.ReplaceAll(stream, `"threadId":"T"`, `"threadId":"X"`)},
		{"request_ids", strings.ReplaceAll(stream, `"runId":"R"`, `"runId":"X"`)},
		{"message_id_taken", strings.ReplaceAll(stream, `"messageId":"m"`, `"messageId":"u"`)},
		{"patch_fails", swap(`"path":"/n"`, `"path":"/missing"`)},
		{"patch_fails", swap(`"path":"/n"`, `"path":"n"`)},
		{"activity_fails", swap(`"path":"/p"`, `"path":"/missing/p"`)},
		{"tool_arguments", swap(`"delta":"1}"`, `"delta":"1"`)},
		{"tool_unanswered", without(18)},
		{"snapshot_loses_messages", with(20, `{"type":"MESSAGES_SNAPSHOT","messages":[{"id":"u","role":"user","content":"hi"}]}`)},
		{"first_event", without(0)},
		{"run_open", with(20, line(0))},
		{"run_finished", with(22, `{"type":"CUSTOM","name":"x","value":1}`)},
		{"run_finished", with(22, `{"type":"RUN_ERROR","message":"late"}`)},
		{"run_failed", with(21, `{"type":"RUN_ERROR","message":"no"}`)},
		{"run_id", swap(line(21), strings.Replace(line(21), `"runId":"R"`, `"runId":"X"`, 1))},
		{"still_open", without(13)},
		{"still_open", without(19)},
		{"outcome", swap(`"outcome":{"type":"success"}`, `"outcome":{"type":"interrupt","interrupts":[]}`)},
		{"interrupt_id", swap(`"outcome":{"type":"success"}`, `"outcome":{"type":"interrupt","interrupts":[{"id":"i","reason":"x"},{"id":"i","reason":"x"}]}`)},
		{"already_open", with(12, line(11))},
		{"not_open", without(11)},
		{"not_open", without(1)},
		{"chunk_unnamed", with(20, `{"type":"TEXT_MESSAGE_CHUNK","delta":"x"}`)},
		{"subagent_gone", with(20, `{"type":"SUBAGENT_FINISHED","subagentRunId":"S"}`)},
		{"thread_id", stream + strings.ReplaceAll(body(`{"type":"RUN_STARTED","threadId":"X","runId":"R"}`+"\n"+`{"type":"RUN_FINISHED","threadId":"X","runId":"R"}`), "id: ", "id: b")},
	} {
		report := doctor.Examine(doctor.Exchange{Run: run(c.body)})
		got := codes(report)
		if c.code == "thread_id" { // what is behind it is judged by a grammar that stays in the first run
			got = slices.DeleteFunc(got, func(code string) bool { return code == "run_finished" })
		}
		if !slices.Equal(got, []string{c.code}) {
			t.Errorf("%s: found %v in\n%.600s", c.code, got, c.body)
		}
	}
}

// TestAnswers: faults of the head, of the end, and of the time at which events came.
func TestAnswers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		code  string
		spoil func(*doctor.Run)
	}{
		{"http_status", func(r *doctor.Run) { r.Status = 500 }},
		{"content_type", func(r *doctor.Run) { r.Header.Set("Content-Type", "application/json") }},
		{"content_type", func(r *doctor.Run) { r.Header.Del("Content-Type") }},
		{"cache_control", func(r *doctor.Run) { r.Header.Del("Cache-Control") }},
		{"accel_buffering", func(r *doctor.Run) { r.Header.Del("X-Accel-Buffering") }},
		{"compressed", func(r *doctor.Run) { r.Header.Set("Content-Encoding", "br") }},
		{"connection_broken", func(r *doctor.Run) {
			r.Ended, r.Cause, r.Chunks = doctor.Broken, "unexpected EOF", r.Chunks[:40]
		}},
		{"connection_broken", func(r *doctor.Run) { // inside an event, and inside a character
			last := strings.Index(body(sound), "ö") + 1
			r.Ended, r.Chunks = doctor.Broken, []doctor.Chunk{{Data: []byte(body(sound)[:last])}}
		}},
		{"connection_broken no_heartbeat", func(r *doctor.Run) { // in silence
			r.Ended, r.Cause, r.Chunks, r.After = doctor.Broken, "unexpected EOF", r.Chunks[:3], 40*time.Second
		}},
		{"not_closed", func(r *doctor.Run) { r.Ended = doctor.GivenUp }},
		{"buffered", func(r *doctor.Run) {
			for i := range r.Chunks {
				r.Chunks[i].At += 8 * time.Second
			}
			r.After += 8 * time.Second
		}},
		{"no_heartbeat", func(r *doctor.Run) {
			for i := range r.Chunks[20:] {
				r.Chunks[20+i].At += 40 * time.Second
			}
			r.After += 40 * time.Second
		}},
	} {
		r := run(body(sound))
		c.spoil(r)
		if got := strings.Join(codes(doctor.Examine(doctor.Exchange{Run: r})), " "); got != c.code {
			t.Errorf("%s: found %s", c.code, got)
		}
	}
}

// TestTimes: what took long is judged, and sound where comments bridge the silence and events come as they are made.
func TestTimes(t *testing.T) {
	t.Parallel()
	r := run(body(sound))
	for i := range r.Chunks[21:] { // behind the blank line of the seventh event
		r.Chunks[21+i].At += 40 * time.Second
	}
	for i := range 2 {
		r.Chunks = slices.Insert(r.Chunks, 21+i, doctor.Chunk{At: time.Duration(15*(i+1)) * time.Second, Data: []byte(": alive\n\n")})
	}
	report := doctor.Examine(doctor.Exchange{Run: r})
	if len(report.Findings) > 0 || !slices.Contains(report.Sound, "no_heartbeat") || !slices.Contains(report.Sound, "buffered") {
		t.Errorf("%+v", report)
	}
}

// TestGivenUp: a run that was left while it went on has no end that could be judged.
func TestGivenUp(t *testing.T) {
	t.Parallel()
	r := run(body(sound))
	r.Chunks, r.Ended = r.Chunks[:40], doctor.GivenUp
	report := doctor.Examine(doctor.Exchange{Run: r})
	if len(report.Findings) > 0 || report.Complete || slices.Contains(report.Sound, "truncated") {
		t.Errorf("%+v", report)
	}
}

// TestSeveralRuns: a stream may replay earlier runs of its thread.
func TestSeveralRuns(t *testing.T) {
	t.Parallel()
	before := `{"type":"RUN_STARTED","threadId":"T","runId":"R0"}` + "\n" + `{"type":"RUN_FINISHED","threadId":"T","runId":"R0"}` + "\n"
	report := doctor.Examine(doctor.Exchange{Run: run(body(before + sound))})
	if len(report.Findings) > 0 || !slices.Contains(report.Sound, "thread_id") {
		t.Errorf("%+v", report)
	}
}

// TestSurroundings: the answers to a malformed input, to browsers, and to the same input again.
func TestSurroundings(t *testing.T) {
	t.Parallel()
	const origin = "https://app.example.com"
	allows := func(values ...string) http.Header {
		h := make(http.Header)
		for i, name := range []string{"Access-Control-Allow-Origin", "Access-Control-Allow-Headers", "Access-Control-Allow-Credentials"} {
			if i < len(values) && values[i] != "" {
				h.Set(name, values[i])
			}
		}
		return h
	}
	wanted := func(status int, h, post http.Header) doctor.Exchange {
		return doctor.Exchange{Preflight: &doctor.Preflight{Origin: origin, Wanted: true, Answer: doctor.Answer{Status: status, Header: h}, Post: post}}
	}
	stranger := func(status int, h http.Header) doctor.Exchange {
		return doctor.Exchange{Preflight: &doctor.Preflight{Origin: origin, Answer: doctor.Answer{Status: status, Header: h}}}
	}
	again := func(body string) doctor.Exchange {
		return doctor.Exchange{Run: run(strings.Replace(body, "Hellö", "Hello", 1)), Again: run(body)}
	}
	frames := strings.SplitAfter(strings.TrimSuffix(body(sound), "\n\n"), "\n\n")
	frames[len(frames)-1] += "\n\n"
	resumed := func(after string, rest []string) doctor.Exchange {
		return doctor.Exchange{Run: run(body(sound)), Again: run(strings.Join(rest, "")), AgainAfter: after}
	}
	good := allows(origin, "Content-Type, authorization", "true")
	for _, c := range []struct {
		code string
		ex   doctor.Exchange
	}{
		{"malformed_input", doctor.Exchange{Malformed: &doctor.Answer{Status: 200}}},
		{"malformed_input", doctor.Exchange{Malformed: &doctor.Answer{Status: 500}}},
		{"", doctor.Exchange{Malformed: &doctor.Answer{Status: 422}}},
		{"", wanted(204, good, good)},
		{"", wanted(200, allows("*", "*, Authorization"), allows("*"))},
		{"cors_refused", wanted(403, nil, nil)},
		{"cors_refused", wanted(204, allows("https://other.example"), nil)},
		{"cors_refused", wanted(204, good, nil)},
		{"cors_headers", wanted(204, allows(origin, "*"), good)},
		{"", stranger(403, nil)},
		{"", stranger(204, allows("*", "*"))},
		{"cors_credentials", stranger(204, good)},
		{"id_reused", again(body(sound))},
		{"", doctor.Exchange{Run: run(body(sound)), Again: run(body(sound))}},
		{"", resumed("11", frames[11:])},
		{"", resumed("11", nil)},
		{"resume_incomplete", resumed("11", frames[len(frames)-1:])},
		{"resume_incomplete", resumed("11", frames[:len(frames)-1])},
		{"resume_incomplete", resumed("11", slices.Concat(frames[11:14], frames[15:]))},
	} {
		report := doctor.Examine(c.ex)
		if got := strings.Join(codes(report), " "); got != c.code {
			t.Errorf("%q: found %q", c.code, got)
		}
	}
}

// TestQuotes: nothing that a server sends gets onto a terminal as it is, or all of it.
func TestQuotes(t *testing.T) {
	t.Parallel()
	report := doctor.Examine(doctor.Exchange{Run: run("data: \x1b[31m" + strings.Repeat("é", 500) + "\n\n")})
	for _, f := range report.Findings {
		if strings.Contains(f.Seen, "\x1b") || len(f.Seen) > 400 {
			t.Errorf("%s: %q", f.Code, f.Seen)
		}
	}
}
