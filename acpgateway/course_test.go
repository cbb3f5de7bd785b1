package acpgateway

import (
	"testing"
	"time"

	"aqueduct/acpgateway/translate"
	"aqueduct/acpgateway/wire"
	"aqueduct/internal/bubbletest"
)

// If this fails, the result of an earlier prompt ends the Turn of the next one, or a cancel names no prompt to the agent.
func TestCourseFollowsTheFirstPrompt(t *testing.T) {
	t.Parallel()
	var co course
	if p := co.stop(); p != "" || !co.isStopped() {
		t.Errorf("a cancel before the prompt is known names %q; stopped: %v", p, co.isStopped())
	}
	co = course{}
	co.follow("")
	co.follow("p1")
	co.follow("p2")
	if p := co.following(); p != "p1" || co.isStopped() {
		t.Errorf("it follows %q; stopped: %v", p, co.isStopped())
	}
	if p := co.stop(); p != "p1" {
		t.Errorf("a cancel names %q", p)
	}
}

// If this fails, the translator goes on with a message that the end of its Run has closed, or closes it twice.
func TestCourseReportsARunsEndOnce(t *testing.T) {
	t.Parallel()
	var co course
	if co.takeRunEnded() {
		t.Error("a Run has ended before any did")
	}
	co.endRun()
	co.endRun()
	if !co.takeRunEnded() || co.takeRunEnded() {
		t.Error("the end of a Run is not reported exactly once")
	}
}

// If this fails, the chat shows a crashed agent without its exit code, or a failure that came before with a wrong one.
func TestProcessEndExplainsAFailure(t *testing.T) {
	t.Parallel()
	code, signal := 137, "SIGKILL"
	var pe processEnd
	if c := pe.explains(translate.Cause{Code: "x"}); c.ExitCode != nil || c.Signal != "" || c.Code != "x" {
		t.Errorf("an agent that runs explains a failure as %+v", c)
	}
	pe.closed()
	first := pe.at
	if first.IsZero() {
		t.Error("acp_closed is no end")
	}
	if c := pe.explains(translate.Cause{}); c.ExitCode != nil || c.Signal != "" {
		t.Errorf("acp_closed alone explains a failure as %+v", c)
	}
	pe = processEnd{exit: wire.Exit{Code: &code, Signal: &signal}, at: at(3)}
	pe.closed() // it comes behind acp_exit
	if c := pe.explains(translate.Cause{Message: "m"}); c.ExitCode != &code || c.Signal != signal || c.Message != "m" || !pe.at.Equal(at(3)) {
		t.Errorf("acp_exit and acp_closed explain a failure as %+v, at %v", c, pe.at)
	}
}

// If this fails, a person's day of thinking counts as the agent's, and the prompt times out when the answer comes.
func TestPromptClockStandsStillWhileAPersonIsAsked(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		var pc promptClock
		check := func(when string, used time.Duration, running bool) {
			t.Helper()
			if u, r := pc.elapsed(); u != used || r != running {
				t.Errorf("%s: %v used, running %v; want %v, %v", when, u, r, used, running)
			}
		}
		check("before the prompt", 0, false)
		pc.start()
		time.Sleep(time.Minute)
		check("at work", time.Minute, true)
		pc.pause()
		pc.pause()
		time.Sleep(24 * time.Hour)
		check("asking", 0, false)
		answered := time.Now()
		pc.resume()
		time.Sleep(time.Minute)
		check("answered", 2*time.Minute, true)
		if !pc.resumedAt().Equal(answered) {
			t.Errorf("answered at %v, want %v", pc.resumedAt(), answered)
		}
		pc.resume() // a second answer while it runs
		time.Sleep(time.Minute)
		check("answered twice", 3*time.Minute, true)
	})
}

func updateFrame(t *testing.T, prompt, update string) frame {
	t.Helper()
	m := &wire.ACPUpdate{Update: []byte(update)}
	if prompt != "" {
		m.PromptID = &prompt
	}
	return newFrame(m, "run")
}

func signalFrame(t *testing.T, content string) frame {
	t.Helper()
	f := newFrame(&wire.ProxyUpdate{Content: []byte(content)}, "run")
	if f.signal == nil {
		t.Fatalf("%s is no signal", content)
	}
	return f
}

const (
	aText  = `{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"hi"}}`
	aMode  = `{"sessionUpdate":"current_mode_update","currentModeId":"plan"}`
	aUsage = `{"sessionUpdate":"usage_update","used":1,"size":2}`
	aLine  = `{"type":"text","text":"login at https://x"}`
)

// If this fails, a stuck agent's silence is hidden by its proxy's reports, or one that works is ended as silent.
func TestActivityKeepsTheSignsApart(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		for name, c := range map[string]struct {
			f                              frame
			proof, spoke, text, stillQuiet bool
			console                        string
		}{
			"text of the prompt":        {updateFrame(t, "p", aText), true, true, true, false, ""},
			"text of another prompt":    {updateFrame(t, "q", aText), false, true, true, true, ""},
			"text that names no prompt": {updateFrame(t, "", aText), true, true, true, false, ""},
			"a mode":                    {updateFrame(t, "p", aMode), true, false, false, false, ""},
			"usage":                     {updateFrame(t, "p", aUsage), true, true, false, false, ""},
			"the console":               {signalFrame(t, aLine), false, false, true, true, "login at https://x"},
			"a result":                  {frame{Frame: &wire.PromptResult{}}, false, false, true, true, ""},
		} {
			act := activity{silent: at(1), noticed: true}
			time.Sleep(time.Second)
			now := time.Now()
			act.note(c.f, "p")
			is := func(got time.Time, want bool) bool { return got.Equal(now) == want }
			if !is(act.lastFrame, true) || !is(act.lastProof, c.proof) || !is(act.lastSpoke, c.spoke) ||
				act.spokeText != c.text || act.silent.IsZero() == c.stillQuiet || act.noticed == c.spoke || act.console != c.console {
				t.Errorf("%s: %+v", name, act)
			}
		}
	})
}
