package sqldb

import (
	"errors"

	"aqueduct/store"
)

// Classified reports whether err is one of store's errors already, so that the classification of a driver's errors does
// nothing when it is applied a second time on the way up.
func Classified(err error) bool {
	for _, known := range []error{store.ErrNotFound, store.ErrConflict, store.ErrFenced, store.ErrData,
		store.ErrUnavailable, store.ErrUnknownOutcome, store.ErrLocked} {
		if errors.Is(err, known) {
			return true
		}
	}
	return false
}
