package store

import "context"

type patientKey struct{}

// Patient returns a context whose reads and transactions wait for the database: what fails with ErrUnavailable is tried
// again until the context ends, as a Batch is by the committer. It is for work that has nowhere else to go. A request
// whose client can repeat it fails instead.
func Patient(ctx context.Context) context.Context {
	return context.WithValue(ctx, patientKey{}, true)
}

// IsPatient reports whether a context comes from Patient.
func IsPatient(ctx context.Context) bool {
	patient, _ := ctx.Value(patientKey{}).(bool)
	return patient
}
