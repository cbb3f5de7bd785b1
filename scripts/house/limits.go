// This file has the limits, and prints the report. A limit is changed here, in the commit that gives the reason.

package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// bound is which side of its limit a count must stay on.
type bound int

const (
	free bound = iota // shown, never fails
	most
	least
)

// count is one line of the report: up to three figures (median, 90th percentile, maximum) and their limits.
type count struct {
	name    string
	figures []float64
	limits  []float64
	bound   bound
	unit    string
}

// ok reports whether every figure is on the right side of its limit.
func (c count) ok() bool {
	for i, limit := range c.limits {
		if c.bound == most && c.figures[i] > limit || c.bound == least && c.figures[i] < limit {
			return false
		}
	}
	return true
}

func (c count) value() string { return join(c.figures) + c.unit }

func (c count) limit() string {
	switch c.bound {
	case most:
		return "<= " + join(c.limits) + c.unit
	case least:
		return ">= " + join(c.limits) + c.unit
	case free:
	}
	return ""
}

// join writes figures with at most two places: 120/350/500.
func join(figures []float64) string {
	texts := make([]string, len(figures))
	for i, f := range figures {
		texts[i] = strings.TrimSuffix(strings.TrimRight(strconv.FormatFloat(f, 'f', 2, 64), "0"), ".")
	}
	return strings.Join(texts, "/")
}

// counts are the tree's figures, and the limits this project has set itself for them.
func (t *tree) counts() []count {
	methods, files := t.biggestType()
	return []count{
		{name: "file lines, product (median/p90/max)", figures: spread(t.product.fileLines()), limits: []float64{120, 350, 500}, bound: most},
		{name: "file lines, tests", figures: spread(t.test.fileLines())},
		{name: "function lines, product (median/p90/max)", figures: spread(t.product.functionLines()), limits: []float64{12, 35, 80}, bound: most},
		{name: "function lines, tests", figures: spread(t.test.functionLines())},
		{name: "methods of the biggest type", figures: []float64{float64(methods)}, limits: []float64{25}, bound: most},
		{name: "files with methods of one type", figures: []float64{float64(files)}, limits: []float64{4}, bound: most},
		{name: "circles of imports", figures: []float64{float64(t.imports.circles)}, limits: []float64{0}, bound: most},
		{name: "imports against the arrows", figures: []float64{float64(len(t.imports.upward))}, limits: []float64{0}, bound: most},
		{name: "depth of imports", figures: []float64{float64(t.imports.depth)}, limits: []float64{6}, bound: most},
		{name: "exported names documented", figures: []float64{percent(t.product.documented, t.product.exported)}, limits: []float64{100}, bound: least, unit: " %"},
		{name: "comment lines, product", figures: []float64{percent(t.product.comments, t.product.comments+t.product.code)}, limits: []float64{16}, bound: least, unit: " %"},
		{name: "code lines, product", figures: []float64{float64(t.product.code)}},
		{name: "code lines, tests", figures: []float64{float64(t.test.code)}},
		{name: "lines, test : product", figures: []float64{ratio(t.test.lines(), t.product.lines())}, limits: []float64{0.9}, bound: least},
		{name: "comment lines with private words", figures: []float64{float64(t.product.private + t.test.private)}, limits: []float64{99}, bound: most},
		{name: "init functions, product", figures: []float64{float64(t.product.inits)}, limits: []float64{0}, bound: most},
	}
}

// spread is the median, the 90th percentile and the maximum, by nearest rank.
func spread(values []int) []float64 {
	if len(values) == 0 {
		return []float64{0, 0, 0}
	}
	sorted := slices.Sorted(slices.Values(values))
	at := func(share float64) float64 { return float64(sorted[int(share*float64(len(sorted)-1)+0.5)]) }
	return []float64{at(0.5), at(0.9), at(1)}
}

func ratio(a, b int) float64 {
	if b == 0 {
		return 0
	}
	return float64(a) / float64(b)
}

func percent(a, b int) float64 { return 100 * ratio(a, b) }

// showBiggest lists what the maxima stand for.
func (t *tree) showBiggest(n int) {
	fmt.Println("\nbiggest files:")
	for _, f := range first(t.product.files, n, func(f sized) int { return f.lines }) {
		fmt.Printf("  %4d  %s\n", f.lines, f.name)
	}
	fmt.Println("biggest functions:")
	for _, f := range first(t.product.functions, n, func(f sized) int { return f.lines }) {
		fmt.Printf("  %4d  %s\n", f.lines, f.name)
	}
	fmt.Println("biggest types (methods, files):")
	for _, typ := range first(t.sortedTypes(), n, func(m *methods) int { return m.count }) {
		fmt.Printf("  %4d %2d  %s\n", typ.count, len(typ.files), typ.name)
	}
	if len(t.imports.upward) > 0 {
		fmt.Println("imports against the arrows:")
	}
	for _, edge := range t.imports.upward {
		fmt.Println("  " + edge)
	}
	if len(t.product.undocumented) > 0 {
		fmt.Println("exported and not documented:")
	}
	for _, name := range t.product.undocumented[:min(n, len(t.product.undocumented))] {
		fmt.Println("  " + name)
	}
}

// first is the n biggest by size; those of one size stay in their order.
func first[T any](all []T, n int, size func(T) int) []T {
	sorted := slices.SortedStableFunc(slices.Values(all), func(a, b T) int { return size(b) - size(a) })
	return sorted[:min(n, len(sorted))]
}
