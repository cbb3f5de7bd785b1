package bridge

import (
	"crypto/sha256"
	"encoding/json"
	"time"

	"aqueduct/agui"
	"aqueduct/bridge/approval"
	"aqueduct/bridge/contextstore"
	"aqueduct/bridge/redact"
	"aqueduct/internal/fault"
	"aqueduct/store"
)

// protocolVersion is AG-UI's, in every RUN_STARTED: ours, never an echo of the client's.
const protocolVersion = "1.0"

// run is one open slice of the log: the events that wait to be handed to the log, and what the earlier ones mean for
// those that follow. It is pure: the runWriter hands its events to the log.
//
// An event goes through state, activities, grammar, encoding and masking, once, in this order: state and activities
// replace what clients could not apply, the grammar refuses what they would reject, and only then bytes are made. The
// same bytes are kept and sent to every reader.
type run struct {
	row        store.Run
	threadID   string
	profile    Profile
	filter     *redact.Filter
	eventBytes int           // the most that one event may have
	session    store.Session // whose log it is
	// spilled adds an entry to the commit of the events that wait.
	spilled    func(store.ContextEntry)
	firstToken func(since time.Duration)
	calls      *shownCalls

	// The grammar is of this Run alone: at its end nothing is open.
	grammar    agui.Grammar
	fold       *agui.Fold
	state      runState
	activities activities

	events    []byte // encoded, joined by "\n", not yet handed over
	n         int    // of them
	bytes     int    // of all events so far
	admitted  []agui.Event
	given     map[string]bool              // messages that RUN_STARTED repeats: their rows were written when they were sent
	placed    map[string][sha256.Size]byte // messages whose rows have been written before the Run's end, by id; nil for none
	assistant string                       // id of the newest assistant message of this Run
	text      *agui.TextMessageStart       // of the text message that is open; nil when none is
	spoke     bool                         // a text delta was seen
	amended   bool                         // clients display an older form of a message
	usage     []agui.TokenUsage
}

// newRun makes a reserved row a Run whose first event stands at firstSeq.
// The state document is the Session's and goes from Run to Run; all else begins anew.
func newRun(row store.Run, firstSeq int64, state *agui.StateDoc) (*run, error) {
	fold := agui.NewFold(nil)
	r := &run{row: row, fold: fold, activities: activities{fold: fold}, state: runState{doc: state, first: firstSeq == 1}}
	if err := json.Unmarshal(row.Profile, &r.profile); err != nil && len(row.Profile) > 0 {
		return nil, err
	}
	r.row.FirstSeq = firstSeq
	return r, nil
}

// start writes the Run's first event and gives the move that goes with it.
// The move makes the Run a running one and notes where it begins. It is committed with the event, so there is never a Run
// that runs without its first event.
func (r *run) start(input *agui.RunAgentInput) (store.Move, error) {
	err := r.emit(&agui.RunStarted{
		ThreadID: r.threadID, RunID: r.row.ExternalID, ParentRunID: r.row.ParentRunID, ProtocolVersion: protocolVersion, Input: input,
	})
	return store.RunMove{
		ID: r.row.ID, From: store.RunReserved, To: store.RunRunning, FirstSeq: r.row.FirstSeq, StartedAt: time.Now(),
	}, err
}

// emitUpstream is emit for an event of the Agent's, whose activities are not trusted.
func (r *run) emitUpstream(ev agui.Event) error { return r.emitAll(r.activities.on(notOurs(ev))) }

// emit passes one event through state, grammar and redaction, encodes it, once, and keeps the bytes for the next hand-over.
// A *fault.Error means that it broke the protocol.
func (r *run) emit(ev agui.Event) error {
	switch ev.(type) {
	case *agui.StateSnapshot, *agui.StateDelta:
		return r.admitAll(r.state.on(ev))
	}
	return r.admit(ev)
}

// emitAll stops at the first refusal: what was emitted before it stands, and the Run ends with an error behind it.
func (r *run) emitAll(events []agui.Event) error {
	for _, ev := range events {
		if err := r.emit(ev); err != nil {
			return err
		}
	}
	return nil
}

// admit is emit for an event that has been through the state.
func (r *run) admit(ev agui.Event) (err error) {
	r.admitted, err = r.grammar.Admit(r.admitted[:0], ev)
	if err != nil {
		return &fault.Error{Code: CodeUpstreamProtocol, Message: "The agent sent events in an order that AG-UI does not allow.", Cause: err}
	}
	for _, e := range r.admitted {
		r.write(e)
	}
	return nil
}

