// This file is the table of rules: code, level, occasion, reason and source of each. Where a rule is broken is found by
// the files that look at their part (findf); a rule is added here and there. Codes are in reports and in docs/doctor.md,
// so they are never changed; a test of cmd/aqueduct compares the page with this table.

package doctor

import "aqueduct/agui"

// need is what there must be in an answer before a rule counts as kept. Its text completes "there was no …".
type need string

// The needs.
const (
	anAnswer    need = "answer to a run"
	aStream     need = "event stream"
	anEvent     need = "event"
	anEnd       need = "end of the stream"
	anID        need = "id: line"
	aText       need = "text, tool call or thought"
	aTool       need = "tool call"
	aStep       need = "step"
	aSubagent   need = "subagent"
	aChunk      need = "chunk event"
	aPatch      need = "STATE_DELTA"
	anActivity  need = "activity"
	aSnapshot   need = "MESSAGES_SNAPSHOT"
	anOutcome   need = "outcome of a run"
	aSecondRun  need = "second run in the stream"
	aSilence    need = "silence that a heartbeat should bridge"
	aSlowAnswer need = "answer slow enough to judge by"
	aMalformed  need = "answer to a malformed input"
	aPreflight  need = "answer to a browser's preflight"
	anOrigin    need = "origin that is to be let in (--origin)"
	aRepeat     need = "second answer to the same input (--resume)"
)

// rule is one thing that is looked at. It counts as kept only where its need was seen.
type rule struct {
	code   string
	level  Level
	needs  need
	why    string
	source string
}

// Where rules come from. Behind "AG-UI 1.0" stands a page of https://docs.ag-ui.com/spec/1.0.
const (
	specSSE        = `AG-UI 1.0, basic/transports/http-sse`
	specTransports = `AG-UI 1.0, basic/transports`
	specProcessing = `AG-UI 1.0, basic/processing`
	specVersioning = `AG-UI 1.0, basic/versioning`
	specLifecycle  = `AG-UI 1.0, events/lifecycle`
	specStreaming  = `AG-UI 1.0, basic/patterns/streaming`
	specSnapshots  = `AG-UI 1.0, basic/patterns/snapshots`
	specText       = `AG-UI 1.0, events/text-messages`
	specTools      = `AG-UI 1.0, events/tool-calls`
	specState      = `AG-UI 1.0, events/state; RFC 6902`
	specActivity   = `AG-UI 1.0, events/activity; RFC 6902`
	specSubagents  = `AG-UI 1.0, events/subagents`
	specInterrupts = `AG-UI 1.0, basic/patterns/interrupt-resume`
	specInput      = `AG-UI 1.0, basic/run-input`
	htmlSSE        = `HTML Standard, "Server-sent events"`
	fetchCORS      = `Fetch Standard, "CORS protocol"`
	nginxBuffering = `nginx, proxy_buffering`
	officialClient = `@ag-ui/client 1.0.0`
)

// table has every rule, in the order of the report.
func table() []rule {
	return append(append(transportRules(), eventRules()...), orderRules()...)
}

// transportRules are about the answer that carries the events.
func transportRules() []rule {
	return []rule{
		{"http_status", Error, anAnswer, "a run that starts answers 200; clients throw on everything else", specSSE},
		{"content_type", Error, anAnswer, "official clients read a 200 of any other type as a run without events, and take that for success", specSSE},
		{"cache_control", Warning, aStream, "a cache or a proxy that transforms (compresses) may hold the stream back: send Cache-Control: no-cache, no-transform", "RFC 9111, section 5.2"},
		{"accel_buffering", Warning, aStream, "nginx holds the answers of its upstreams back until its buffer is full: send X-Accel-Buffering: no", nginxBuffering},
		{"compressed", Warning, aStream, "what compresses collects bytes first, so events come late and in heaps", specSSE},
		{"line_ends", Error, aStream, "producers end lines with LF alone; the official client throws on CR and CRLF", specSSE},
		{"framing", Error, aStream, "every line is data:, event:, id:, retry: or a comment; clients leave others out, and with them the event", htmlSSE},
		{"frame_unfinished", Error, anEnd, "an event counts when the blank line behind it has come; a reader of Server-Sent Events leaves this one out", htmlSSE},
		{"frame_too_large", Error, aStream, "the official client throws on a frame of 10 MiB", officialClient},
		{"not_utf8", Error, aStream, "Server-Sent Events are UTF-8; other bytes become replacement characters, differently in each client", htmlSSE},
		{"data_not_json", Error, aStream, "the data of each event is one JSON object; clients throw on everything else, [DONE] and empty data included", specSSE},
		{"id_repeated", Warning, anID, "a client that keeps positions takes the second event of an id for one it has", htmlSSE},
		{"truncated", Error, anEnd, "a stream that ends in order without RUN_FINISHED or RUN_ERROR is a truncated run; official clients take it for success", specTransports},
		{"connection_broken", Error, anEnd, "the connection was lost before the run ended; AG-UI has no resumption, so its rest is lost to official clients", specTransports},
		{"not_closed", Warning, anEnd, "the body is closed behind the last terminal event; until then clients show the run as going on", specSSE},
		{"buffered", Warning, aSlowAnswer, "everything came at once at the end: RUN_STARTED is sent when the run starts, so the server, or something in front of it, held the events back", specTransports},
		{"no_heartbeat", Warning, aSilence, "proxies cut what is silent for 30 to 60 seconds; a comment every 15 seconds keeps the stream", specSSE},
		{"cors_refused", Error, anOrigin, "a browser asks before a page of another origin may POST JSON, and here the answer is no", fetchCORS},
		{"cors_headers", Error, anOrigin, "the headers Content-Type and Authorization of a page's request are not allowed", fetchCORS},
		{"cors_credentials", Error, aPreflight, "pages of any origin may call with the cookies of whoever looks at them", fetchCORS},
		{"malformed_input", Warning, aMalformed, "an input that is no RunAgentInput is refused with an HTTP error before the run starts", specInput},
		{"id_reused", Error, aRepeat, "the same id stands for another event now; a client that came back with it would go on in the wrong place", htmlSSE},
		{"resume_incomplete", Error, aRepeat, "a replay leaves events out behind the position that the client has: they are lost to it", htmlSSE},
	}
}

