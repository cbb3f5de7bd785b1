package fromacp

import (
	"encoding/json"
	"slices"
	"strings"

	"aqueduct/acpgateway/acp"
	"aqueduct/agui"
)

// maxSteps bounds the steps of an init script that are open at once.
const maxSteps = 64

// ProxyUpdate appends what a proxy says of itself means. None of it is ever chat text.
func (t *Translator) ProxyUpdate(dst []Out, content json.RawMessage) []Out {
	signal, err := acp.DecodeSignal(content)
	if err != nil {
		return t.custom(dst, "proxy."+signalName(content), content)
	}
	switch s := signal.(type) {
	case *acp.Text:
		return t.text(dst, s.Text)
	case *acp.InitStep:
		return t.initStep(dst, s, content)
	case *acp.InitResult:
		return t.initResult(dst, s)
	case *acp.InstanceStatus:
		return t.sandbox(dst, s)
	case *acp.TransportConnected:
		t.trail.connected()
		return t.set(dst, member{"transport", json.RawMessage(`{"connected":true}`)})
	case *acp.TransportDisconnected:
		return t.disconnected(dst, s)
	case *acp.PermissionRequest:
		return t.Permission(dst, content)
	case *acp.ElicitationRequest:
		return t.elicitation(dst, s)
	case *acp.PermissionCancelled:
		return append(dst, Out{Withdrawn: string(s.RequestID)})
	}
	return t.otherSignal(dst, signal.Kind(), content)
}

// otherSignal is a notification of the agent's, an update in the old form, or news.
func (t *Translator) otherSignal(dst []Out, name string, content json.RawMessage) []Out {
	if name == "session_update" {
		var old struct{ Update json.RawMessage }
		if json.Unmarshal(content, &old) == nil && len(old.Update) > 0 {
			return t.Update(dst, old.Update)
		}
	}
	return t.custom(dst, "proxy."+name, content)
}

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

// text is a line of the console: its prefix says whose.
func (t *Translator) text(dst []Out, line string) []Out {
	source, words := sourceOf(line)
	t.trail.line(source, words)
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

// initStep is a step of the run. Words for how it goes differ; any that does not say it
// is over says that it goes on.
func (t *Translator) initStep(dst []Out, s *acp.InitStep, content json.RawMessage) []Out {
	name := "init:" + head(s.Stage, maxName)
	at := slices.Index(t.steps, name)
	over, failed := stepOver(s.Status)
	if at < 0 {
		if len(t.steps) == maxSteps {
			dst = t.closeStep(dst, 0)
		}
		t.steps = append(t.steps, name)
		at = len(t.steps) - 1
		dst = event(dst, &agui.StepStarted{StepName: name})
	}
	if failed {
		t.trail.init = joined(": ", s.Stage, s.Message)
	}
	if failed || s.Message != "" {
		dst = t.custom(dst, "proxy.init_step", content)
	}
	if over {
		dst = t.closeStep(dst, at)
	}
	return dst
}

func stepOver(status string) (over, failed bool) {
	switch strings.ToLower(status) {
	case "done", "ok", "success", "succeeded", "completed", "complete", "finished", "end", "skipped":
		return true, false
	case "failed", "failure", "fail", "error", "timeout":
		return true, true
	}
	return false, false
}

func (t *Translator) closeStep(dst []Out, at int) []Out {
	name := t.steps[at]
	t.steps = slices.Delete(t.steps, at, at+1)
	return event(dst, &agui.StepFinished{StepName: name})
}

func (t *Translator) closeSteps(dst []Out) []Out {
	for len(t.steps) > 0 {
		dst = t.closeStep(dst, 0)
	}
	return dst
}

func (t *Translator) initResult(dst []Out, s *acp.InitResult) []Out {
	if !s.OK {
		if !strings.Contains(t.trail.init, s.Error) { // the step may have said it
			t.trail.init = joined(": ", t.trail.init, s.Error)
		}
		if t.trail.init == "" {
			t.trail.init = "it did not say why"
		}
	}
	return t.set(t.closeSteps(dst), member{"init", marshal(struct {
		OK       bool   `json:"ok"`
		ExitCode *int   `json:"exitCode,omitempty"`
		Error    string `json:"error,omitempty"`
	}{s.OK, s.ExitCode, head(s.Error, maxCause)})})
}

// sandbox leaves out when the instance was last seen: a status comes with every prompt,
// and a state that changes each time says nothing.
func (t *Translator) sandbox(dst []Out, s *acp.InstanceStatus) []Out {
	t.trail.sandbox = word(s.LastError)
	return t.set(dst, member{"sandbox", marshal(struct {
		Status    string `json:"status"`
		Provider  string `json:"provider,omitempty"`
		Runtime   string `json:"runtime,omitempty"`
		LastError string `json:"lastError,omitempty"`
	}{s.Status, s.Provider, word(s.Runtime), head(word(s.LastError), maxCause)})})
}

func (t *Translator) disconnected(dst []Out, s *acp.TransportDisconnected) []Out {
	t.trail.exit(s.Code, word(s.Signal))
	return t.set(dst, member{"transport", marshal(struct {
		Connected bool   `json:"connected"`
		Code      *int   `json:"code,omitempty"`
		Signal    string `json:"signal,omitempty"`
		Reason    string `json:"reason,omitempty"`
	}{false, s.Code, word(s.Signal), s.Reason})})
}

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
