// Command goagent is an agent in Go that uses what Aqueduct offers. Its prompts:
//
//	transfer 10 to ada     calls the tool payments.transfer; the policy asks a person. The tool is yours to bring
//	                       (--tools-file, docs/tools.md); without one the agent answers that
//	balance of ada         calls the tool payments.balance, and shows the call itself
//	tidy a b               asks a person itself, one question after the other
//	name                   asks for a name
//	ask node hello         calls the agent "node" (examples/nodeagent) and passes on what it answers
//	remember the milk      keeps the words in the context store, and the key in the thread's state
//	recall                 reads them, in whatever run of the thread
//	forget                 deletes them
//	where                  asks the page, whose tool get_location it is; that of a browser asks the person
//	think about tides      shows its reasoning apart from the answer, and counts tokens
//	history                reads the transcript
//	models                 lists the models that it may call
//	anything else          is repeated
//
// Start it:   go run ./examples/goagent
// Then:       aqueduct serve --agent go=http://127.0.0.1:8072
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"aqueduct/sdk/go/agent"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := serve(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "goagent:", err)
		os.Exit(1)
	}
}

// serve serves until ctx ends, and a moment longer for answers that are under way.
func serve(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("goagent", flag.ContinueOnError)
	port := flags.Int("port", 8072, "port to listen on")
	if err := flags.Parse(args); err != nil {
		return err
	}
	ln, err := (&net.ListenConfig{}).Listen(ctx, "tcp", fmt.Sprintf("127.0.0.1:%d", *port))
	if err != nil {
		return err
	}
	fmt.Println("listening on http://" + ln.Addr().String())
	server := &http.Server{Handler: agent.Handler(choose), ReadHeaderTimeout: 5 * time.Second}
	stopped := make(chan error, 1)
	go func() {
		<-ctx.Done()
		grace, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		_ = server.Shutdown(grace) // an answer that outlasts the grace is cut by Close
		stopped <- server.Close()
	}()
	if err := server.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return <-stopped
}

// choose picks what to do, by the first word of the prompt. It is called once more for each time that answers come,
// with the same prompt, and so picks the same.
func choose(ctx context.Context, run *agent.Run) error {
	first, rest, _ := strings.Cut(run.Prompt, " ")
	switch first {
	case "transfer":
		return transfer(ctx, run, rest)
	case "balance":
		return balance(ctx, run, strings.TrimPrefix(rest, "of "))
	case "tidy":
		return tidy(run, strings.Fields(rest))
	case "name":
		return name(run)
	case "ask":
		id, message, _ := strings.Cut(rest, " ")
		return another(ctx, run, id, message)
	case "remember":
		return remember(ctx, run, rest)
	case "recall":
		return recall(ctx, run)
	case "forget":
		return forget(ctx, run)
	case "where":
		return where(run)
	case "think":
		return think(run, strings.TrimPrefix(rest, "about "))
	case "history":
		return history(ctx, run)
	case "models":
		return models(ctx, run)
	}
	for word := range strings.FieldsSeq("You wrote: " + run.Prompt) {
		run.Say(word + " ")
	}
	return nil
}

// transfer uses a tool that Aqueduct runs. It looks like a call, and may take as long as people take.
func transfer(ctx context.Context, run *agent.Run, what string) error {
	var args struct {
		Amount float64 `json:"amount"`
		To     string  `json:"to"`
	}
	if _, err := fmt.Sscanf(what, "%g to %s", &args.Amount, &args.To); err != nil {
		return &agent.Error{Code: "bad_prompt", Message: "Write: transfer 10 to ada"}
	}
	run.Say(fmt.Sprintf("I will transfer %g to %s. ", args.Amount, args.To))
	run.Frame("state", map[string]any{"state": "transferring", "detail": map[string]string{"to": args.To}})
	var got struct{ Receipt string }
	err := run.ToolWith(ctx, agent.ToolCall{Name: "payments.transfer", Args: args, Timeout: 30 * time.Second}, &got)
	if no := (*agent.Error)(nil); errors.As(err, &no) {
		run.Say("It was not done (" + no.Code + ").")
		return nil
	}
	if err != nil {
		return err
	}
	run.Say("Done, receipt " + got.Receipt + ".")
	return nil
}

