// This file is what an examination collects, and the report that is made of it.

package doctor

import (
	"fmt"
	"strconv"
	"unicode/utf8"
)

// Level is how much a finding matters.
type Level string

// The levels. An error is what a client fails on or shows wrongly; a warning is what works until something else is in
// the way: a proxy, an older client, a page of another origin.
const (
	Error   Level = "error"
	Warning Level = "warning"
)

// Finding is a rule that was broken. Seen is the first case, Count how many there were.
type Finding struct {
	Code   string `json:"code"`
	Level  Level  `json:"level"`
	Count  int    `json:"count"`
	Seen   string `json:"seen"`
	Why    string `json:"why"`
	Source string `json:"source"`
}

// NotSeen is a rule that there was no occasion for.
type NotSeen struct {
	Code  string `json:"code"`
	Needs string `json:"needs"`
}

// Report is what came of an examination. Every rule is in one of its three lists: Findings in the order of their
// first case, the others in the order of the table.
type Report struct {
	Findings []Finding      `json:"findings"`
	Sound    []string       `json:"sound"`
	NotSeen  []NotSeen      `json:"notSeen"`
	Notes    []string       `json:"notes"`
	Events   map[string]int `json:"events"` // by type
	// Complete: the run came to an end while it was looked at.
	Complete bool `json:"complete"`
}

// examination collects what is seen. One goroutine uses it, from Examine on until done.
type examination struct {
	rules  map[string]rule
	found  map[string]*Finding
	order  []string // codes of findings, in the order of their first case
	seen   map[need]bool
	report Report
}

func newExamination() *examination {
	x := &examination{rules: make(map[string]rule), found: make(map[string]*Finding), seen: make(map[need]bool)}
	for _, r := range table() {
		x.rules[r.code] = r
	}
	x.report.Events = make(map[string]int)
	return x
}

// findf records a broken rule. Only the first case is put into words: a stream may break one rule thousands of times.
func (x *examination) findf(code, format string, args ...any) {
	if f := x.found[code]; f != nil {
		f.Count++
		return
	}
	r := x.rules[code]
	x.found[code] = &Finding{Code: code, Level: r.level, Count: 1, Seen: fmt.Sprintf(format, args...), Why: r.why, Source: r.source}
	x.order = append(x.order, code)
}

// saw records that there was an occasion for some rules.
func (x *examination) saw(n need) { x.seen[n] = true }

// notef adds a remark that is no finding.
func (x *examination) notef(format string, args ...any) {
	x.report.Notes = append(x.report.Notes, fmt.Sprintf(format, args...))
}

// done makes the report.
func (x *examination) done() Report {
	x.report.Findings, x.report.Sound, x.report.NotSeen = []Finding{}, []string{}, []NotSeen{}
	for _, code := range x.order {
		x.report.Findings = append(x.report.Findings, *x.found[code])
	}
	for _, r := range table() {
		switch {
		case x.found[r.code] != nil:
		case x.seen[r.needs]:
			x.report.Sound = append(x.report.Sound, r.code)
		default:
			x.report.NotSeen = append(x.report.NotSeen, NotSeen{Code: r.code, Needs: string(r.needs)})
		}
	}
	if x.report.Notes == nil {
		x.report.Notes = []string{}
	}
	return x.report
}

// shownBytes bounds what is quoted of an answer: enough to find the place.
const shownBytes = 120

// quoted is a part of an answer on one line, with nothing that a terminal would act on.
func quoted(b []byte) string {
	cut := ""
	if len(b) > shownBytes {
		n := shownBytes
		for n > 0 && !utf8.RuneStart(b[n]) {
			n--
		}
		b, cut = b[:n], "…"
	}
	return strconv.QuoteToGraphic(string(b)) + cut
}
