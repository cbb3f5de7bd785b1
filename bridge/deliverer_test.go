package bridge

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"aqueduct/agui"
	"aqueduct/bridge/approval"
	"aqueduct/store"
)

// listens is an upstream that takes no answers; answers is one that does.
type (
	listens struct{}
	answers struct{ listens }
)

func (listens) Next(context.Context) ([]Output, error)          { return nil, nil }
func (listens) Cancel(context.Context) error                    { return nil }
func (listens) Release()                                        {}
func (answers) Answer(context.Context, approval.Delivery) error { return nil }

func settledAs(q approval.Question, status store.ToolCallStatus) approval.Question {
	q.Call.Status = status
	q.Approval.Status = store.ApprovalApproved
	return q
}

// If this fails, an answer never reaches its agent, or reaches it twice, or a result is missing in the chat.
func TestSortFindsTheNews(t *testing.T) {
	t.Parallel()
	done := settledAs(permission("p"), store.ToolSucceeded)
	logged := done
	logged.Call.InTranscript = true
	delivered := logged
	delivered.Call.DeliveredAt = time.Unix(1, 0)
	shown := permission("q")
	shown.Call.RunID = "row"
	held, reads, waits := &upstreamReader{up: answers{}}, &upstreamReader{up: listens{}}, (*upstreamReader)(nil)
	for name, c := range map[string]struct {
		all    []approval.Question
		reader *upstreamReader
		status store.TurnStatus // of the row
		want   string           // the news, by name
	}{
		"nothing":                          {nil, reads, store.TurnRunning, ""},
		"a new question":                   {[]approval.Question{permission("p")}, reads, store.TurnRunning, "open:p unshown status:" + string(store.TurnPausedApproval)},
		"a question that is shown":         {[]approval.Question{shown}, reads, store.TurnPausedApproval, "open:q"},
		"a page's tool":                    {[]approval.Question{clientTool("c")}, reads, store.TurnRunning, "open:c unshown status:" + string(store.TurnPausedTool)},
		"settled, the agent takes answers": {[]approval.Question{done}, held, store.TurnPausedApproval, "unlogged:p undelivered:p status:RUNNING"},
		"settled, the agent has ended":     {[]approval.Question{done}, waits, store.TurnPausedApproval, "unlogged:p undelivered:p again status:RUNNING"},
		"settled, the agent writes on":     {[]approval.Question{done}, reads, store.TurnRunning, "unlogged:p owed"},
		"settled, a tool runs for it":      {[]approval.Question{done, serverTool("s", store.ToolRunning)}, reads, store.TurnRunning, "begun:s unlogged:p"},
		"settled, not yet open":            {[]approval.Question{done}, &upstreamReader{}, store.TurnRunning, "unlogged:p"},
		"one of two, the agent has ended":  {[]approval.Question{done, shown}, waits, store.TurnPausedApproval, "open:q unlogged:p"},
		"one of two, it takes answers":     {[]approval.Question{done, shown}, held, store.TurnPausedApproval, "open:q unlogged:p undelivered:p"},
		"one of two, it writes on":         {[]approval.Question{done, shown}, reads, store.TurnPausedApproval, "open:q unlogged:p"},
		"in the transcript already":        {[]approval.Question{logged}, held, store.TurnRunning, "undelivered:p"},
		"delivered already":                {[]approval.Question{delivered}, held, store.TurnRunning, ""},
		"a tool runs":                      {[]approval.Question{serverTool("s", store.ToolRunning)}, reads, store.TurnRunning, "begun:s"},
		"a tool has ended":                 {[]approval.Question{serverTool("s", store.ToolSucceeded)}, held, store.TurnRunning, "unlogged:s"},
		"an approved tool, not yet run": {
			[]approval.Question{func() approval.Question {
				q := serverTool("s", store.ToolDispatched)
				q.Approval = store.Approval{ID: "s", Status: store.ApprovalApproved}
				return q
			}()}, waits, store.TurnPausedApproval, "undelivered:s approved:s status:RUNNING",
		},
	} {
		d := &deliverer{
			row: &store.Turn{Status: c.status}, writer: &runWriter{profile: Profile{Dialect: DialectV1, Tools: []ToolBrief{{Name: "pick"}}}},
			upstream: &upstream{reader: c.reader}, children: &children{},
		}
		n := d.sort(c.all)
		var got []string
		add := func(name string, all []approval.Question) {
			if len(all) > 0 {
				got = append(got, name+":"+strings.Join(idsOfQuestions(all), ","))
			}
		}
		add("open", n.open)
		add("begun", n.begun)
		add("unlogged", n.unlogged)
		add("undelivered", n.undelivered)
		add("approved", n.approved())
		if n.again {
			got = append(got, "again")
		}
		if n.unshown {
			got = append(got, "unshown")
		}
		if n.owed {
			got = append(got, "owed")
		}
		if n.changed {
			got = append(got, "status:"+string(n.status))
		}
		if text := strings.Join(got, " "); text != c.want {
			t.Errorf("%s: the news are %q, want %q", name, text, c.want)
		}
		quiet := c.want == "" || strings.HasPrefix(c.want, "open:") && !strings.Contains(c.want, " ")
		if n.nothing() != quiet {
			t.Errorf("%s: nothing to pass on: %v", name, n.nothing())
		}
		if forLog := len(n.unlogged) > 0 || len(n.begun) > 0 || len(n.approved()) > 0; n.forLog() != forLog {
			t.Errorf("%s: something for the log: %v", name, n.forLog())
		}
	}
}

