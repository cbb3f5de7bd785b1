package acpgateway

import "time"

// timeouts are the times at which a Turn ends or acts without a frame. They are computed from a copy of what they depend
// on, taken at one moment, so that none sees a link go down between two of them. A zero time is never due.
//
// What each of them leads to is in endings.go. An operator changes the time of a silent agent by --acp-silence-timeout
// (Limits.Silence), and of one that does not start by --acp-open-timeout; the others are constants, because they bound what
// the protocol itself leaves open.
type timeouts struct {
	limits  Limits
	open    time.Duration // how long the agent may take to start
	phase   phase
	began   time.Time // the Turn
	opensAt time.Time // acp_open was sent
	exitAt  time.Time // the agent's process ended

	online bool      // the proxy is linked
	lost   time.Time // or its link was cut then
	linkAt time.Time // the link last came back
	counts bool      // the proxy numbers its frames
	listed bool      // it listed the prompt when it registered

	asking  bool // a request waits for a person
	working bool // a tool call runs
	unsaid  bool // arguments of tool calls are not emitted yet
	own     bool // the Turn reads output that belongs to no prompt
	used    time.Duration
	running bool      // the prompt's time
	resumed time.Time // a question was answered, last

	unprompted bool // the Turn began for output that belongs to no prompt

	activity
}

// link: a cut link may come back within the grace.
func (v *timeouts) link() time.Time {
	if v.online {
		return time.Time{}
	}
	return latest(v.lost, v.began).Add(v.limits.Grace)
}

// opened: the agent takes too long to start.
func (v *timeouts) opened() time.Time {
	if v.phase != opening {
		return time.Time{}
	}
	return v.opensAt.Add(v.open)
}

// exit: prompt_result does not come after acp_exit. While an agent is opened, it was the one before it that exited, or
// acp_opened reports the failure.
func (v *timeouts) exit() time.Time {
	if v.exitAt.IsZero() || v.phase <= opening {
		return time.Time{}
	}
	return v.exitAt.Add(exitWait)
}

// prompted: the proxy does not show that it still has the prompt. Once a link is back, a proxy that lists its prompts
// has shown that; another shows it by further output. Only a prompt that was under way when the link was cut, and of
// which nothing came since, can have been lost.
func (v *timeouts) prompted() time.Time {
	if !v.online || v.phase <= opening {
		return time.Time{}
	}
	since := v.silent
	if v.linkAt.After(v.lastProof) {
		since = latest(since, v.linkAt)
	}
	switch {
	case since.IsZero():
		return time.Time{}
	case !v.counts && v.asking:
		return time.Time{} // an agent that waits for an answer sends nothing
	case !v.counts:
		return since.Add(v.limits.Grace)
	case v.phase == prompting, v.listed:
		return time.Time{} // a numbered frame is sent again until a link delivers it
	}
	return since.Add(adoptWait)
}

// prompt: the agent takes too long to answer.
func (v *timeouts) prompt(now time.Time) time.Time {
	if !v.running {
		return time.Time{}
	}
	return now.Add(v.limits.Prompt - v.used)
}

// quiet: output that belongs to no prompt has no result that ends it.
// Half a sentence must not end as a Run of its own, so text waits longer than a changed mode.
func (v *timeouts) quiet() time.Time {
	switch {
	case !v.own || v.asking:
		return time.Time{}
	case !v.spokeText:
		return v.lastFrame.Add(stateEnd) // a mode was changed, and nothing else
	}
	return v.lastFrame.Add(quietEnd)
}

// arguments: no more of the running calls' arguments has come for a while.
func (v *timeouts) arguments() time.Time {
	if v.calling.IsZero() || !v.unsaid {
		return time.Time{}
	}
	return v.calling.Add(argumentsQuiet)
}

// silentSince is since when an agent that has the prompt has sent nothing; zero when it does not have to send anything.
// The newest of all signs counts: a prompt that was resumed after an answer, or whose link came back, gets the whole
// time again.
func (v *timeouts) silentSince() time.Time {
	if v.unprompted || v.phase <= opening || v.phase == ended || v.asking || v.working || v.limits.Silence < 0 || !v.online {
		return time.Time{}
	}
	return latest(v.began, v.lastSpoke, v.sentAt, v.resumed, v.linkAt)
}

// notice: the chat is shown that the agent is silent.
func (v *timeouts) notice() time.Time {
	since := v.silentSince()
	if since.IsZero() || v.noticed || silenceNotice >= v.limits.Silence {
		return time.Time{}
	}
	return since.Add(silenceNotice)
}

// silence: the agent is silent for too long.
func (v *timeouts) silence() time.Time {
	since := v.silentSince()
	if since.IsZero() {
		return time.Time{}
	}
	return since.Add(v.limits.Silence)
}

// longestWait is how long Next sleeps when nothing is due.
const longestWait = time.Hour

// wait is how long nothing can become due.
// Each time is computed once more when it is due, so a wait that is too short costs a turn of the loop and no more.
func (v *timeouts) wait(now time.Time) time.Duration {
	wait := longestWait
	for _, at := range []time.Time{v.link(), v.opened(), v.exit(), v.prompted(), v.prompt(now), v.quiet(), v.arguments(), v.silence(), v.notice()} {
		if !at.IsZero() {
			wait = min(wait, max(0, at.Sub(now)))
		}
	}
	return wait
}

func passed(now, at time.Time) bool { return !at.IsZero() && !now.Before(at) }

func latest(first time.Time, more ...time.Time) time.Time {
	for _, at := range more {
		if at.After(first) {
			first = at
		}
	}
	return first
}