func (r *run) admitAll(events []agui.Event) error {
	for _, ev := range events {
		if err := r.admit(ev); err != nil {
			return err
		}
	}
	return nil
}

// write encodes one admitted event, in pieces when it is too large. A piece is not cut again, whatever its size: an event
// that cannot be made smaller would be cut for ever.
// An event is bounded because it is one row's part, one SSE frame, and what an official client parses at once.
func (r *run) write(ev agui.Event) {
	mark := len(r.events)
	begin := r.encode(ev)
	if len(r.events)-begin <= r.eventBytes {
		r.add(ev, begin)
		return
	}
	r.events = r.events[:mark]
	if _, ok := ev.(*agui.StateDelta); ok { // the state has a bound of its own
		ev = r.state.snapshot()
	}
	for _, piece := range pieces(ev, r.eventBytes, r.spill(ev)) {
		r.add(piece, r.encode(piece))
	}
}

// spill keeps an event whole, that will not be whole in the log, as an entry of the context store, and gives its key. The
// entry is one of the moves of the commit that has the event's remains, so no reader finds a key without an entry. "" for an
// event that loses nothing, and for one that is too large even there.
func (r *run) spill(ev agui.Event) (key string) {
	if !loses(ev) {
		return ""
	}
	whole := r.filter.JSON(ev.AppendJSON(nil))
	if len(whole) > contextstore.MaxContent {
		return ""
	}
	e := contextstore.OfSession(r.session, contextstore.Content{Type: "application/json", Data: whole})
	r.spilled(e)
	r.bytes += len(whole) // what a Run may hold, it holds with these
	return e.Key
}

// encode appends an event to those that wait, and gives where it begins.
func (r *run) encode(ev agui.Event) (begin int) {
	if r.n > 0 {
		r.events = append(r.events, '\n')
	}
	begin = len(r.events)
	r.events = ev.AppendJSON(r.events)
	return begin
}

// add counts an encoded event in, as redaction leaves it.
// The mask is applied to the encoded event, which is the last place it can slip through. What the fold and the notes
// take is the masked one, so the transcript has no more than the log.
func (r *run) add(ev agui.Event, begin int) {
	kept := r.filter.JSON(r.events[begin:])
	// The filter gives the same slice back when it hides nothing, so no bytes have to be compared.
	if &kept[0] != &r.events[begin] {
		r.events = append(r.events[:begin], kept...)
		if hidden, err := agui.Decode(kept); err == nil {
			ev = hidden
		}
	}
	r.n++
	r.apply(ev)
	r.note(ev)
}

// clearBatch forgets the events that the log has taken.
// The buffer stays, so that a Run allocates for its largest batch once.
func (r *run) clearBatch() {
	r.bytes += len(r.events)
	r.events, r.n = r.events[:0], 0
}

// note remembers what later events of the Run refer to.
func (r *run) note(ev agui.Event) {
	switch e := ev.(type) {
	case *agui.RunStarted:
		r.noteGiven(e.Input)
	case *agui.ToolCallStart, *agui.ToolCallResult:
		r.calls.note(ev)
	case *agui.TextMessageStart:
		if r.text = e; e.Role == "" || e.Role == agui.RoleAssistant {
			r.assistant = e.MessageID
		}
	case *agui.TextMessageEnd:
		if r.text != nil && r.text.MessageID == e.MessageID {
			r.text = nil
		}
	case *agui.TextMessageContent:
		if !r.spoke {
			r.spoke = true
			if r.firstToken != nil {
				r.firstToken(time.Since(r.row.CreatedAt))
			}
		}
	}
}

func (r *run) noteGiven(input *agui.RunAgentInput) {
	if input == nil {
		return
	}
	r.given = make(map[string]bool, len(input.Messages))
	for i := range input.Messages {
		r.given[input.Messages[i].ID] = true
	}
}

// replayed takes in an event that the log has of this Run, without writing it again.
// It is Check and not Admit: the log has what Admit made of the event, such as the ends of a refused sequence.
func (r *run) replayed(ev agui.Event) error {
	if err := r.grammar.Check(ev); err != nil {
		return err
	}
	err := r.state.replayed(ev)
	// The process that wrote the event has measured the first token.
	r.spoke = true
	r.apply(ev)
	r.note(ev)
	return err
}

// ask shows a Question as a tool call, its arguments in one delta.
func (r *run) ask(q approval.Question) error { return r.emitAll(callEvents(q, r.assistant)) }