// balance shows the call itself, where it makes it; under one id it is in the chat once, with Aqueduct's result.
func balance(ctx context.Context, run *agent.Run, of string) error {
	const id = "balance"
	args := map[string]string{"of": of}
	run.Frame("tool_call", map[string]any{"id": id, "name": "payments.balance", "args": args})
	var got struct{ Amount float64 }
	err := run.ToolWith(ctx, agent.ToolCall{Name: "payments.balance", Args: args, CallID: id}, &got)
	if no := (*agent.Error)(nil); errors.As(err, &no) {
		run.Say("It is not known (" + no.Code + ").")
		return nil
	}
	if err != nil {
		return err
	}
	run.Say(fmt.Sprintf("%s has %g.", of, got.Amount))
	return nil
}

// tidy does something itself, so it asks itself. It is called again with each answer: what it wrote before a question it
// does not write again.
func tidy(run *agent.Run, folders []string) error {
	for _, folder := range folders {
		answer, ok := run.Answer("delete " + folder)
		switch {
		case !ok:
			run.Say("I would like to delete " + folder + ". ")
			return run.AskPermission("delete "+folder, agent.Permission{
				Title: "Delete the folder " + folder + "?", Tool: "delete_folder", Args: map[string]string{"path": folder},
			})
		case !answer.New: // done in an earlier call
		case answer.Approved():
			run.Say(folder + " is deleted. ")
		default:
			run.Say(folder + " stays. ")
		}
	}
	return nil
}

// name asks for an input, whose schema pages draw as a form. An answer that does not fit it, or none, is no failure
// of the agent's.
func name(run *agent.Run) error {
	answer, ok := run.Answer("name")
	if !ok {
		schema := map[string]any{"type": "object", "properties": map[string]any{"name": map[string]string{"type": "string"}}, "required": []string{"name"}}
		return run.AskQuestion("name", agent.Question{Title: "What is your name?", Schema: schema})
	}
	var person struct{ Name string }
	if answer.Cancelled() || answer.Value(&person) != nil {
		run.Say("As you like.")
		return nil
	}
	run.Say("Hello " + person.Name + ".")
	return nil
}

// where uses a tool of the page, which sends its tools along with the prompt and runs them itself.
func where(run *agent.Run) error {
	answer, ok := run.Answer("place")
	switch {
	case ok:
	case !slices.ContainsFunc(run.ClientTools, isLocation):
		run.Say("This page does not know where it is.")
		return nil
	default:
		return run.AskClientTool("place", "get_location", map[string]bool{"precise": false})
	}
	var place struct{ City string }
	if answer.Cancelled() || answer.Value(&place) != nil {
		run.Say("You did not tell me.")
		return nil
	}
	run.Say("You are in " + place.City + ".")
	return nil
}

// isLocation reports whether a tool of the page is the one that where can use. A page declares its tools anew with
// each prompt.
func isLocation(raw json.RawMessage) bool {
	var tool struct{ Name string }
	return json.Unmarshal(raw, &tool) == nil && tool.Name == "get_location"
}

// think shows thoughts apart from the answer, and adds to the usage that the end of the run has.
func think(run *agent.Run, subject string) error {
	run.Thought("What do I know about " + subject + "? ")
	run.Thought("Nothing.")
	run.Used("input_tokens", 3)
	run.Used("output_tokens", 2)
	run.Say("I know nothing about " + subject + ".")
	return nil
}

// another calls an agent and repeats what it answers. What that one asks is asked in this thread; its failure has a
// code, and this agent goes on.
func another(ctx context.Context, run *agent.Run, id, message string) error {
	got, err := run.InvokeWith(ctx, agent.AgentCall{AgentID: id, Message: message, Context: map[string]any{"caller": "the Go example"}})
	if no := (*agent.Error)(nil); errors.As(err, &no) {
		run.Say(id + " did not answer (" + no.Code + ").")
		return nil
	}
	if err != nil {
		return err
	}
	run.Say(id + ": " + got.Text)
	return nil
}
