// Package failpoint marks the places where a process may die at the worst moment. In a
// program built with -tags failpoints, AQUEDUCT_FAILPOINT=name:n kills it the n-th time
// it comes to the place of that name, and name:n:stop stops it there until it gets SIGCONT;
// test/faults then looks at what is left. In any other build it does nothing.
package failpoint
