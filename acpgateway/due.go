package acpgateway

import (
	"time"

	"aqueduct/acpgateway/acp"
	"aqueduct/bridge/fromacp"
)

// due ends a Turn whose time has come, one way or another.
func (r *turn) due(out []fromacp.Out, full bool) []fromacp.Out {
	now := time.Now()
	if passed(now, r.argumentsDue()) {
		out = r.t.tr.SayArguments(out)
	}
	switch {
	case r.wasStopped():
		return r.stop(out)
	case r.orphaned():
		// There is nothing to stop. A cancelled prompt would keep the next one waiting for an end that cannot come.
		r.t.forget(r.following())
		return r.fail(r.withdraw(out), restartedCause(), unwanted)
	case full:
		return r.fail(out, fromacp.Cause{Code: CodeOverloaded, Message: "The agent says more than can be taken in."}, unwanted)
	case passed(now, r.linkDue()):
		return r.fail(out, fromacp.Cause{Code: CodeLost, Message: "The link to the agent's proxy was lost and did not come back in time."}, left)
	case passed(now, r.openDue()):
		r.t.close()
		return r.fail(out, fromacp.Cause{Code: CodeOpenTimeout, Message: "The agent took too long to start."}, unwanted)
	case passed(now, r.exitDue()):
		return r.fail(r.withdraw(out), fromacp.Cause{Code: fromacp.CodeAgentExited, Message: "The agent's process ended."}, unwanted)
	case passed(now, r.silenceDue()):
		return r.missing(out)
	case passed(now, r.promptDue(now)):
		return r.fail(r.withdraw(out), fromacp.Cause{Code: CodeTimeout, Message: "The agent took too long to answer."}, unwanted)
	case passed(now, r.silentDue()):
		return r.failSilent(out)
	case passed(now, r.noticeDue()):
		return r.notice(out)
	case passed(now, r.quietDue()):
		r.phase = ended
		return r.t.tr.PromptEnd(out, "", nil)
	}
	return out
}

// stop ends a Turn that was cancelled. What the agent said by itself ends as it would have ended anyhow.
func (r *turn) stop(out []fromacp.Out) []fromacp.Out {
	r.phase = ended
	reason := acp.StopCancelled
	if r.call.Unprompted && r.following() == "" {
		reason = ""
	}
	return r.t.tr.PromptEnd(r.withdraw(out), reason, nil)
}

// orphaned says that the prompt was given to an earlier start of the proxy, with which its agent ended: neither the start
// that this process knew last before it began nor the one that the log names is the one that is linked now. The log alone
// would not do: its newest mark may be of an earlier Turn, or there may be none.
func (r *turn) orphaned() bool {
	if r.phase != adopting || !r.inherited || !r.t.p.online() || !r.t.p.counts() {
		return false
	}
	now, before := r.t.p.epoch(), r.t.p.inheritedEpoch()
	return before+r.skip.epoch != "" && before != now && r.skip.epoch != now
}

func restartedCause() fromacp.Cause {
	return fromacp.Cause{Code: CodeRestarted, Message: "The agent's proxy was restarted, and the agent ended with it."}
}

func passed(now, at time.Time) bool { return !at.IsZero() && !now.Before(at) }

// missing ends a Turn whose prompt the proxy seems not to have any more.
func (r *turn) missing(out []fromacp.Out) []fromacp.Out {
	if r.phase == adopting && r.call.Unprompted {
		r.phase = ended
		return r.t.tr.PromptEnd(out, "", nil)
	}
	if r.t.p.counts() {
		r.t.forget(r.following()) // it does not list it: there is nothing to stop
	}
	return r.fail(r.withdraw(out), fromacp.Cause{
		Code: CodeLost, Message: "After the link was cut the agent's proxy did not go on with the prompt. Please try again.",
	}, unwanted)
}

// linkDue: a cut link may come back within the grace.
func (r *turn) linkDue() time.Time {
	online, lost := r.t.p.status()
	if online {
		return time.Time{}
	}
	if lost.Before(r.began) {
		lost = r.began
	}
	return lost.Add(r.t.g.cfg.Limits.Grace)
}

func (r *turn) openDue() time.Time {
	if r.phase != opening {
		return time.Time{}
	}
	open := r.t.g.cfg.Limits.Open
	if cfg := r.t.config(); cfg.InitScript != "" {
		open = max(open, cfg.initTimeout()+10*time.Second)
	}
	return r.opensAt.Add(open)
}

// exitDue: while one is opened, what ended was the agent before it, or acp_opened says so.
func (r *turn) exitDue() time.Time {
	if r.exit == nil || r.phase <= opening {
		return time.Time{}
	}
	return r.exitAt.Add(exitWait)
}

// silenceDue: once a link is back, a proxy that lists its prompts has shown whether it has
// this one; another shows it by going on. Only a prompt that was under way when the link was
// cut, and of which nothing came since, can have been lost.
func (r *turn) silenceDue() time.Time {
	online, _ := r.t.p.status()
	if !online || r.phase <= opening {
		return time.Time{}
	}
	since := r.silent
	r.t.mu.Lock()
	if at := r.t.linkAt; at.After(r.lived) && at.After(since) {
		since = at
	}
	r.t.mu.Unlock()
	switch {
	case since.IsZero():
		return time.Time{}
	case !r.t.p.counts():
		if r.t.asking() {
			return time.Time{} // an agent that asks says nothing else
		}
		return since.Add(r.t.g.cfg.Limits.Grace)
	case r.phase == prompting, r.t.p.has(r.t.id, r.following()):
		return time.Time{} // what was sent to one that counts arrives, if not on this link then on the next
	}
	return since.Add(adoptWait)
}

func (r *turn) promptDue(now time.Time) time.Time {
	left, runs := r.remaining()
	if !runs {
		return time.Time{}
	}
	return now.Add(left)
}

// quietDue: words that belong to no prompt have no end of their own.
func (r *turn) quietDue() time.Time {
	if !r.call.Unprompted || r.following() != "" || r.t.asking() {
		return time.Time{}
	}
	if !r.worded {
		return r.heard.Add(stateEnd) // a mode was changed, and that was it
	}
	return r.heard.Add(quietEnd)
}

// argumentsDue: no more of the running calls' arguments has come for a while.
func (r *turn) argumentsDue() time.Time {
	if r.calling.IsZero() || !r.t.tr.Unsaid() {
		return time.Time{}
	}
	return r.calling.Add(argumentsQuiet)
}

// longestWait is how long Next sleeps when nothing is due.
const longestWait = time.Hour

// wait is how long nothing can become due.
func (r *turn) wait(now time.Time) time.Duration {
	wait := longestWait
	for _, at := range []time.Time{r.linkDue(), r.openDue(), r.exitDue(), r.silenceDue(), r.promptDue(now), r.quietDue(), r.argumentsDue(), r.silentDue(), r.noticeDue()} {
		if !at.IsZero() {
			wait = min(wait, max(0, at.Sub(now)))
		}
	}
	return wait
}
