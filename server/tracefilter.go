// Filters of traces and of events. A filter selects what is shown and never what the position counts: a client that
// changes its filter goes on from the same position.

package server

import (
	"slices"
	"strings"

	"github.com/labstack/echo/v4"

	"aqueduct/agui"
	"aqueduct/bridge/trace/reader"
	"aqueduct/server/problem"
	"aqueduct/store"
)

// maxFilters bounds how many types, or sources, a filter names. Each value is compared with each entry.
const maxFilters = 50

// traceFilter selects entries by ?type= and ?source=, each a list with commas or given several times. The zero filter
// selects all. Values of one parameter are alternatives; both parameters together must hold.
type traceFilter struct {
	types   []string
	sources []store.RecordSource
}

// traceFilterOf reads the filter of a request. An unknown source is refused, because a misspelled one would look like
// an empty trace; types are open, since agents may make up their own.
func traceFilterOf(c echo.Context) (traceFilter, error) {
	f := traceFilter{types: listed(c, "type")}
	for _, source := range listed(c, "source") {
		switch s := store.RecordSource(source); s {
		case reader.SourceAGUI, store.SourceACP, store.SourceProxy, store.SourcePlatform:
			f.sources = append(f.sources, s)
		default:
			return f, problem.Refuse(problem.InvalidQuery, "source: must be one of agui, acp, proxy, platform.")
		}
	}
	if len(f.types) > maxFilters || len(f.sources) > maxFilters {
		return f, problem.Refuse(problem.InvalidQuery, "Too many values of type or source.")
	}
	return f, nil
}

// listed are the values of a parameter. Empty values, as of ?type=, select nothing and are left out.
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

// wants reports whether an entry is asked for. A proxy's own entries have the contract's source acp too.
func (f traceFilter) wants(kind string, source store.RecordSource) bool {
	if len(f.types) > 0 && !slices.Contains(f.types, kind) {
		return false
	}
	return len(f.sources) == 0 || slices.Contains(f.sources, source) || slices.Contains(f.sources, store.RecordSource(shownSource(source)))
}

// selects reports whether anything is left out.
func (f traceFilter) selects() bool { return len(f.types)+len(f.sources) > 0 }

// records reports whether something else than events of the log is asked for by name. Such a request wants the trace,
// although it asks for the events of a Run.
func (f traceFilter) records() bool {
	return slices.ContainsFunc(f.sources, func(s store.RecordSource) bool { return s != reader.SourceAGUI })
}

// shownSource is the contract's source of an entry: a proxy's signals are kept apart, and shown
// like the agent's.
func shownSource(s store.RecordSource) string {
	if s == store.SourceProxy {
		s = store.SourceACP
	}
	return string(s)
}

// dialect gives the events that are asked for. Without a filter no event is looked into, which keeps the usual stream
// as cheap as it is.
func (f traceFilter) dialect() agui.Dialect {
	// Sources do not count here: a request that names another than agui reads the trace, and has no dialect.
	if len(f.types) == 0 {
		return agui.NewV1()
	}
	return filtered{f, agui.NewV1()}
}

// filtered is a Dialect that leaves events out. The dialect behind it sees the selected events alone.
type filtered struct {
	filter traceFilter
	agui.Dialect
}

// AppendFrames implements agui.Dialect.
func (d filtered) AppendFrames(dst []byte, id int64, event []byte) []byte {
	if !d.filter.wants(string(agui.TypeOf(event)), reader.SourceAGUI) {
		return dst
	}
	return d.Dialect.AppendFrames(dst, id, event)
}
