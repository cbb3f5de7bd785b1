// Package judges_test builds aqueduct, starts it with the demo agent, and lets programs
// judge it that this project did not write: the official AG-UI clients, the real TDesign
// Chat, and Chromium. The verdicts are in the *.test.mjs files; this only starts them.
package judges_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"aqueduct/test/nodetest"
	"aqueduct/test/program"
)

// TestHarness judges the judges: what is wrong must not pass them.
func TestHarness(t *testing.T) {
	nodetest.Need(t, "node_modules/agui1/package.json", "make setup-judges")
	judge(t, "http://nobody.invalid", "harness.test.mjs")
}

// TestClients: both official clients run every part and every way to answer.
func TestClients(t *testing.T) {
	t.Parallel()
	nodetest.Need(t, "node_modules/agui1/package.json", "make setup-judges")
	judge(t, serve(t, "2ms"), "parts.test.mjs", "answers.test.mjs", "seed.test.mjs")
}

// TestJoin: both official clients come back at every point of the travel example. The
// agent is slow enough here for most of them to come back while it still talks.
func TestJoin(t *testing.T) {
	t.Parallel()
	nodetest.Need(t, "node_modules/agui1/package.json", "make setup-judges")
	judge(t, serve(t, "10ms"), "join.test.mjs")
}

// TestJoinAfterwards is the same with an agent that has sent everything at once.
func TestJoinAfterwards(t *testing.T) {
	t.Parallel()
	nodetest.Need(t, "node_modules/agui1/package.json", "make setup-judges")
	judge(t, serve(t, "0s"), "join.test.mjs")
}

// TestJoinOrder: both official clients come in the middle of the third Turn of a thread.
func TestJoinOrder(t *testing.T) {
	nodetest.Need(t, "node_modules/agui1/package.json", "make setup-judges")
	judgeOwn(t, "joinorder.test.mjs")
}

// TestStop: both official clients stop and ask on, regenerate and edit.
func TestStop(t *testing.T) {
	t.Parallel()
	nodetest.Need(t, "node_modules/agui1/package.json", "make setup-judges")
	judge(t, serve(t, "2ms"), "stop.test.mjs")
}

// TestPictures: both official clients with pictures in one thread, and with one of 30 MiB.
func TestPictures(t *testing.T) {
	t.Parallel()
	nodetest.Need(t, "node_modules/agui1/package.json", "make setup-judges")
	judge(t, serve(t, "0s"), "pictures.test.mjs")
}

// TestHold: both official clients while two questions are open and the agent talks on.
func TestHold(t *testing.T) {
	t.Parallel()
	nodetest.Need(t, "node_modules/agui1/package.json", "make setup-judges")
	judge(t, serve(t, "2ms"), "hold.test.mjs")
}

// TestTools: both official clients while the server runs tools for an agent.
func TestTools(t *testing.T) {
	t.Parallel()
	nodetest.Need(t, "node_modules/agui1/package.json", "make setup-judges")
	judge(t, serve(t, "0s", toolAgent(t)...), "tools.test.mjs")
}

// TestState: both official clients share a state with an agent, and CopilotKit's compactor reads what they got. They come
// back to threads whose last answer failed, was cancelled, or was killed with the server.
func TestState(t *testing.T) {
	t.Parallel()
	nodetest.Need(t, "node_modules/agui1/package.json", "make setup-judges")
	database := filepath.Join(t.TempDir(), "aqueduct.db")
	args := []string{"--agent", "state=" + stateAgent(t)}
	url, kill := serveOn(t, database, "2ms", args...)
	judge(t, url, "state.test.mjs")
	judge(t, url, "killed-before.test.mjs")
	kill()
	url, _ = serveOn(t, database, "2ms", args...)
	judge(t, url, "killed-after.test.mjs")
}

func TestTDesignBodies(t *testing.T) {
	t.Parallel()
	judge(t, serve(t, "2ms"), "tdesign-body.test.mjs")
}

