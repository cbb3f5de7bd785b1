package bridge

import (
	"context"
	"slices"
	"strings"
	"time"

	"aqueduct/bridge/approval"
	"aqueduct/store"
)

// deliverer passes on what was settled of a Turn's Questions: results into the log, answers to the Agent, each by itself,
// whatever else is open. A settlement only writes its row and rings; deliver is the one place where the
// owner acts on it, and it runs whenever the owner looks: at a ring, before a Run ends, when an upstream has been opened,
// at every poll. So no answer can be missed, whatever happens between a Run's end and the settlement: the next look finds
// it.
type deliverer struct {
	cfg       *Config
	deadlines *approval.Deadlines
	log       *sessionLog
	row       *store.Turn
	writer    *runWriter
	upstream  *upstream
	questions *questions
	calling   *calling
	quiet     *quietTimer
	children  *children
	lost      bool // the Agent is called again now, whatever it has had (lostCall)
}

// deliver passes on what is there to pass on, in the open Run or a further one. The Turn's status follows.
//
// It reads all rows of the Turn and compares them with what the log and the Agent have got; nothing is remembered
// between two looks but what stands in the rows. So it may run at any time and as often as one likes, and running it
// twice does nothing twice.
func (d *deliverer) deliver(ctx context.Context) error {
	all, err := d.questions.all(ctx)
	if err != nil {
		return err
	}
	n := d.sort(all)
	if n.again && d.row.Upstream == store.UpstreamLost {
		n.resume = resumeOf(all)
	}
	// A Run that was just begun must be committed, with or without news.
	begins := len(d.writer.due) > 0 // a Run that begins is kept with what belongs into it, or alone
	if n.nothing() && !begins && !n.again {
		if n.owed != d.quiet.calls {
			d.quiet.calls = n.owed
			d.quiet.putOff(d.upstream.idle(), d.row.Status.Paused())
		}
		return nil
	}
	// A Run that a client reserved goes before the open one, since its client waits for the results there. Without an
	// open Run one is begun for what the log, a call of the Agent or a new Question needs. Answers to an upstream
	// that is held, and a change of the status alone, are kept without one.
	switch {
	case d.writer.run != nil && !begins && n.forLog():
		reserved, err := d.writer.runs.reserved(ctx)
		if err != nil {
			return err
		}
		if reserved {
			return d.endForReserved(ctx)
		}
	case d.writer.run == nil && (n.forLog() || n.again || n.unshown):
		if ok, err := d.writer.beginFurther(ctx); err != nil || !ok {
			return err
		}
	case d.writer.run == nil && n.quiet():
		return nil
	}
	if err := d.writer.news(n.begun, n.approved()); err != nil {
		return err
	}
	if err := d.writer.results(n.unlogged); err != nil {
		return err
	}
	return d.answer(ctx, n)
}

// news is what is to be passed on.
// A Question can be in several of the lists: its result is not in the log and its answer not at the Agent.
type news struct {
	open        []approval.Question
	unlogged    []approval.Question // concluded, and the log does not have the result
	begun       []approval.Question // calls that are executed here, and the log does not have the start
	undelivered []approval.Question // settled, and the Agent can be answered now
	again       bool                // by calling it again
	resume      []approval.Delivery // all that it is called with, where its call was lost; else nil
	unshown     bool                // a Question is open that the next Run's end has to show
	owed        bool                // all are settled, the upstream is read and takes no answers, and it waits for nothing else of ours
	status      store.TurnStatus    // that the open Questions make
	changed     bool                // it is another than the row's
}

func (n news) quiet() bool   { return !n.forLog() && len(n.undelivered) == 0 && !n.changed }
func (n news) nothing() bool { return n.quiet() && !n.unshown }

// forLog reports whether there is something for the log.
func (n news) forLog() bool {
	return len(n.unlogged) > 0 || len(n.begun) > 0 || slices.ContainsFunc(n.undelivered, approval.Question.RunsHere)
}

// approved are the calls that are about to be executed here because a person approved them.
func (n news) approved() []approval.Question {
	return slices.DeleteFunc(slices.Clone(n.undelivered), func(q approval.Question) bool { return !q.RunsHere() })
}

// sort finds the news among the Turn's Questions.
//
// Which answers can be given depends on the upstream: one that is read and takes answers gets them one by one; one
// that has ended to wait gets all of them by a call, when the last is there; one that is read and takes none is called
// again when it ends or falls silent (owed).
func (d *deliverer) sort(all []approval.Question) news {
	var n news
	works := d.children.busy()
	for _, q := range all {
		works = works || q.RunsHere() && !q.Call.Status.Terminal()
		switch {
		case q.Open():
			n.open = append(n.open, q)
		case q.Concluded() && !q.Call.InTranscript:
			n.unlogged = append(n.unlogged, q)
		case !q.Concluded() && q.NeverAsked() && !d.writer.calls.has(q.Call):
			n.begun = append(n.begun, q)
		}
	}
	held, waits := d.upstream.takesAnswers(), d.upstream.idle() && len(n.open) == 0
	n.again = d.lost
	for _, q := range all {
		if q.Open() || q.NeverAsked() || !q.Call.DeliveredAt.IsZero() {
			continue
		}
		if q.IsToolCall() || held || waits { // of a ToolCall of ours the Agent learns by :wait
			n.undelivered = append(n.undelivered, q)
			n.again = n.again || waits && (!q.IsToolCall() || d.row.Upstream == store.UpstreamLost)
		} else if d.upstream.reader != nil {
			n.owed = len(n.open) == 0 && !works && d.upstream.reader.upstream() != nil
		}
	}
	n.status = pausedBy(n.open)
	n.changed = n.status != d.row.Status
	chosen, _ := choose(n.open, d.writer.profile)
	n.unshown = slices.ContainsFunc(chosen, func(q approval.Question) bool { return q.Call.RunID == "" })
	return n
}