// If this fails, an approved permission stays open for ever, or a tool that is about to run counts as done.
func TestDeliveredMoves(t *testing.T) {
	t.Parallel()
	now := time.Unix(1, 0)
	moves := deliveredMoves(settledAs(permission("p"), store.ToolDispatched), now)
	if len(moves) != 2 || moves[0] != store.Move(store.ToolCallDelivered{ID: "p", At: now, While: store.ToolDispatched}) {
		t.Fatalf("an approved permission is moved by %+v", moves)
	}
	if m := moves[1].(store.ToolCallMove); m.ID != "p" || m.From != store.ToolDispatched || m.To != store.ToolSucceeded || m.EndedAt != now {
		t.Errorf("an approved permission is moved by %+v", m)
	}
	for name, q := range map[string]approval.Question{
		"a rejected permission":      settledAs(permission("p"), store.ToolBlocked),
		"a tool that is to be run":   serverTool("p", store.ToolDispatched),
		"a page's tool that is done": settledAs(clientTool("p"), store.ToolSucceeded),
	} {
		if moves := deliveredMoves(q, now); len(moves) != 1 || moves[0] != store.Move(store.ToolCallDelivered{ID: "p", At: now}) {
			t.Errorf("%s is moved by %+v", name, moves)
		}
	}
}

// If this fails, the trace and the inbox show an action as approved and under way that its agent never began.
func TestUndeliveredEnds(t *testing.T) {
	t.Parallel()
	now := time.Unix(5, 0)
	got := settledAs(permission("delivered"), store.ToolDispatched)
	got.Call.DeliveredAt = now
	all := []approval.Question{
		settledAs(permission("lost"), store.ToolDispatched), got, permission("open"), settledAs(permission("rejected"), store.ToolBlocked),
		serverTool("tool", store.ToolDispatched),
	}
	moves := undeliveredEnds(all, now)
	if len(moves) != 1 {
		t.Fatalf("ended are %+v", moves)
	}
	if m := moves[0].(store.ToolCallMove); m.ID != "lost" || m.From != store.ToolDispatched || m.To != store.ToolFailed || m.ErrorCode != approval.CodeAskerGone || m.EndedAt != now {
		t.Errorf("ended is %+v", m)
	}
}

// If this fails, a Turn waits for an answer that its agent does not want, or ends although the agent waits for one.
func TestAwaitedBy(t *testing.T) {
	t.Parallel()
	got := settledAs(permission("got"), store.ToolSucceeded)
	got.Call.DeliveredAt = time.Unix(1, 0)
	all := []approval.Question{permission("a"), settledAs(permission("b"), store.ToolSucceeded), got, serverTool("tool", store.ToolRunning)}
	for name, c := range map[string]struct {
		pending []string
		want    []string
		unknown bool
	}{
		"it listed nothing":             {nil, []string{"up-a", "up-b"}, false},
		"it waits for none":             {[]string{}, nil, false},
		"it listed one":                 {[]string{"up-b"}, []string{"up-b"}, false},
		"one of two is known":           {[]string{"up-a", "up-x"}, []string{"up-a"}, false},
		"it listed what it never asked": {[]string{"up-x"}, nil, true},
		"it listed what it has":         {[]string{"up-got"}, nil, true},
		"it listed a tool call":         {[]string{"up-tool"}, nil, true},
	} {
		ids, unknown := awaitedBy(&End{Pending: c.pending}, all)
		if !slices.Equal(ids, c.want) || unknown != c.unknown {
			t.Errorf("%s: it waits for %q, unknown %v; want %q, %v", name, ids, unknown, c.want, c.unknown)
		}
	}
}

// If this fails, a person who approved a tool does not learn that it ran although the answer failed.
func TestExecuted(t *testing.T) {
	t.Parallel()
	ran := func(id string, status store.ToolCallStatus) approval.Question {
		q := serverTool(id, status)
		q.Call.Name, q.Call.RunningAt, q.Approval.ID = id, time.Unix(1, 0), id
		return q
	}
	unasked, waits := ran("unasked", store.ToolSucceeded), ran("waits", store.ToolDispatched)
	unasked.Approval.ID, waits.Call.RunningAt = "", time.Time{}
	if got := executed([]approval.Question{unasked, waits, permission("p")}); got != "" {
		t.Errorf("named are %q", got)
	}
	const want = "Executed before: cut (succeeded), send (unknown)."
	if got := executed([]approval.Question{ran("cut", store.ToolSucceeded), unasked, ran("send", store.ToolUnknown)}); got != want {
		t.Errorf("named are %q, want %q", got, want)
	}
}

