package acpgateway

import (
	"maps"
	"slices"
	"time"

	"aqueduct/acpgateway/translate"
	"aqueduct/acpgateway/wire"
)

// applyTimeouts ends a Turn that was stopped, lost its prompt, or ran into a timeout.
//
// The cases stand in the order in which they explain best what happened: a lost link before a missing answer, the
// agent's exit before its silence. Each ends the Turn, but for the notice.
func (t *turn) applyTimeouts(out []translate.Out, full bool) []translate.Out {
	now := time.Now()
	due := t.timeouts()
	if passed(now, due.arguments()) {
		out = t.channel.tr.EmitArguments(out)
	}
	switch {
	case t.course.isStopped():
		return t.stop(out)
	case t.orphaned():
		// There is nothing to stop. A cancelled prompt would keep the next one waiting for an end that cannot come.
		t.channel.prompts.remove(t.course.following())
		return t.fail(t.cancelQuestions(out), restartedCause(), cancelled)
	case full:
		return t.fail(out, translate.Cause{Code: CodeOverloaded, Message: "The agent says more than can be taken in."}, cancelled)
	case passed(now, due.link()):
		return t.fail(out, translate.Cause{Code: CodeLost, Message: "The link to the agent's proxy was lost and did not come back in time."}, abandoned)
	case passed(now, due.opened()):
		t.channel.close()
		return t.fail(out, translate.Cause{Code: CodeOpenTimeout, Message: "The agent took too long to start."}, cancelled)
	case passed(now, due.exit()):
		return t.fail(t.cancelQuestions(out), translate.Cause{Code: translate.CodeAgentExited, Message: "The agent's process ended."}, cancelled)
	case passed(now, due.prompted()):
		return t.failMissing(out)
	case passed(now, due.prompt(now)):
		return t.fail(t.cancelQuestions(out), translate.Cause{Code: CodeTimeout, Message: "The agent took too long to answer."}, cancelled)
	case passed(now, due.silence()):
		return t.failSilent(out)
	case passed(now, due.notice()):
		return append(out, t.activity.notice(t.channel.g.cfg.Limits.Silence))
	case passed(now, due.quiet()):
		t.phase = ended
		return t.channel.tr.PromptEnd(out, "", nil)
	}
	return out
}

// stop ends a Turn that was cancelled. Output that belongs to no prompt ends as it does without a cancel.
func (t *turn) stop(out []translate.Out) []translate.Out {
	t.phase = ended
	reason := wire.StopCancelled
	if t.call.Unprompted && t.course.following() == "" {
		reason = ""
	}
	return t.channel.tr.PromptEnd(t.cancelQuestions(out), reason, nil)
}

// orphaned reports that the prompt was given to an earlier start of the proxy, with which its agent ended: neither the start
// that this process knew last before it began nor the one that the log names is the one that is linked now. The log alone
// would not do: its newest mark may be of an earlier Turn, or there may be none.
func (t *turn) orphaned() bool {
	if t.phase != adopting || !t.inherited || !t.channel.p.online() || !t.channel.p.offered().Seq {
		return false
	}
	now, before := t.channel.p.offered().Epoch, t.channel.p.inheritedEpoch()
	return before+t.skip.epoch != "" && before != now && t.skip.epoch != now
}

func restartedCause() translate.Cause {
	return translate.Cause{Code: CodeRestarted, Message: "The agent's proxy was restarted, and the agent ended with it."}
}

// missing ends a Turn whose prompt the proxy seems not to have any more.
func (t *turn) failMissing(out []translate.Out) []translate.Out {
	if t.phase == adopting && t.call.Unprompted {
		t.phase = ended
		return t.channel.tr.PromptEnd(out, "", nil)
	}
	if t.channel.p.offered().Seq {
		t.channel.prompts.remove(t.course.following()) // it does not list it: there is nothing to stop
	}
	return t.fail(t.cancelQuestions(out), translate.Cause{
		Code: CodeLost, Message: "After the link was cut the agent's proxy did not go on with the prompt. Please try again.",
	}, cancelled)
}

// failSilent ends a Turn whose agent is silent for too long.
func (t *turn) failSilent(out []translate.Out) []translate.Out {
	return t.fail(t.cancelQuestions(out), translate.Cause{
		Code: CodeSilent, Message: "The agent has said nothing for " + t.channel.g.cfg.Limits.Silence.String() +
			". It may wait for a login, or for a model that does not answer: look at its key and its network.",
	}, cancelled)
}

// cancelQuestions takes back what the agent asked: it is gone, or has ended its prompt.
// The chat closes the question; an answer to it would reach a process that has not asked it.
func (t *turn) cancelQuestions(out []translate.Out) []translate.Out {
	for _, key := range slices.Sorted(maps.Keys(t.channel.permissions.withdrawAll())) {
		out = append(out, translate.Out{Withdrawn: key})
	}
	return out
}

// fail ends the Turn, and moves its prompt to a state.
//
// Abandoned is for a cut link: the agent may be at work and finish, and its output then begins a Run of its own. All
// other failures cancel, since nothing will read what the agent still sends.
func (t *turn) fail(out []translate.Out, cause translate.Cause, f promptState) []translate.Out {
	t.phase = ended
	if f == abandoned {
		t.channel.prompts.set(t.course.following(), abandoned)
		t.channel.declineAll() // no Turn waits for the answers; the agent continues when the link is back
	} else {
		t.channel.cancel(t.course.following())
	}
	return t.channel.tr.Failed(out, t.ending.explains(cause))
}
