package translate

import (
	"cmp"
	"regexp"
	"strconv"
	"strings"

	"aqueduct/internal/fault"
)

// Codes of failures that the translator recognizes. Others are the caller's.
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

// Cause is what a caller knows of a failure; errorContext holds what the proxy reported before.
type Cause struct {
	Code     string // "" when the agent or its proxy is at fault
	Message  string // ours, for a Code
	Error    string // of acp_opened, prompt_result or a JSON-RPC error
	ExitCode *int   // of acp_exit
	Signal   string
}

// errorContext is what led up to a failure: the last of each kind of report since the prompt before ended, and the sandbox's,
// which stands until the next. Each text is bounded, since a process that fails may write without end.
type errorContext struct {
	proxyError string
	stderr     string // the last of it
	link       string // the last line of it with an address, such as where to log in
	init       string
	script     string // the last of an init script's output
	sandbox    string
	connects   bool // a process is connected but has not opened, and these reports are its own
	gone       bool
	exitCode   *int
	signal     string
}

// line adds a line of the console.
func (ec *errorContext) line(source, words string) {
	switch source {
	case "proxy:error":
		ec.proxyError = head(words, maxCause)
	case "init", "init:stdout", "init:stderr":
		ec.script = tail(ec.script+strings.TrimRight(words, "\n")+"\n", maxStderr)
	case "agent:stderr", "agent:stdout":
		if strings.Contains(words, "https://") || strings.Contains(words, "http://") {
			ec.link = head(words, maxCause)
		}
		ec.stderr = tail(ec.stderr+strings.TrimRight(words, "\n")+"\n", maxStderr)
	}
}

// connected notes a new process. The last process's output and exit cannot be the cause of a later failure.
func (ec *errorContext) connected() {
	*ec = errorContext{connects: true, init: ec.init, script: ec.script, sandbox: ec.sandbox}
}

// opened notes that an agent answers. Earlier reports are of another process, or of a preparation that succeeded in the end,
// unless the proxy reported the process before it wrote.
func (ec *errorContext) opened() {
	if !ec.connects {
		ec.connected()
	}
	ec.connects, ec.init, ec.script = false, "", ""
}

// exit notes how the process ended. Two reports of it complete each other: what one lacks the other may have.
func (ec *errorContext) exit(code *int, signal string) {
	ec.gone, ec.connects = true, false
	if code != nil {
		ec.exitCode = code
	}
	if signal != "" {
		ec.signal = signal
	}
}

// failure is the error that the Turn ends with. A caller's code stands; without one, what the proxy reported decides.
func (ec *errorContext) failure(c Cause) *fault.Error {
	causes := ec.causes(c)
	if command, ok := ec.commandNotFound(c); ok {
		return fault.New(CodeCommandNotFound, notFound(command)+"\n"+causes)
	}
	f := fault.New(c.Code, c.Message)
	switch {
	case f.Code != "":
	case ec.gone:
		f.Code, f.Message = CodeAgentExited, "The agent's process ended."
	case ec.init != "":
		f.Code, f.Message = CodeInitFailed, "The agent's workspace could not be prepared."
	default:
		f.Code, f.Message = CodeAgentError, "The agent reported an error."
	}
	f.Message = joined("\n", f.Message, causes)
	return f
}

// causes is the chain, nearest cause first, one to a line.
func (ec *errorContext) causes(c Cause) string {
	var lines []string
	add := func(name, what string) {
		if what = strings.TrimSpace(what); what != "" {
			lines = append(lines, name+": "+what)
		}
	}
	add("error", head(c.Error, maxCause))
	if said := strings.TrimSpace(ec.proxyError); said != "" && !strings.Contains(c.Error, said) {
		add("proxy", said)
	}
	if ec.gone {
		add("exit", exitWords(ec.exitCode, ec.signal))
	}
	if ec.init != "" {
		add("init", head(ec.init, maxCause))
		add("script", ec.script)
	}
	add("sandbox", head(ec.sandbox, maxCause))
	// A login page is often named once, long before the end that stderr is cut to.
	if !strings.Contains(ec.stderr, ec.link) {
		add("stderr", ec.link+"\n…\n"+ec.stderr)
	} else {
		add("stderr", ec.stderr)
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
	return cmp.Or(strings.Join(words, ", "), "unknown")
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

// commandNotFound looks for such words in all output. Only an agent that is gone
// or never came can have missed its command; one that runs prints the same about its tools.
func (ec *errorContext) commandNotFound(c Cause) (string, bool) {
	shell := ec.exitCode != nil && *ec.exitCode == 127
	for i, form := range notFoundForms() {
		for _, said := range [...]string{c.Error, ec.proxyError, ec.sandbox, ec.stderr} {
			m := form.FindStringSubmatch(said)
			if m == nil || i >= shellForms && !shell {
				continue
			}
			if ec.gone || said != ec.stderr {
				return m[1], true
			}
		}
	}
	return "", shell
}

// notFound names what to do about it; command is "" where only the exit code is known.
func notFound(command string) string {
	what := "The agent's command was not found"
	if command != "" {
		what = "The agent's command \"" + head(command, maxName) + "\" was not found"
	}
	return what + " where its proxy starts it. Install it there, or in the sandbox's image, or correct agent_command in the proxy's settings."
}
