// Package aguiagents_test puts agents of others that speak AG-UI behind a running aqueduct, and has the official clients talk
// to them.
package aguiagents_test

import (
	"bufio"
	"cmp"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"aqueduct/test/nodetest"
	"aqueduct/test/program"
)

func TestMain(m *testing.M) { os.Exit(program.Main(m)) }

// patience bounds the wait for what is started.
const patience = 30 * time.Second

// started starts a command that prints where it listens. What it gives waits for that and is what the pattern found.
func started(t *testing.T, cmd *exec.Cmd, pattern string) func() string {
	t.Helper()
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if _, err := cmd.StdinPipe(); err != nil { // stays open for as long as the test runs
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = cmd.Stdout
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	found, read := make(chan string, 1), make(chan struct{})
	go func() {
		defer close(read)
		line := regexp.MustCompile(pattern)
		for sc := bufio.NewScanner(out); sc.Scan(); {
			if m := line.FindStringSubmatch(sc.Text()); m != nil {
				found <- m[1]
				break
			}
			t.Log(sc.Text())
		}
		_, _ = io.Copy(io.Discard, out)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-read
		_ = cmd.Wait()
	})
	return sync.OnceValue(func() string {
		t.Helper()
		select {
		case address := <-found:
			return address
		case <-read:
			t.Fatalf("%s ended before it listened", cmd)
		case <-time.After(patience):
			t.Fatalf("%s does not listen", cmd)
		}
		return ""
	})
}

// framework is a row of docs/frameworks.md: an agent made with it, and what node runs against that agent.
type framework struct {
	row   string // its name there
	agent string // the program that is the agent
	style string // of played.mjs
	test  string
}

// frameworks are the rows. The middlewares stand between the client and an agent, for which CopilotKit's stands here.
var frameworks = []framework{
	{row: "LangGraph", agent: "langgraph"},
	{row: "Mastra", agent: "mastra"},
	{row: "AWS Strands", agent: "strands"},
	{row: "CopilotKit's built-in agent", agent: "copilotkit"},
	{row: "TanStack AI", agent: "tanstack"},
	{row: "A2UI middleware", agent: "copilotkit", test: "a2ui"},
	{row: "MCP middleware", agent: "copilotkit", test: "mcp"},
	{row: "MCP-Apps middleware", agent: "copilotkit", test: "mcpapps"},
	{row: "Vercel AI SDK", agent: "played", style: "vercel"},
	{row: "Claude Agent SDK", agent: "played", style: "claude"},
	{row: "CrewAI", agent: "played", style: "crewai"},
	{row: "Agno", agent: "played", style: "agno"},
	{row: "Pydantic AI", agent: "played", style: "pydantic"},
	{row: "Microsoft Agent Framework (Python)", agent: "played", style: "maf"},
	{row: "Microsoft Agent Framework (Python, before outcomes)", agent: "played", style: "mafold"},
	{row: "Microsoft Agent Framework (.NET)", agent: "played", style: "dotnet"},
	{row: "Google ADK", agent: "played", style: "adk"},
	{row: "LlamaIndex", agent: "played", style: "llamaindex"},
}

// id is the agent's name at aqueduct, and the file that tests it.
func (f framework) id() string { return cmp.Or(f.style, f.agent) }

