package postgres_test

import (
	"testing"

	"aqueduct/store"
	"aqueduct/store/storetest"
)

func BenchmarkStore(b *testing.B) {
	storetest.Bench(b, func(b *testing.B) store.Store { return open(b) })
}

func BenchmarkSearch(b *testing.B) { storetest.BenchSearch(b, open(b)) }