func (d *deliverer) release() {
	d.quiet.stop()
	d.upstream.release()
}

// cancel settles what is open of the Turn's Questions, but for those an Agent listed, as the Decision has it, each unless
// another settlement was first, and puts what became of them into the open Run. One that was never shown is not shown any
// more. One that outlives the Turn stays in the inbox, and the chat shows that it is open elsewhere. When the Turn is over
// with it, a call that is still executed is shown as running: no event of it can follow.
//
// It is called at each end of an upstream. Between its look and its transaction a person may decide; the settlement
// that came first stays, and its result is what the second look shows.
func (d *deliverer) cancel(ctx context.Context, all []approval.Question, listed []string, decision approval.Decision, over bool) error {
	if len(all) == 0 {
		return nil
	}
	if over {
		if err := d.children.cancel(ctx); err != nil {
			return err
		}
	}
	var gone, stay []string
	for _, q := range all {
		_, relayed := q.Relayed()
		switch {
		case relayed && !over: // its agent is another, which is still at work
		case !q.Open() || q.Call.UpstreamID != "" && slices.Contains(listed, q.Call.UpstreamID):
		case q.SurvivesTurn():
			stay = append(stay, q.Call.ID)
		default:
			gone = append(gone, q.Call.ID)
		}
	}
	if len(gone) > 0 {
		if err := d.questions.settle(ctx, gone, decision); err != nil {
			return err
		}
		var err error
		if all, err = d.questions.all(ctx); err != nil {
			return err
		}
	}
	if d.writer.run == nil { // it ended before its upstream did: the next look opens a Run for them
		return nil
	}
	var unlogged []approval.Question
	for _, q := range all {
		switch {
		case slices.Contains(stay, q.Call.ID) && q.Call.RunID != "":
			q.Call.Result = []byte(`{"status":"open"}`)
			unlogged = append(unlogged, q)
		case q.Concluded() && !q.Call.InTranscript, over && !q.Open() && !q.Call.InTranscript:
			unlogged = append(unlogged, q)
		}
	}
	return d.writer.results(unlogged)
}

// endForReserved ends the open Run without what was settled, so that the reserved one, which its client tails, begins.
func (d *deliverer) endForReserved(ctx context.Context) error {
	d.log.again = true
	open, err := d.questions.waiting(ctx)
	if err != nil {
		return err
	}
	return d.writer.endAsking(ctx, open)
}

// endPaused passes on what was settled, and ends the open Run of a Turn that still has open Questions.
// Between delivering and the second look a Question may have been settled; ending the Run for it then would show a
// question that is answered.
func (d *deliverer) endPaused(ctx context.Context) error {
	if err := d.deliver(ctx); err != nil || d.writer.run == nil || !d.row.Status.Paused() {
		return err
	}
	open, err := d.questions.waiting(ctx)
	if err != nil {
		return err
	}
	if len(open) == 0 { // settled since
		return d.deliver(ctx)
	}
	return d.writer.endAsking(ctx, open)
}

// undeliveredEnds ends the calls of permissions that were approved while their Agent was about to end: it never got the
// answer.
func undeliveredEnds(all []approval.Question, now time.Time) (moves []store.Move) {
	for _, q := range all {
		if q.Call.Status == store.ToolDispatched && !q.IsToolCall() && q.Call.DeliveredAt.IsZero() {
			moves = append(moves, store.ToolCallMove{ID: q.Call.ID, From: store.ToolDispatched, To: store.ToolFailed, ErrorCode: approval.CodeAskerGone, EndedAt: now})
		}
	}
	return moves
}

// awaitedBy are the upstream ids that an Agent, which has ended, waits for: those it listed, or, when it listed nothing,
// all it asked and has no answer to. unknown means that it listed only what it never asked.
func awaitedBy(end *End, all []approval.Question) (ids []string, unknown bool) {
	listed := end.Pending != nil
	for _, q := range all {
		undelivered := q.Open() || q.Call.DeliveredAt.IsZero()
		if q.IsToolCall() || !undelivered || listed && !slices.Contains(end.Pending, q.Call.UpstreamID) {
			continue
		}
		ids = append(ids, q.Call.UpstreamID)
	}
	return ids, len(end.Pending) > 0 && len(ids) == 0
}

// executed names the tools that were executed, after a person approved them, for an Agent that is gone: the person who approved
// must know.
// A Turn that failed has no answer that could mention them.
func executed(all []approval.Question) string {
	var ran []string
	for _, q := range all {
		if q.Call.Kind == store.KindServer && q.Approval.ID != "" && !q.Call.RunningAt.IsZero() {
			ran = append(ran, q.Call.Name+" ("+strings.ToLower(string(q.Call.Status))+")")
		}
	}
	if len(ran) == 0 {
		return ""
	}
	return "Executed before: " + strings.Join(ran, ", ") + "."
}
