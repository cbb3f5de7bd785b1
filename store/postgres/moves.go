// This file reads the answers to the Moves of a Batch, and finds which of them were lost. A statement for one row
// shows that by the number of rows, one for many by the keys that it returns.

package postgres

import (
	"github.com/jackc/pgx/v5"

	"aqueduct/store/sqldb"
)

// readMoves reads one answer a statement and returns the places of the moves that were lost.
func readMoves(results pgx.BatchResults, moves []sqldb.Grouped) (lost []int, err error) {
	for _, m := range moves {
		if m.Rows != nil {
			lost, err = readGroup(results, m.Rows, lost)
		} else {
			lost, err = readSingle(results, m, lost)
		}
		if err != nil {
			return nil, err
		}
	}
	return lost, nil
}

// readSingle adds the move to lost when it is a compare-and-set that touched no row.
func readSingle(results pgx.BatchResults, m sqldb.Grouped, lost []int) ([]int, error) {
	tag, err := results.Exec()
	if err == nil && m.CAS && tag.RowsAffected() == 0 {
		lost = append(lost, m.Index)
	}
	return lost, err
}

// readGroup adds to lost the moves of a group whose key the statement did not return.
func readGroup(results pgx.BatchResults, index map[string]int, lost []int) ([]int, error) {
	rows, err := results.Query()
	if err != nil {
		return lost, err
	}
	var key string
	made := make(map[string]bool, len(index))
	if _, err = pgx.ForEachRow(rows, []any{&key}, func() error { made[key] = true; return nil }); err != nil {
		return lost, err
	}
	for key, i := range index {
		if !made[key] {
			lost = append(lost, i)
		}
	}
	return lost, nil
}
