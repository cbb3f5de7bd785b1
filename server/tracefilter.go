package server

import (
	"slices"
	"strings"

	"github.com/labstack/echo/v4"

	"aqueduct/agui"
	"aqueduct/bridge"
	"aqueduct/store"
)

// maxFilters bounds how many types, or sources, a filter names.
const maxFilters = 50

// traceFilter selects entries by ?type= and ?source=, each a list with commas or given several
// times. The zero filter selects all.
type traceFilter struct {
	types   []string
	sources []store.RecordSource
}

func traceFilterOf(c echo.Context) (traceFilter, error) {
	f := traceFilter{types: listed(c, "type")}
	for _, source := range listed(c, "source") {
		switch s := store.RecordSource(source); s {
		case bridge.SourceAGUI, store.SourceACP, store.SourceProxy, store.SourcePlatform:
			f.sources = append(f.sources, s)
		default:
			return f, refuse(codeInvalidQuery, "source: oneof agui acp proxy platform.")
		}
	}
	if len(f.types) > maxFilters || len(f.sources) > maxFilters {
		return f, refuse(codeInvalidQuery, "Too many values of type or source.")
	}
	return f, nil
}

// listed are the values of a parameter.
func listed(c echo.Context, name string) []string {
	var all []string
	for _, given := range c.QueryParams()[name] {
		for value := range strings.SplitSeq(given, ",") {
			if value != "" {
				all = append(all, value)
			}
		}
	}
	return all
}

// wants reports whether an entry is asked for. What a proxy says of itself is the contract's
// source acp too.
func (f traceFilter) wants(kind string, source store.RecordSource) bool {
	if len(f.types) > 0 && !slices.Contains(f.types, kind) {
		return false
	}
	return len(f.sources) == 0 || slices.Contains(f.sources, source) || slices.Contains(f.sources, store.RecordSource(shownSource(source)))
}

// selects reports whether anything is left out.
func (f traceFilter) selects() bool { return len(f.types)+len(f.sources) > 0 }

// records reports whether something else than events of the log is asked for by name.
func (f traceFilter) records() bool {
	return slices.ContainsFunc(f.sources, func(s store.RecordSource) bool { return s != bridge.SourceAGUI })
}

// shownSource is the contract's source of an entry: a proxy's signals are kept apart, and shown
// like the agent's.
func shownSource(s store.RecordSource) string {
	if s == store.SourceProxy {
		s = store.SourceACP
	}
	return string(s)
}

// dialect gives the events that are asked for.
func (f traceFilter) dialect() agui.Dialect {
	if len(f.types) == 0 {
		return agui.NewV1()
	}
	return filtered{f, agui.NewV1()}
}

// filtered is a Dialect that leaves events out.
type filtered struct {
	filter traceFilter
	agui.Dialect
}

// AppendFrames implements agui.Dialect.
func (d filtered) AppendFrames(dst []byte, id int64, event []byte) []byte {
	if !d.filter.wants(string(agui.TypeOf(event)), bridge.SourceAGUI) {
		return dst
	}
	return d.Dialect.AppendFrames(dst, id, event)
}
