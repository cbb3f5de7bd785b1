package sqldb

import (
	"errors"

	"aqueduct/store"
)

// Classified reports whether err is one of store's errors already.
func Classified(err error) bool {
	for _, known := range []error{store.ErrNotFound, store.ErrConflict, store.ErrFenced, store.ErrData,
		store.ErrUnavailable, store.ErrUnknownOutcome, store.ErrLocked} {
		if errors.Is(err, known) {
			return true
		}
	}
	return false
}
