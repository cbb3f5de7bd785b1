package postgres

import (
	"context"
	"errors"
	"fmt"
)

// Notice has a database's grown tables analyzed as a running store does, and checks that none has to be analyzed again.
func Notice(ctx context.Context, dsn string) error {
	s, err := Open(ctx, dsn, Options{NoMigrate: true})
	if err != nil {
		return err
	}
	err = s.analyzeGrown(ctx)
	again, failed := namesOf(ctx, s.db)
	if len(again) > 0 {
		failed = fmt.Errorf("to be analyzed again: %v", again)
	}
	return errors.Join(err, failed, s.Close())
}
