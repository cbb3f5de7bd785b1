package bridge

import (
	"context"
	"errors"
	"slices"

	"aqueduct/store"
)

// turnRuns reads the rows of a Turn's Runs.
// They are read each time and not remembered, because requests on any replica reserve Runs.
type turnRuns struct {
	store             store.Store
	sessionID, turnID string
}

// last is the newest Run of the Turn that has begun, or is reserved when none has.
// A Turn's Runs are in the order they began, reserved ones last. One that has begun counts before one that is only reserved:
// what follows is decided by what clients have been sent.
func (r turnRuns) last(ctx context.Context) (last store.Run, err error) {
	runs, err := r.store.RunsOfTurn(ctx, store.System(), r.turnID)
	if err != nil {
		return last, err
	}
	if len(runs) == 0 {
		return last, errors.New("bridge: a turn without runs")
	}
	begun := slices.DeleteFunc(slices.Clone(runs), func(run store.Run) bool { return run.FirstSeq == 0 })
	if last = runs[0]; len(begun) > 0 {
		last = begun[len(begun)-1]
	}
	return last, nil
}

// reserved reports whether a client's answer has reserved a Run of this Turn.
func (r turnRuns) reserved(ctx context.Context) (is bool, err error) {
	runs, err := r.store.ReservedRuns(ctx, store.System(), r.sessionID)
	return slices.ContainsFunc(runs, func(run store.Run) bool { return run.TurnID == r.turnID }), err
}

// statusMoves bring the Turn's row to a status. Between the two pauses lies RUNNING.
// The machine allows a pause to end in RUNNING only, so that each pause has a beginning and an end in the trace.
func statusMoves(turn *store.Turn, to store.TurnStatus) []store.Move {
	from := turn.Status
	if from == to || from.Terminal() {
		return nil
	}
	var moves []store.Move
	if from.Paused() && to.Paused() {
		moves = append(moves, store.TurnMove{ID: turn.ID, From: []store.TurnStatus{from}, To: store.TurnRunning})
		from = store.TurnRunning
	}
	return append(moves, store.TurnMove{ID: turn.ID, From: []store.TurnStatus{from}, To: to})
}
