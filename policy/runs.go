package policy

import (
	"path"
	"slices"
	"strings"
)

// Arguments that name what runs, as agents spell them: in lower case, without "_" and "-".
// A rule for "go test *" is about these, whatever the title beside them claims.
var runArguments = map[string]bool{"command": true, "cmd": true, "commandline": true, "shellcommand": true, "script": true, "argv": true}

// besideCommands are arguments that stand beside a command and choose nothing else to run, as agents spell them.
var besideCommands = map[string]bool{
	"args": true, "description": true, "explanation": true, "reason": true, "cwd": true, "workdir": true, "workingdirectory": true, "directory": true,
	"timeout": true, "timeoutms": true, "runinbackground": true, "isbackground": true, "background": true,
	"callid": true, "turnid": true, "parsedcmd": true, // codex
}

// ofFiles are arguments of calls that run no command: places, searches and texts.
var ofFiles = map[string]bool{
	"path": true, "paths": true, "filepath": true, "abspath": true, "absolutepath": true, "file": true, "filename": true, "uri": true, "url": true, "prompt": true,
	"pattern": true, "query": true, "glob": true, "include": true, "exclude": true, "offset": true, "limit": true, "line": true, "startline": true, "endline": true,
	"content": true, "oldstring": true, "newstring": true, "oldtext": true, "newtext": true, "replaceall": true, "locations": true, "source": true, "destination": true,
}

// runners are the shells that agents wrap a command in, as in ["bash", "-lc", "go test ./..."].
var runners = map[string]bool{"sh": true, "bash": true, "zsh": true, "dash": true}

// usual is the name of an argument as it is compared.
func usual(name string) string {
	return strings.ToLower(strings.NewReplacer("_", "", "-", "").Replace(name))
}

// stated reports whether the call is described by an agent's own words. Of a tool that we run
// the name is certain and what the arguments hold is what it gets.
func (c *Call) stated() bool { return c.Kind != "" || c.Title != "" }

// commands are the commands that the arguments name; false when it cannot be known what they
// name, because they can be read in two ways or have another form.
// Agents spell the argument differently: Claude Code command, Codex a list, Gemini CLI command with a description.
func (q *question) commands() (list []string, ok bool) {
	args, err := q.args.read(q.Args)
	if err != nil {
		return nil, false
	}
	fields, _ := args.(map[string]any)
	for name, value := range fields {
		if !runArguments[usual(name)] || value == nil {
			continue
		}
		command, ok := commandOf(value, fields)
		if !ok {
			return nil, false
		}
		if command != "" {
			list = append(list, command)
		}
	}
	return list, true
}

// commandOf is the command of one argument: a text, with the words of "args" behind it where
// the command is a program alone, or a list of words.
// ["bash","-lc","go test ./..."] is judged as the command in it: the shell around it is the agent's habit.
func commandOf(value any, fields map[string]any) (string, bool) {
	switch v := value.(type) {
	case string:
		if more, ok := fields["args"].([]any); ok {
			words, ok := texts(more)
			return strings.Join(append([]string{v}, words...), " "), ok
		}
		return v, true
	case []any:
		words, ok := texts(v)
		if ok && len(words) == 3 && runners[path.Base(words[0])] && (words[1] == "-c" || words[1] == "-lc") {
			return words[2], true
		}
		return strings.Join(words, " "), ok
	}
	return "", false
}

// agrees reports whether all that the arguments name as what runs has a form of the rule. An
// agent's title and the name it gives a tool are its own words; beside "rm -rf /" they allow
// nothing. Nor do they where it is not known what runs.
func (r *rule) agrees(q *question) bool {
	if !q.stated() || r.isNamed(q.Tool) {
		return true
	}
	commands, ok := q.commands()
	ok = ok && q.understood(len(commands) > 0)
	for _, command := range commands {
		ok = ok && plain(command) == command && r.spells(command, true)
	}
	return ok
}

// understood reports whether it is known what a call runs, as far as the agent states it: the arguments name a command, or the
// kind of the call runs none, and no argument has a name that could choose something else. An agent may call the argument with
// the command anything.
func (q *question) understood(command bool) bool {
	runs := q.Kind == "" || q.Kind == "execute" || q.Kind == "other"
	return (command || !runs) && q.namesKnown(!runs)
}

// namesKnown reports whether every argument has a name that is known: of a command and what stands beside one, and with files
// also of places, searches and texts.
func (q *question) namesKnown(files bool) bool {
	args, err := q.args.read(q.Args)
	fields, isObject := args.(map[string]any)
	if err != nil || !isObject {
		return false
	}
	for name, value := range fields {
		name = usual(name)
		if value != nil && !runArguments[name] && !besideCommands[name] && !(files && ofFiles[name]) {
			return false
		}
	}
	return true
}

// isNamed reports whether the rule is about this very tool: then it is about whatever command
// the tool gets. A name with spaces is a command, and is compared with the one that runs.
func (r *rule) isNamed(tool string) bool {
	return tool != "" && !strings.ContainsAny(tool, " \t") && r.Tool.has(tool)
}

// runs reports whether the arguments name a command that the rule is about, which blocks or
// asks also where title and tool claim something else.
func (r *rule) runs(q *question) bool {
	commands, _ := q.commands()
	return slices.ContainsFunc(commands, func(command string) bool { return r.states(command, "execute") })
}

// namesCommand reports whether the agent's own words have a command beside them, or something
// that cannot be read for certain.
func (q *question) namesCommand() bool {
	if !q.stated() {
		return false
	}
	commands, ok := q.commands()
	return len(commands) > 0 || !ok
}
