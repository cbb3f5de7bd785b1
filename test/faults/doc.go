// Package faults kills, freezes, starves and misleads the real server, and compares what
// its clients saw with what is kept.
package faults