// result shows how a Question was settled.
// The message has an id of ours, since AG-UI's TOOL_CALL_RESULT names one and no upstream has it.
func (r *run) result(q approval.Question) error {
	return r.emit(&agui.ToolCallResult{
		MessageID: newID(), ToolCallID: q.Call.ID, Role: agui.RoleTool, Content: agui.Text(resultText(q, r.filter)),
	})
}

// closeCard gives a card with an id of its own its result: what was decided. That of the call is the tool's.
func (r *run) closeCard(q approval.Question) error {
	if !q.Call.Carded || r.calls.resulted(q.CardID()) {
		return nil
	}
	return r.emit(&agui.ToolCallResult{
		MessageID: newID(), ToolCallID: q.CardID(), Role: agui.RoleTool, Content: agui.Text(string(approval.ResultContent(q))),
	})
}

// terminal is the Run's last event.
func (r *run) terminal(e ending) agui.Event {
	if e.failure != nil {
		end := &agui.RunError{Message: e.failure.Message, Code: e.failure.Code}
		end.Usage, end.Metadata = countedBy(r.usage, nil)
		return end
	}
	end := &agui.RunFinished{ThreadID: r.threadID, RunID: r.row.ExternalID, Result: e.result, Outcome: e.outcome}
	if e.asAsked {
		end.Outcome, end.Metadata = nil, asAskedMetadata(e.outcome)
	}
	end.Usage, end.Metadata = countedBy(r.usage, end.Metadata)
	return end
}

// transcript is what the Run's events fold to, as rows.
// It is written with the commit that ends the Run, and before that only with a message that others append (place). Until
// the end the transcript of a join ends before this Run, and the Run's own events give the rest.
func (r *run) transcript(now time.Time) []store.Move {
	messages := r.fold.New()
	moves := make([]store.Move, 0, len(messages))
	for _, m := range messages {
		if m.Role == agui.RoleUser || r.given[m.ID] {
			continue // its row was written when it was sent or appended
		}
		if m.Role == agui.RoleAssistant && m.Content.Absent && len(m.ToolCalls) == 0 && m.EncryptedValue == "" {
			continue // its calls now belong to another message
		}
		if r.placed != nil {
			sum := sha256.Sum256(m.AppendJSON(nil))
			if r.placed[m.ID] == sum {
				continue
			}
			r.placed[m.ID] = sum
		}
		moves = append(moves, messageMoves(r.row, m, now)...)
	}
	return moves
}

// place is transcript while the Run goes on: the row of a message gives it its place, so what was said before an appended
// message gets its row before it. A message that has changed since is written again in its place. What is as it was
// written is left out, or a Run with many appended messages would write all of them each time.
func (r *run) place(now time.Time) []store.Move {
	if r.placed == nil {
		r.placed = make(map[string][sha256.Size]byte)
	}
	return r.transcript(now)
}

// ending is how a Run ends. The zero value is a plain success that moves only the Run.
type ending struct {
	turn    store.TurnStatus // "" leaves the Turn where it is
	outcome *agui.Outcome
	asAsked bool // RUN_FINISHED has no outcome; see asAsked
	result  json.RawMessage
	failure *fault.Error
	moves   []store.Move // for the same commit
}

func (e ending) code() string {
	if e.failure == nil {
		return ""
	}
	return e.failure.Code
}

// The token's hash and the upstream's mark are emptied with it: an Agent whose Turn is over can call nothing in its
// name.
func (e ending) turnMove(turn *store.Turn, usage []agui.TokenUsage, now time.Time) store.TurnMove {
	m := store.TurnMove{
		ID: turn.ID, From: []store.TurnStatus{turn.Status}, To: e.turn, EndedAt: now,
		TokenHash: []byte{}, Upstream: store.UpstreamNone, Usage: usageJSON(usage), ErrorCode: e.code(),
	}
	if e.failure != nil {
		m.ErrorMessage = e.failure.Message
	}
	return m
}

// A cancelled Run is no failure, in the rows as on the wire: AG-UI ends it with RUN_FINISHED and an outcome.
func (e ending) runStatus() store.RunStatus {
	switch {
	case e.failure != nil:
		return store.RunFailed
	case e.outcome == nil:
		return store.RunFinished
	case e.outcome.Type == agui.OutcomeCancelled:
		return store.RunCancelled
	case e.outcome.Type == agui.OutcomeInterrupt, len(e.outcome.PendingToolCallIDs) > 0:
		return store.RunInterrupted
	}
	return store.RunFinished
}