// If this fails, a request is taken for another than it is: a message is lost, or an answer begins a Turn.
func TestVerdict(t *testing.T) {
	t.Parallel()
	message := []agui.Message{{ID: "u", Role: agui.RoleUser, Content: agui.Text("hi")}}
	answer := []approval.Answer{{QuestionID: "q"}}
	queue := func(in *intake) { in.req.OnBusy = OnBusyQueue }
	running := func(in *intake) { in.exists, in.active = true, &store.Turn{} }
	tailed := func(in *intake) { running(in); in.meets.under.tailed = true }
	asks := func(in *intake) { running(in); in.meets.under.asks = true }
	all := func(steps ...func(*intake)) func(*intake) {
		return func(in *intake) {
			for _, s := range steps {
				s(in)
			}
		}
	}
	exists := func(in *intake) { in.exists = true }
	fresh := func(in *intake) { in.fresh = message }
	empty := func(in *intake) { in.fresh = []agui.Message{{Role: agui.RoleUser, Content: agui.Text(" ")}} }
	answers := func(in *intake) { in.req.Answers = answer }
	given := func(in *intake) { answers(in); in.answers.given = []given{{}} }
	join := func(in *intake) { in.req.JoinOnly = true }
	regenerate := func(in *intake) { in.branches.branch = &branch{regenerate: true} }
	edit := func(in *intake) { in.branches.branch = &branch{} }
	for name, c := range map[string]struct {
		with func(in *intake)
		want verdict
	}{
		"nothing":                            {all(), refuseEmpty},
		"a thread alone":                     {exists, takeJoin},
		"a connect":                          {all(join, exists, fresh), takeJoin},
		"a connect to nothing":               {all(join, fresh), refuseEmpty},
		"a message":                          {fresh, takePrompt},
		"a message in a thread at rest":      {all(exists, fresh), takePrompt},
		"a message, nothing tails":           {all(running, fresh), takePrompt},
		"a message, a response tails":        {all(tailed, fresh), refuseBusy},
		"a message, a response tails, queue": {all(tailed, fresh, queue), takePrompt},
		"by the server's own setting":        {all(tailed, fresh, func(in *intake) { in.cfg.OnBusy = OnBusyQueue }), takePrompt},
		"the request's setting goes before":  {all(tailed, fresh, func(in *intake) { in.cfg.OnBusy, in.req.OnBusy = OnBusyQueue, OnBusyRefuse }), refuseBusy},
		"the queue is full":                  {all(tailed, fresh, queue, func(in *intake) { in.meets.under.queued = maxQueued }), refuseBusy},
		"the queue's last place":             {all(tailed, fresh, queue, func(in *intake) { in.meets.under.queued = maxQueued - 1 }), takePrompt},
		"a message while it asks":            {all(asks, fresh), takeJoin},
		"a message while it asks, queue":     {all(asks, fresh, queue), takeJoin},
		"an answer":                          {all(asks, given), takeAnswer},
		"an answer and a message":            {all(asks, given, fresh), takeAnswer},
		"a connect with an answer":           {all(join, asks, given), takeJoin},
		"an answer that is settled":          {all(exists, answers), takeJoin},
		"settled, and a message":             {all(exists, answers, fresh), takePrompt},
		"settled, a message, it runs":        {all(running, answers, fresh), takeJoin},
		"settled, a message, by TDesign":     {all(exists, answers, fresh, func(in *intake) { in.req.Dialect = DialectTDesign }), takeJoin},
		"an answer to nothing":               {answers, refuseEmpty},
		"an empty message":                   {all(exists, empty), refuseEmpty},
		"an empty message while it runs":     {all(tailed, empty, queue), refuseEmpty},
		"an empty message with props":        {all(exists, empty, func(in *intake) { in.req.Props = []byte(`{"a":1}`) }), takePrompt},
		"settled, and an empty message":      {all(exists, answers, empty), takeJoin},
		"regenerate":                         {all(exists, regenerate), takePrompt},
		"regenerate, a response tails":       {all(tailed, regenerate), takeJoin},
		"regenerate, nothing tails":          {all(running, regenerate), takePrompt},
		"an edit, a response tails":          {all(tailed, edit, queue), refuseBusy},
	} {
		th := &thread{}
		in := &intake{thread: th, cfg: &Config{}}
		c.with(in)
		if got := in.verdict(); got != c.want {
			t.Errorf("%s: row %d of the table, want %d", name, got, c.want)
		}
	}
}
