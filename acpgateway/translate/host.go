package translate

import (
	"encoding/json"
	"slices"
	"strings"

	"aqueduct/acpgateway/wire"
	"aqueduct/agui"
)

// host is what the proxy reports of the place where the agent runs: lines of the console, the init script,
// the sandbox, the agent's process. It keeps what explains a failure.
//
// {"type":"text","text":"[init] npm ci"} becomes CUSTOM proxy.text {"source":"init","text":"npm ci"}; init_step
// becomes STEP_STARTED and STEP_FINISHED "init:<stage>"; statuses become /acp/sandbox and /acp/transport of the state.
// None of it is a message: the agent did not write it.
type host struct {
	ids   *ids
	state *state

	steps        []string // of the init script, open
	errorContext errorContext
}

// maxSteps bounds the steps of an init script that are open at once.
const maxSteps = 64

// signalName is the type of a content that is otherwise wrong.
func signalName(content json.RawMessage) string {
	var head map[string]json.RawMessage
	var name string
	if json.Unmarshal(content, &head) != nil || json.Unmarshal(head["type"], &name) != nil || name == "" {
		return "update"
	}
	return name
}

// stderrSource is the source of lines that an agent writes to its stderr. They are on record as
// one text, and no part of the chat: an agent may log a line for everything it does.
const stderrSource = "agent:stderr"

// line is a line of the console: its prefix names the source.
func (h *host) line(dst []Out, line string) []Out {
	source, words := sourceOf(line)
	h.errorContext.line(source, words)
	if words == "" || source == stderrSource {
		return dst
	}
	return event(dst, &agui.Custom{Name: "proxy.text", Value: marshal(struct {
		Source string `json:"source"`
		Text   string `json:"text"`
	}{source, words})})
}

// sourceOf splits the prefixes off: [init], [init:stdout], [agent:stderr], [proxy:error].
func sourceOf(line string) (source, words string) {
	if rest, ok := strings.CutPrefix(line, "["); ok {
		if source, words, ok = strings.Cut(rest, "]"); ok && isSource(source) {
			return source, strings.TrimPrefix(words, " ")
		}
	}
	return "proxy", line
}

func isSource(s string) bool {
	who, _, _ := strings.Cut(s, ":")
	return who == "init" || who == "agent" || who == "proxy"
}

// initStep is a report of a step of the init script. Words for how it goes differ; one that does not mean its end counts
// as progress.
func (h *host) initStep(dst []Out, s *wire.InitStep, content json.RawMessage) []Out {
	name := "init:" + head(s.Stage, maxName)
	at := slices.Index(h.steps, name)
	over, failed := stepOver(s.Status)
	if at < 0 {
		// Steps whose end was never reported are closed oldest first: the grammar keeps each open one.
		if len(h.steps) == maxSteps {
			dst = h.closeStep(dst, 0)
		}
		h.steps = append(h.steps, name)
		at = len(h.steps) - 1
		dst = event(dst, &agui.StepStarted{StepName: name})
	}
	if failed {
		h.errorContext.init = joined(": ", s.Stage, s.Message)
	}
	if failed || s.Message != "" {
		dst = h.ids.custom(dst, "proxy.init_step", content)
	}
	if over {
		dst = h.closeStep(dst, at)
	}
	return dst
}

// stepOver reads how a step goes. The words are those of the contract and of proxies that were seen.
func stepOver(status string) (over, failed bool) {
	switch strings.ToLower(status) {
	case "done", "ok", "success", "succeeded", "completed", "complete", "finished", "end", "skipped":
		return true, false
	case "failed", "failure", "fail", "error", "timeout":
		return true, true
	}
	return false, false
}

func (h *host) closeStep(dst []Out, at int) []Out {
	name := h.steps[at]
	h.steps = slices.Delete(h.steps, at, at+1)
	return event(dst, &agui.StepFinished{StepName: name})
}

func (h *host) closeSteps(dst []Out) []Out {
	for len(h.steps) > 0 {
		dst = h.closeStep(dst, 0)
	}
	return dst
}

// initResult is the end of the init script. It closes the steps whose end was not reported.
func (h *host) initResult(dst []Out, s *wire.InitResult) []Out {
	if !s.OK {
		if !strings.Contains(h.errorContext.init, s.Error) { // the step may have reported it
			h.errorContext.init = joined(": ", h.errorContext.init, s.Error)
		}
		if h.errorContext.init == "" {
			h.errorContext.init = "it did not say why"
		}
	}
	return h.state.set(h.closeSteps(dst), member{"init", marshal(struct {
		OK       bool   `json:"ok"`
		ExitCode *int   `json:"exitCode,omitempty"`
		Error    string `json:"error,omitempty"`
	}{s.OK, s.ExitCode, head(s.Error, maxCause)})})
}

// sandbox leaves out when the instance was last seen: a status comes with every prompt,
// and a state that changed each time would be a delta in every Run.
func (h *host) sandbox(dst []Out, s *wire.InstanceStatus) []Out {
	h.errorContext.sandbox = word(s.LastError)
	return h.state.set(dst, member{"sandbox", marshal(struct {
		Status    string `json:"status"`
		Provider  string `json:"provider,omitempty"`
		Runtime   string `json:"runtime,omitempty"`
		LastError string `json:"lastError,omitempty"`
	}{s.Status, s.Provider, word(s.Runtime), head(word(s.LastError), maxCause)})})
}

func (h *host) disconnected(dst []Out, s *wire.TransportDisconnected) []Out {
	h.errorContext.exit(s.Code, word(s.Signal))
	return h.state.set(dst, member{"transport", marshal(struct {
		Connected bool   `json:"connected"`
		Code      *int   `json:"code,omitempty"`
		Signal    string `json:"signal,omitempty"`
		Reason    string `json:"reason,omitempty"`
	}{false, s.Code, word(s.Signal), s.Reason})})
}

// word is a text that may be absent.
func word(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// joined joins what is not empty.
func joined(sep string, parts ...string) string {
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), sep)
}
