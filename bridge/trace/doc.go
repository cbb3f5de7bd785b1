// Package trace makes the Records of the platform contract's events (§9.1): what happened in a Turn beside its log. Each
// is kept in the commit of what it describes. The package also reads and makes W3C trace contexts.
package trace