// eventRules are about single events, and what they change.
func eventRules() []rule {
	return []rule{
		{"unknown_event", Error, anEvent, "a producer sends no type that the protocol does not have (CUSTOM and RAW are for that); 1.0 clients leave it out, 0.x clients throw", specProcessing},
		{"retired_event", Warning, anEvent, "THINKING_* has become REASONING_*; 1.0 clients translate it for a while", specVersioning},
		{"malformed_event", Error, anEvent, "clients throw on a known member that is missing or has a wrong value, and the run is over for them", specProcessing},
		{"unknown_member", Warning, anEvent, "clients strip a member that the protocol does not have, with a warning", specProcessing},
		{"null_member", Warning, anEvent, "what is absent is left out; null is malformed, but for a few members until their term is over", specProcessing},
		{"empty_delta", Warning, aText, "an empty delta says nothing; it is legal in 1.0, and older clients and SDKs throw on it", specText},
		{"request_ids", Error, anEvent, "RUN_STARTED has the threadId and runId of the input; with others a client cannot tell whose run it is", specLifecycle},
		{"message_id_taken", Error, aText, "a new message has the id of one of the input; clients add its text to that one", specText},
		{"patch_fails", Error, aPatch, "the patch does not apply to the state that the client has; it is left out, and the page shows another state from then on", specState},
		{"activity_fails", Error, anActivity, "the activity's patch does not apply; the official client throws, and the run is over for it", specActivity},
		{"tool_arguments", Error, aTool, "the arguments of a call are JSON when it ends; a page cannot show or run it otherwise", specTools},
		{"tool_unanswered", Warning, aTool, "the run succeeded and a call of a tool that the client does not have is without a result; models refuse the history with the next message", specTools},
		{"snapshot_loses_messages", Error, aSnapshot, "clients delete what a MESSAGES_SNAPSHOT leaves out: messages of the input, or those just streamed, are gone or there twice", specSnapshots},
	}
}

// orderRules are about which event may follow which. Their codes are those of agui's grammar, which finds them.
func orderRules() []rule {
	order := func(code agui.Rule, needs need, why, source string) rule {
		return rule{string(code), Error, needs, why, source}
	}
	return []rule{
		order(agui.RuleFirstEvent, anEvent, "a run begins with RUN_STARTED; clients throw on anything before it", specLifecycle),
		order(agui.RuleRunOpen, anEvent, "RUN_STARTED came inside a run; clients throw", specLifecycle),
		order(agui.RuleRunFinished, anEvent, "an event came behind RUN_FINISHED; clients throw", specLifecycle),
		order(agui.RuleRunFailed, anEvent, "an event came behind RUN_ERROR; clients throw", specLifecycle),
		order(agui.RuleRunID, anOutcome, "RUN_FINISHED has other ids than its RUN_STARTED", specLifecycle),
		order(agui.RuleThreadID, aSecondRun, "a later run of the stream is of another thread", specLifecycle),
		order(agui.RuleStillOpen, anOutcome, "RUN_FINISHED came while a message, call, step, thought or subagent was open; clients throw", specStreaming),
		order(agui.RuleOutcome, anOutcome, "the outcome is none that the protocol allows", specLifecycle),
		order(agui.RuleInterruptID, anOutcome, "two interrupts of one run have one id: an answer cannot say which it is for", specInterrupts),
		order(agui.RuleAlreadyOpen, aText, "a start of what is open; clients throw", specStreaming),
		order(agui.RuleNotOpen, aText, "content or end of what is not open; clients throw", specStreaming),
		order(agui.RuleStepOwner, aStep, "a step was finished by another agent than it was started by", specLifecycle),
		order(agui.RuleOwner, aSubagent, "an event has another subagentRunId than what it belongs to", specSubagents),
		order(agui.RuleSubagentUsed, aSubagent, "the id of a subagent was used again", specSubagents),
		order(agui.RuleSubagentGone, aSubagent, "the end of a subagent that is not active", specSubagents),
		order(agui.RuleParent, aSubagent, "the parent of a subagent was never started", specSubagents),
		order(agui.RuleChunkUnnamed, aChunk, "the first chunk of an item has no id or name; clients throw", specStreaming),
		order(agui.RuleChunkChanged, aChunk, "a chunk contradicts the one that opened its item", specStreaming),
		order(agui.RuleChunkEnded, aChunk, "an explicit event for an item that chunks opened", specStreaming),
		order(agui.RuleChunkWhose, aChunk, "a chunk without an id fits several items", specStreaming),
		order(agui.RuleTooMany, aText, "more is open at once than is followed", specStreaming),
	}
}

// Rule is a rule as the documentation has it.
type Rule struct {
	Code  string
	Level Level
}

// Rules lists every rule, in the order of a report.
func Rules() []Rule {
	var rules []Rule
	for _, r := range table() {
		rules = append(rules, Rule{r.code, r.level})
	}
	return rules
}
