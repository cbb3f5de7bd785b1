package store

import "context"

type patientKey struct{}

// Patient returns a context whose reads and transactions wait for the database. Those that fail with ErrUnavailable are tried
// again until the context ends, as the committer does with a Batch. It is for work that no client can repeat. A request whose
// client can repeat it fails instead.
func Patient(ctx context.Context) context.Context {
	return context.WithValue(ctx, patientKey{}, true)
}

// IsPatient reports whether a context comes from Patient.
func IsPatient(ctx context.Context) bool {
	patient, _ := ctx.Value(patientKey{}).(bool)
	return patient
}
