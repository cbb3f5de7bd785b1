package acpgateway

import (
	"testing"
	"time"
)

// at is a moment of a test's Turn, which begins at 0.
func at(seconds float64) time.Time {
	return time.Unix(1_000_000, 0).Add(time.Duration(seconds * float64(time.Second)))
}

// If one of these fails, a Turn ends too early, or a user waits for an agent that is gone until the prompt's whole hour is over.
func TestTimeouts(t *testing.T) {
	t.Parallel()
	limits := Limits{Prompt: time.Hour, Grace: 30 * time.Second, Silence: 5 * time.Minute}
	// working is a Turn whose agent has the prompt since 0, over a link of a proxy that numbers its frames.
	working := func(change func(v *timeouts)) timeouts {
		v := timeouts{limits: limits, open: time.Minute, phase: prompting, began: at(0), opensAt: at(1), online: true, counts: true}
		change(&v)
		return v
	}
	zero := time.Time{}
	now := at(100)
	prompt := func(v *timeouts) time.Time { return v.prompt(now) }
	for name, c := range map[string]struct {
		of     func(v *timeouts) time.Time
		change func(v *timeouts)
		want   time.Time
	}{
		"link: it is up":                      {(*timeouts).link, func(*timeouts) {}, zero},
		"link: cut during the Turn":           {(*timeouts).link, func(v *timeouts) { v.online, v.lost = false, at(10) }, at(40)},
		"link: cut before the Turn":           {(*timeouts).link, func(v *timeouts) { v.online, v.lost = false, at(-100) }, at(30)},
		"opened: the agent starts":            {(*timeouts).opened, func(v *timeouts) { v.phase = opening }, at(61)},
		"opened: it has started":              {(*timeouts).opened, func(*timeouts) {}, zero},
		"exit: it runs":                       {(*timeouts).exit, func(*timeouts) {}, zero},
		"exit: it ended":                      {(*timeouts).exit, func(v *timeouts) { v.exitAt = at(7) }, at(12)},
		"exit: the agent before it ended":     {(*timeouts).exit, func(v *timeouts) { v.exitAt, v.phase = at(7), opening }, zero},
		"prompted: all is well":               {(*timeouts).prompted, func(*timeouts) {}, zero},
		"prompted: the link is cut":           {(*timeouts).prompted, func(v *timeouts) { v.online, v.linkAt = false, at(50) }, zero},
		"prompted: the agent starts":          {(*timeouts).prompted, func(v *timeouts) { v.phase, v.linkAt = opening, at(50) }, zero},
		"prompted: numbered, sent here":       {(*timeouts).prompted, func(v *timeouts) { v.linkAt = at(50) }, zero},
		"prompted: numbered, resumed":         {(*timeouts).prompted, func(v *timeouts) { v.linkAt, v.phase = at(50), adopting }, at(55)},
		"prompted: numbered, listed":          {(*timeouts).prompted, func(v *timeouts) { v.linkAt, v.phase, v.listed = at(50), adopting, true }, zero},
		"prompted: old proxy, link back":      {(*timeouts).prompted, func(v *timeouts) { v.counts, v.linkAt = false, at(50) }, at(80)},
		"prompted: old proxy, goes on":        {(*timeouts).prompted, func(v *timeouts) { v.counts, v.linkAt, v.lastProof = false, at(50), at(51) }, zero},
		"prompted: old proxy, asks":           {(*timeouts).prompted, func(v *timeouts) { v.counts, v.linkAt, v.asking = false, at(50), true }, zero},
		"prompted: resumed, nothing came":     {(*timeouts).prompted, func(v *timeouts) { v.counts, v.silent = false, at(60) }, at(90)},
		"prompted: the later sign counts":     {(*timeouts).prompted, func(v *timeouts) { v.counts, v.silent, v.linkAt = false, at(60), at(65) }, at(95)},
		"prompt: its clock stands":            {prompt, func(*timeouts) {}, zero},
		"prompt: its clock runs":              {prompt, func(v *timeouts) { v.running, v.used = true, 59*time.Minute }, at(160)},
		"prompt: its time is over":            {prompt, func(v *timeouts) { v.running, v.used = true, 61*time.Minute }, at(40)},
		"quiet: a prompt's output":            {(*timeouts).quiet, func(v *timeouts) { v.lastFrame = at(5) }, zero},
		"quiet: a text of no prompt":          {(*timeouts).quiet, func(v *timeouts) { v.own, v.spokeText, v.lastFrame = true, true, at(5) }, at(7)},
		"quiet: a mode of no prompt":          {(*timeouts).quiet, func(v *timeouts) { v.own, v.lastFrame = true, at(5) }, at(5.2)},
		"quiet: a person is asked":            {(*timeouts).quiet, func(v *timeouts) { v.own, v.asking, v.lastFrame = true, true, at(5) }, zero},
		"arguments: none wait":                {(*timeouts).arguments, func(v *timeouts) { v.calling = at(5) }, zero},
		"arguments: no call":                  {(*timeouts).arguments, func(v *timeouts) { v.unsaid = true }, zero},
		"arguments: they wait":                {(*timeouts).arguments, func(v *timeouts) { v.unsaid, v.calling = true, at(5) }, at(5.25)},
		"silence: nothing ever came":          {(*timeouts).silence, func(*timeouts) {}, at(300)},
		"silence: since the prompt was sent":  {(*timeouts).silence, func(v *timeouts) { v.sentAt = at(3) }, at(303)},
		"silence: since it spoke":             {(*timeouts).silence, func(v *timeouts) { v.sentAt, v.lastSpoke = at(3), at(20) }, at(320)},
		"silence: since a person answered":    {(*timeouts).silence, func(v *timeouts) { v.lastSpoke, v.resumed = at(20), at(90) }, at(390)},
		"silence: since the link is back":     {(*timeouts).silence, func(v *timeouts) { v.lastSpoke, v.linkAt = at(20), at(95) }, at(395)},
		"silence: a status of the proxy":      {(*timeouts).silence, func(v *timeouts) { v.lastSpoke, v.lastFrame = at(20), at(99) }, at(320)},
		"silence: a tool works":               {(*timeouts).silence, func(v *timeouts) { v.working = true }, zero},
		"silence: a person is asked":          {(*timeouts).silence, func(v *timeouts) { v.asking = true }, zero},
		"silence: the link is cut":            {(*timeouts).silence, func(v *timeouts) { v.online = false }, zero},
		"silence: no prompt":                  {(*timeouts).silence, func(v *timeouts) { v.unprompted = true }, zero},
		"silence: the agent starts":           {(*timeouts).silence, func(v *timeouts) { v.phase = opening }, zero},
		"silence: over":                       {(*timeouts).silence, func(v *timeouts) { v.phase = ended }, zero},
		"silence: switched off":               {(*timeouts).silence, func(v *timeouts) { v.limits.Silence = -1 }, zero},
		"notice: nothing came":                {(*timeouts).notice, func(*timeouts) {}, at(30)},
		"notice: it is shown":                 {(*timeouts).notice, func(v *timeouts) { v.noticed = true }, zero},
		"notice: silence ends it no later":    {(*timeouts).notice, func(v *timeouts) { v.limits.Silence = silenceNotice }, zero},
		"notice: silence ends it a bit later": {(*timeouts).notice, func(v *timeouts) { v.limits.Silence = silenceNotice + 1 }, at(30)},
		"notice: a tool works":                {(*timeouts).notice, func(v *timeouts) { v.working = true }, zero},
	} {
		v := working(c.change)
		if got := c.of(&v); !got.Equal(c.want) {
			t.Errorf("%s: due at %v, want %v (from the Turn's beginning)", name, got.Sub(at(0)), c.want.Sub(at(0)))
		}
	}
}

