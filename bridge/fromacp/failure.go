package fromacp

import (
	"regexp"
	"strconv"
	"strings"
)

// Codes of failures that are told apart here. Others are the caller's.
const (
	CodeAgentError      = "agent_error"
	CodeAgentExited     = "agent_exited"
	CodeInitFailed      = "agent_init_failed"
	CodeCommandNotFound = "agent_command_not_found"
)

// Bounds of what a cause may say, in bytes.
const (
	maxCause  = 2 << 10
	maxStderr = 2 << 10
)

// Cause is what a caller knows of a failure; what the proxy said before is known here.
type Cause struct {
	Code     string // "" when the agent or its proxy is at fault
	Message  string // ours, for a Code
	Error    string // of acp_opened, prompt_result or a JSON-RPC error
	ExitCode *int   // of acp_exit
	Signal   string
}

// trail is what led up to a failure.
type trail struct {
	proxyError string
	stderr     string // the last of it
	link       string // the last line of it with an address, such as where to log in
	init       string
	script     string // the last of what an init script said
	sandbox    string
	gone       bool
	exitCode   *int
	signal     string
}

// line hears a line of the console.
func (tr *trail) line(source, words string) {
	switch source {
	case "proxy:error":
		tr.proxyError = head(words, maxCause)
	case "init", "init:stdout", "init:stderr":
		tr.script = tail(tr.script+strings.TrimRight(words, "\n")+"\n", maxStderr)
	case "agent:stderr", "agent:stdout":
		if strings.Contains(words, "https://") || strings.Contains(words, "http://") {
			tr.link = head(words, maxCause)
		}
		tr.stderr = tail(tr.stderr+strings.TrimRight(words, "\n")+"\n", maxStderr)
	}
}

// connected: a new process; how the last one ended is no cause of anything now.
func (tr *trail) connected() { tr.gone, tr.exitCode, tr.signal = false, nil, "" }

func (tr *trail) exit(code *int, signal string) {
	tr.gone = true
	if code != nil {
		tr.exitCode = code
	}
	if signal != "" {
		tr.signal = signal
	}
}

// Failed appends the end of a prompt that failed, or of an agent that never opened, with
// the whole chain of causes: whoever reads it should see why, and what to do.
func (t *Translator) Failed(dst []Out, c Cause) []Out {
	if c.ExitCode != nil || c.Signal != "" {
		t.trail.exit(c.ExitCode, c.Signal)
	}
	dst = t.closeSteps(t.closeAll(dst, resultFailed, "failed"))
	failure := t.trail.failure(c)
	sandbox := t.trail.sandbox
	t.afterPrompt()
	t.trail.sandbox = sandbox // it stands until the sandbox says otherwise
	return append(dst, Out{End: &End{Failure: failure}})
}

func (tr *trail) failure(c Cause) *Failure {
	causes := tr.causes(c)
	if command, ok := tr.commandNotFound(c); ok {
		return &Failure{Code: CodeCommandNotFound, Message: notFound(command) + "\n" + causes}
	}
	f := &Failure{Code: c.Code, Message: c.Message}
	switch {
	case f.Code != "":
	case tr.gone:
		f.Code, f.Message = CodeAgentExited, "The agent's process ended."
	case tr.init != "":
		f.Code, f.Message = CodeInitFailed, "The agent's workspace could not be prepared."
	default:
		f.Code, f.Message = CodeAgentError, "The agent reported an error."
	}
	f.Message = joined("\n", f.Message, causes)
	return f
}

// causes is the chain, nearest cause first, one to a line.
func (tr *trail) causes(c Cause) string {
	var lines []string
	add := func(name, what string) {
		if what = strings.TrimSpace(what); what != "" {
			lines = append(lines, name+": "+what)
		}
	}
	add("error", head(c.Error, maxCause))
	if said := strings.TrimSpace(tr.proxyError); said != "" && !strings.Contains(c.Error, said) {
		add("proxy", said)
	}
	if tr.gone {
		add("exit", exitWords(tr.exitCode, tr.signal))
	}
	if tr.init != "" {
		add("init", head(tr.init, maxCause))
		add("script", tr.script)
	}
	add("sandbox", head(tr.sandbox, maxCause))
	if !strings.Contains(tr.stderr, tr.link) {
		add("stderr", tr.link+"\n…\n"+tr.stderr)
	} else {
		add("stderr", tr.stderr)
	}
	return strings.Join(lines, "\n")
}

func exitWords(code *int, signal string) string {
	var words []string
	if code != nil {
		words = append(words, "code "+strconv.Itoa(*code))
	}
	if signal != "" {
		words = append(words, "signal "+signal)
	}
	if len(words) == 0 {
		return "unknown"
	}
	return strings.Join(words, ", ")
}

// shellForms is where the forms begin that say the same of anything: they count only
// beside a shell's exit code for it, 127.
const shellForms = 4

// notFoundForms are how shells, exec and sandboxes say that a program is not there.
func notFoundForms() []*regexp.Regexp {
	return []*regexp.Regexp{
		regexp.MustCompile(`execvp:? (\S+?):? .{0,80}?No such file or directory`),
		regexp.MustCompile(`spawn (\S+) ENOENT`),
		regexp.MustCompile(`exec: "([^"]+)": (?:executable file not found|stat )`),
		regexp.MustCompile(`fork/exec (\S+): no such file or directory`),
		regexp.MustCompile(`([^\s:]+): (?:command )?not found`),
		regexp.MustCompile(`env: '?‘?([^\s:'’]+)'?’?: No such file or directory`),
	}
}

// commandNotFound looks for such words in all that was said. Only an agent that is gone
// or never came can have missed its command; one that runs says the like of its tools.
func (tr *trail) commandNotFound(c Cause) (string, bool) {
	shell := tr.exitCode != nil && *tr.exitCode == 127
	for i, form := range notFoundForms() {
		for _, said := range [...]string{c.Error, tr.proxyError, tr.sandbox, tr.stderr} {
			m := form.FindStringSubmatch(said)
			if m == nil || i >= shellForms && !shell {
				continue
			}
			if tr.gone || said != tr.stderr {
				return m[1], true
			}
		}
	}
	return "", shell
}

func notFound(command string) string {
	what := "The agent's command was not found"
	if command != "" {
		what = "The agent's command \"" + head(command, maxName) + "\" was not found"
	}
	return what + " where its proxy starts it. Install it there, or in the sandbox's image, or correct agent_command in the proxy's settings."
}