// TestTDesignHistory: the real convertHistoryMessages keeps what a thread's history has.
func TestTDesignHistory(t *testing.T) {
	t.Parallel()
	nodetest.Need(t, "../../examples/tdesign/node_modules/tdesign-web-components/package.json", "make setup-tdesign")
	judge(t, serve(t, "0s"), "tdesign-history.test.mjs")
}

// TestTDesignChat: the page of examples/tdesign, started as its README describes, for React.
func TestTDesignChat(t *testing.T) {
	nodetest.Need(t, "../../examples/tdesign/node_modules/vite/package.json", "make setup-tdesign")
	browser(t)
	judgeOwn(t, "tdesign.test.mjs")
}

// TestTDesignVue: the same for Vue, with bodies that the page builds by hand.
func TestTDesignVue(t *testing.T) {
	nodetest.Need(t, "../../examples/tdesign-vue/node_modules/vite/package.json", "make setup-tdesign")
	browser(t)
	judgeOwn(t, "tdesign-vue.test.mjs")
}

// TestEventSource: the npm package reads Runs over connections that are cut after every event.
func TestEventSource(t *testing.T) {
	nodetest.Need(t, "node_modules/eventsource/package.json", "make setup-judges")
	judgeOwn(t, "eventsource.test.mjs")
}

// TestFetchEventSource: the npm package of that name in a browser posts again when its tab is shown again, and when its line was cut.
func TestFetchEventSource(t *testing.T) {
	nodetest.Need(t, "node_modules/@microsoft/fetch-event-source/package.json", "make setup-judges")
	browser(t)
	judgeOwn(t, "fetcheventsource.test.mjs")
}

// TestCassette: both official clients get from a thread that was exported and is served again what they got from the
// thread itself. The agent's pauses are long enough to be compared.
func TestCassette(t *testing.T) {
	nodetest.Need(t, "node_modules/agui1/package.json", "make setup-judges")
	path, err := program.Shipped()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("AQUEDUCT", path)
	judge(t, serve(t, "30ms"), "cassette.test.mjs")
}

// judgeOwn is for tests that start the program by themselves, because they kill it.
func judgeOwn(t *testing.T, files ...string) {
	t.Helper()
	path, err := program.Shipped()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("AQUEDUCT", path)
	judge(t, "http://aqueduct.invalid", files...)
}

func TestPage(t *testing.T) {
	browser(t)
	judge(t, serve(t, "5ms", "--agent", "second="+burstAgent(t), "--default-agent", "demo"), "page.test.mjs")
}

// TestPageSignsIn: the same page where the server wants a token.
func TestPageSignsIn(t *testing.T) {
	browser(t)
	judge(t, serve(t, "2ms"), "signin.test.mjs")
}

// TestS41CookieOtherPort: the page in Chromium, beside a web server on another port that is sent its cookie.
func TestS41CookieOtherPort(t *testing.T) {
	browser(t)
	judgeOwn(t, "cookieport.test.mjs")
}

// TestPageModules tests the page's modules that need no browser.
func TestPageModules(t *testing.T) {
	judge(t, "", "../../web/test/fold.test.js", "../../web/test/patch.test.js", "../../web/test/sse.test.js")
}

func browser(t *testing.T) {
	t.Helper()
	nodetest.Need(t, "node_modules/playwright-core/package.json", "make setup-judges")
	if os.Getenv("CHROMIUM") != "" {
		return
	}
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if _, err := exec.LookPath(name); err == nil {
			return
		}
	}
	t.Fatal(`no Chromium; run "make setup-chromium"`)
}

// judge runs test files against a server and shows node's closing lines.
func judge(t *testing.T, url string, files ...string) {
	t.Helper()
	report := nodetest.Run(t, []string{"BASE_URL=" + url}, files...)
	t.Logf("node --test %s\n%s", strings.Join(base(files), " "), nodetest.Totals(report))
}

func base(files []string) []string {
	out := make([]string, len(files))
	for i, f := range files {
		out[i] = filepath.Base(f)
	}
	return out
}

// TestS61HostileActivities: the page at "/" with an agent that wants to get into it, or to learn who looks at it.
func TestS61HostileActivities(t *testing.T) {
	t.Parallel()
	browser(t)
	judge(t, serve(t, "0s"), "hostile.test.mjs")
}
