package store

import (
	"errors"
	"fmt"
)

var (
	// ErrNotFound: no such row in this Scope. Absent and foreign look the same.
	ErrNotFound = errors.New("store: not found")
	// ErrConflict: a unique key is taken (an external id, an event position).
	ErrConflict = errors.New("store: conflict")
	// ErrFenced: this replica has been replaced; it must write nothing more and leave.
	ErrFenced = errors.New("store: replica is fenced")
	// ErrData: the database refuses the content of a write. Repeating it cannot help;
	// in a Batch one of its rows is the offender.
	ErrData = errors.New("store: data refused")
	// ErrUnavailable: the database could not be reached or is out of room; nothing was
	// written. Repeating the same write later is right.
	ErrUnavailable = errors.New("store: unavailable")
	// ErrFull: the disk of the database is full; nothing was written. It is a kind of ErrUnavailable, since there may be
	// room later.
	ErrFull = fmt.Errorf("%w: the disk of the database is full", ErrUnavailable)
	// ErrUnknownOutcome: the write may or may not have been committed. Only repeating
	// the same Batch shows it: ErrConflict on its event rows or its Seq then means that it
	// landed.
	ErrUnknownOutcome = errors.New("store: outcome unknown")
	// ErrLocked: another process holds the database file (SQLite).
	ErrLocked = errors.New("store: database is locked by another process")
)
