// Package bench measures what keeping everything costs against a bare relay that keeps
// nothing. Both serve the same upstream and the same load, each in a process of its own,
// one after the other, in one run.
package bench