// TestFrameworks puts an agent of each framework behind one aqueduct, with its settings as they come, and has the official
// clients talk to it. All agents have one model, which refuses what OpenAI refuses.
func TestFrameworks(t *testing.T) {
	nodetest.Need(t, "node_modules/.installed", "make setup-aguiagents")
	nodetest.Need(t, "strands/node_modules/.installed", "make setup-aguiagents")
	nodetest.Need(t, "../../examples/copilotkit/node_modules/.installed", "make setup-copilotkit")
	path, err := program.Shipped()
	if err != nil {
		t.Fatal(err)
	}
	env := append(os.Environ(), "MODEL_URL="+newModel(t).URL+"/v1", "DO_NOT_TRACK=1", "COPILOTKIT_TELEMETRY_DISABLED=true",
		"MASTRA_TELEMETRY_DISABLED=1", "LANGGRAPH_CLI_NO_ANALYTICS=1", "LANGSMITH_TRACING=false")
	addresses := map[string]func() string{}
	for _, f := range frameworks {
		if addresses[f.agent] == nil {
			agent := exec.Command("node", f.agent+".mjs")
			agent.Env = env
			addresses[f.agent] = started(t, agent, `^listening on (\d+)`)
		}
	}
	endpoint := func(f framework) string {
		return strings.TrimSuffix("http://127.0.0.1:"+addresses[f.agent]()+"/"+f.style, "/")
	}
	args := []string{"serve", "--listen", "127.0.0.1:0", "--auth", "none", "--database", "sqlite:" + filepath.Join(t.TempDir(), "a.db")}
	for _, f := range frameworks {
		if f.test == "" {
			args = append(args, "--agent", f.id()+"="+endpoint(f)+"/,protocol=agui")
		}
	}
	url := "http://" + started(t, exec.Command(path, args...), `listening on .*?(127\.0\.0\.1:\d+)`)()
	ran := map[string]bool{}
	t.Run("rows", func(t *testing.T) {
		for _, f := range frameworks {
			ran[f.row] = true
			t.Run(f.row, func(t *testing.T) {
				t.Parallel()
				test := cmp.Or(f.test, f.agent) + ".test.mjs"
				// Rows run in parallel, so none may append to the environment that they share.
				of := []string{"AQUEDUCT_URL=" + url, "AGENT=" + f.id(), "STYLE=" + f.style, "AGENT_URL=" + endpoint(f)}
				report := nodetest.Run(t, slices.Concat(env, of), test)
				t.Logf("node --test %s\n%s", test, nodetest.Totals(report))
			})
		}
	})
	judgeRows(t, ran)
}

// judge puts the agent of AGENT.mjs behind a server of its own, and has TEST.test.mjs talk to it.
func judge(t *testing.T, agent, test string, env ...string) {
	t.Helper()
	nodetest.Need(t, "node_modules/.installed", "make setup-aguiagents")
	of := exec.Command("node", agent+".mjs")
	of.Env = append(os.Environ(), env...)
	address := "http://127.0.0.1:" + started(t, of, `^listening on (\d+)`)()
	path, err := program.Shipped()
	if err != nil {
		t.Fatal(err)
	}
	serve := exec.Command(path, "serve", "--listen", "127.0.0.1:0", "--auth", "none",
		"--database", "sqlite:"+filepath.Join(t.TempDir(), "a.db"), "--agent", agent+"="+address+"/,protocol=agui")
	url := "http://" + started(t, serve, `listening on .*?(127\.0\.0\.1:\d+)`)()
	report := nodetest.Run(t, append(env, "AQUEDUCT_URL="+url, "AGENT="+agent, "AGENT_URL="+address), test+".test.mjs")
	t.Logf("node --test %s.test.mjs\n%s", test, nodetest.Totals(report))
}

// TestStreams: what both official clients take of an agent is taken, and what both refuse is refused with the event's name.
func TestStreams(t *testing.T) { judge(t, "streams", "streams") }

// TestMemory: a graph of LangGraph behind the protocol's package as it ships, with a model that refuses doubled messages and
// calls without results. It compares what it is sent with its own memory by id.
func TestMemory(t *testing.T) { judge(t, "memory", "memory") }

// TestLangGraphOutcome: LangGraph with emitInterruptOutcome, where each interrupt comes by the outcome and by CUSTOM on_interrupt.
func TestLangGraphOutcome(t *testing.T) {
	judge(t, "langgraph", "outcome", "OUTCOME=1", "MODEL_URL="+newModel(t).URL+"/v1", "LANGGRAPH_CLI_NO_ANALYTICS=1", "LANGSMITH_TRACING=false")
}
