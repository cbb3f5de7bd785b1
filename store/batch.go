package store

import "time"

// Batch is what an owner commits at once: events of many Sessions, Records, and the
// moves of rows that belong to them. It is atomic and fenced.
type Batch struct {
	Replica string // the writer; the whole batch is refused when it is fenced
	// Seq numbers the Batches of a replica upwards, so that repeating one after
	// ErrUnknownOutcome is ErrConflict if it had landed, even when it has no event rows to
	// identify it. 0: not numbered, and moves that landed would be reported as lost.
	Seq     int64
	Events  []EventRow
	Records []Record
	Moves   []Move
}

// Move is one change of one row inside a Batch. Moves are applied in order after the
// events. A compare-and-set that finds another status changes nothing and is reported
// in Result.Lost; the rest of the Batch stands.
type Move interface{ move() }

// Result is what became of a Batch.
type Result struct {
	Lost []int // indices of Moves whose compare-and-set found another status
}

// TurnMove moves a Turn. Zero members keep what the row has.
type TurnMove struct {
	ID           string
	From         []TurnStatus
	To           TurnStatus
	StartedAt    time.Time
	DispatchedAt time.Time
	EndedAt      time.Time
	TokenHash    []byte // empty, not nil, clears it
	Upstream     string // UpstreamNone clears it
	Resumable    bool   // sets it; false keeps it
	Usage        []byte
	ErrorCode    string
	ErrorMessage string
}

// RunMove moves a Run. Zero members keep what the row has.
type RunMove struct {
	ID        string
	From      RunStatus
	To        RunStatus
	FirstSeq  int64
	LastSeq   int64
	ErrorCode string
	StartedAt time.Time
	EndedAt   time.Time
}

// RunStateChanges keeps what a Run changed of the Session's state; see StateChange.
type RunStateChanges struct {
	ID      string // of the Run
	Changes []byte
}

// ToolCallMove moves a ToolCall. Zero members keep what the row has, but a move to
// DISPATCHED or SUCCEEDED takes the error of an earlier attempt away.
type ToolCallMove struct {
	ID   string
	From ToolCallStatus
	// OnlyOf, if set, makes the move lost unless the row's Replica is this one: the
	// late result of a process that froze must not end the attempt of another.
	OnlyOf string
	// WhileTurn makes the move lost when the row's Turn is over: nothing must begin for an Agent that is gone.
	WhileTurn    bool
	To           ToolCallStatus
	RunID        string
	Args         []byte // a person's: they mark the row as Edited
	ArgsSHA256   string
	Result       []byte
	ErrorCode    string
	Error        []byte
	Risk         string
	GrantID      string
	Replica      string
	InTranscript bool // true sets it
	CardAnswered bool // true takes Carded away: the client's own tool message is the card's result
	ExpiresAt    time.Time
	RunningAt    time.Time
	EndedAt      time.Time
}

// ToolCallShown names the Run a waiting ToolCall is shown in; lost when it no longer
// waits (is neither WAITING_APPROVAL nor WAITING_CLIENT). Anyway names it whatever became of
// the ToolCall: the Run's events are kept, so it must not be shown again.
type ToolCallShown struct {
	ID     string
	RunID  string
	Anyway bool
	Carded bool // as of the ToolCall; true sets it
}

// ToolCallInTranscript marks that the log holds the ToolCall's TOOL_CALL_RESULT; lost when it
// was marked already.
type ToolCallInTranscript struct{ ID string }

// ToolCallDelivered stamps DeliveredAt before the agent gets the answer; lost when it is set, or when the row is not in While
// any more: an approval that was revoked meanwhile must not be delivered.
type ToolCallDelivered struct {
	ID    string
	At    time.Time
	While ToolCallStatus // any when empty
}

// ApprovalMove moves an Approval. Zero members keep what the row has.
type ApprovalMove struct {
	ID         string
	From       ApprovalStatus // PENDING when empty
	To         ApprovalStatus
	DecidedAt  time.Time
	DecidedBy  string
	DecidedVia string
	Decision   []byte
	EditedArgs []byte
	GrantID    string
	Reason     string
}

// InsertRun, InsertToolCall, InsertApproval add a row of the owner's. An id that is
// taken is ErrConflict for the whole Batch.
type (
	InsertRun      struct{ Run Run }
	InsertToolCall struct{ ToolCall ToolCall }
	InsertApproval struct{ Approval Approval }
)

// TakeToolCall adds a ToolCall that runs from the beginning; lost when its Turn is over, or
// when the id or the Turn's idempotency key is taken.
type TakeToolCall struct{ ToolCall ToolCall }

// RecordOf keeps a Record about a ToolCall that a Move before it in the Batch takes or moves. It is lost, and nothing is
// kept, unless the ToolCall is there in that Status and began to run or ended At that time: a Move that was lost must not
// leave a Record of what did not happen.
type RecordOf struct {
	Record     Record
	ToolCallID string
	Status     ToolCallStatus // any when empty
	At         time.Time      // whenever when zero
}

// InsertOutbox adds a message to an outside system in the same commit as what it is about.
type InsertOutbox struct{ Item OutboxItem }

// InsertCommand adds a request to the owner of another Session in the same commit as what it is about.
type InsertCommand struct{ Command Command }

// UpsertMessage adds a transcript entry or replaces the Data of the one with the same
// Session and external id, keeping its place.
type UpsertMessage struct{ Message Message }

// InsertPart adds the bytes of a part of a message; nothing happens when the Session has them already.
type InsertPart struct{ Part MessagePart }

// InsertContext adds an entry of the context store in the same commit as the event that names it. Its content is in Data.
type InsertContext struct{ Entry ContextEntry }

// MoveMessage gives a message another ID, and so another place: one that was sent while an earlier Turn ran belongs behind
// that Turn's messages.
type MoveMessage struct{ ID, NewID string }

// ReplaceMessages takes from the current branch the messages of Turns between two, both excluded: they ended after the
// later one had begun a branch that continues the earlier one, "" for the thread's beginning.
type ReplaceMessages struct{ SessionID, AfterTurn, BeforeTurn string }

// SessionMove updates a Session at the end of a Run. Nil State and empty Title keep
// what the row has; UpdatedAt is always set. Bytes is how many bytes of events the log got since the
// last such move.
type SessionMove struct {
	ID        string
	State     []byte
	Title     string
	Bytes     int64
	UpdatedAt time.Time
}

// CommandDone marks a Command as carried out; lost when it was already.
type CommandDone struct {
	ID string
	At time.Time
}

func (TurnMove) move()             {}
func (RunMove) move()              {}
func (RunStateChanges) move()      {}
func (ToolCallMove) move()         {}
func (ApprovalMove) move()         {}
func (ToolCallShown) move()        {}
func (ToolCallInTranscript) move() {}
func (ToolCallDelivered) move()    {}
func (InsertRun) move()            {}
func (InsertToolCall) move()       {}
func (InsertApproval) move()       {}
func (TakeToolCall) move()         {}
func (RecordOf) move()             {}
func (InsertOutbox) move()         {}
func (InsertCommand) move()        {}
func (UpsertMessage) move()        {}
func (InsertPart) move()           {}
func (InsertContext) move()        {}

func (MoveMessage) move()     {}
func (ReplaceMessages) move() {}
func (SessionMove) move()     {}
func (CommandDone) move()     {}
