// Package hints tells whoever watches a page what happens now. A hint may be lost, whoever
// is slow or joins late loses some, and none is kept: the log is the truth.
package hints