// If this fails, the loop of a Turn wakes too late for the first of its times, or spins without a pause.
func TestTimeoutsWait(t *testing.T) {
	t.Parallel()
	idle := timeouts{phase: prompting, online: true, counts: true, unprompted: true, limits: Limits{Prompt: 2 * time.Hour}}
	if got := idle.wait(at(0)); got != longestWait {
		t.Errorf("with nothing due it waits %v", got)
	}
	first := idle
	first.own, first.spokeText, first.lastFrame = true, true, at(0) // quiet at 2 s
	first.unsaid, first.calling = true, at(0)                       // arguments at 250 ms
	if got := first.wait(at(0.1)); got != 150*time.Millisecond {
		t.Errorf("it waits %v, want until the first of two", got)
	}
	if got := first.wait(at(60)); got != 0 {
		t.Errorf("it waits %v for what is over", got)
	}
	first.running = true
	if got := first.wait(at(-3600)); got > longestWait {
		t.Errorf("it waits %v", got)
	}
}

// If this fails, a time that is not set counts as over, and every Turn fails at once.
func TestPassedAndLatest(t *testing.T) {
	t.Parallel()
	if passed(at(5), time.Time{}) {
		t.Error("a zero time has passed")
	}
	if passed(at(5), at(5.001)) || !passed(at(5), at(5)) || !passed(at(5), at(4)) {
		t.Error("a time passes at another moment than its own")
	}
	if got := latest(at(1), time.Time{}, at(3), at(2)); !got.Equal(at(3)) {
		t.Errorf("the latest is %v", got.Sub(at(0)))
	}
	if got := latest(time.Time{}, time.Time{}); !got.IsZero() {
		t.Errorf("the latest of none is %v", got)
	}
}
