package agents_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// saying is one answer of the model: thoughts, then words, then at most one call.
type saying struct {
	thoughts []string
	words    []string
	pause    time.Duration // between two words
	tool     string
	args     map[string]string
}

// pace is how slowly "slow" speaks: what comes in between has to meet it at work.
const pace = 50 * time.Millisecond

// script decides by the last message of the conversation alone:
//
//	say WORDS             sends them, one by one
//	think WORDS           thinks them, then sends "thought"
//	slow                  counts for a long time
//	recall                repeats the prompts before
//	write FILE with TEXT  calls the tool write; sends "done" when it has the result
//	run COMMAND           calls the tool bash; the same
//	use TOOL NOTE         calls the tool whose name ends so, of whatever server, with the note; repeats its result
func script(req chatRequest) saying {
	if len(req.Tools) == 0 {
		return saying{words: []string{"A title"}}
	}
	users := req.users()
	if last := req.Messages[len(req.Messages)-1]; last.Role == "tool" {
		if len(users) > 0 && strings.HasPrefix(users[len(users)-1], "use ") {
			return saying{words: []string{"It answered: ", string(last.Content)}}
		}
		return saying{words: []string{"done"}}
	}
	if len(users) == 0 {
		return saying{words: []string{"nobody said anything"}}
	}
	verb, rest, _ := strings.Cut(users[len(users)-1], " ")
	switch verb {
	case "say":
		return saying{words: split(rest)}
	case "think":
		return saying{thoughts: split(rest), words: []string{"thought"}}
	case "slow":
		return saying{words: numbers(1000), pause: pace}
	case "recall":
		return saying{words: []string{"You said: ", strings.Join(users[:len(users)-1], "; ")}}
	case "write":
		file, text, _ := strings.Cut(rest, " with ")
		return saying{words: []string{"I write. "}, tool: "write", args: map[string]string{"filePath": file, "content": text}}
	case "run":
		return saying{words: []string{"I run. "}, tool: "bash", args: map[string]string{"command": rest, "description": "Runs it"}}
	}
	if verb == "use" {
		tool, note, _ := strings.Cut(rest, " ")
		return saying{words: []string{"I use it. "}, tool: req.toolNamed(tool), args: map[string]string{"note": note}}
	}
	return saying{words: []string{"I do not know how to ", verb}}
}

// toolNamed is the whole name of the tool whose name ends so: agents put the name of its server before it.
func (req chatRequest) toolNamed(end string) string {
	for _, raw := range req.Tools {
		var tool struct{ Function struct{ Name string } }
		if json.Unmarshal(raw, &tool) == nil && strings.HasSuffix(tool.Function.Name, end) {
			return tool.Function.Name
		}
	}
	return "no_such_tool"
}

func split(text string) []string { return strings.SplitAfter(text, " ") }

func numbers(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprint(i+1, " ")
	}
	return out
}

type object = map[string]any

// stream sends an answer chunk by chunk, until the agent closes the connection.
func stream(w http.ResponseWriter, r *http.Request, s saying) {
	w.Header().Set("Content-Type", "text/event-stream")
	out := http.NewResponseController(w)
	send := func(delta object, finish any) {
		chunk, err := json.Marshal(object{
			"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "model",
			"choices": []object{{"index": 0, "delta": delta, "finish_reason": finish}},
			"usage":   usage,
		})
		if err == nil { // it is made of texts
			fmt.Fprintf(w, "data: %s\n\n", chunk)
			_ = out.Flush() // the agent may be gone; r.Context tells
		}
	}
	send(object{"role": "assistant", "content": ""}, nil)
	for _, text := range s.thoughts {
		send(object{"reasoning_content": text}, nil)
	}
	for _, text := range s.words {
		send(object{"content": text}, nil)
		select {
		case <-time.After(s.pause):
		case <-r.Context().Done():
			return
		}
	}
	if s.tool == "" {
		send(object{}, "stop")
	} else {
		send(object{"tool_calls": []object{s.call()}}, nil)
		send(object{}, "tool_calls")
	}
	fmt.Fprint(w, "data: [DONE]\n\n")
}

var usage = object{"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}

func (s saying) call() object {
	args, err := json.Marshal(s.args)
	if err != nil {
		panic(err) // it is made of texts
	}
	// A new id each time: agents take a known one for the same call.
	id := fmt.Sprintf("call_%d", time.Now().UnixNano())
	return object{"index": 0, "id": id, "type": "function", "function": object{"name": s.tool, "arguments": string(args)}}
}

// whole sends an answer at once.
func whole(w http.ResponseWriter, s saying) {
	msg, finish := object{"role": "assistant", "content": strings.Join(s.words, "")}, "stop"
	if s.tool != "" {
		msg["tool_calls"], finish = []object{s.call()}, "tool_calls"
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(object{ // the agent may be gone
		"id": "c", "object": "chat.completion", "created": 1, "model": "model", "usage": usage,
		"choices": []object{{"index": 0, "message": msg, "finish_reason": finish}},
	})
}
