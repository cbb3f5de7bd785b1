// This file measures who imports whom, by folders and by packages. arrows_test.go is what forbids an edge; this only
// counts.

package main

import (
	"go/ast"
	"maps"
	"slices"
	"strconv"
	"strings"
)

const module = "aqueduct/"

// layers are the heights of the top folders; an import may not go up. Two edges (server, acpgateway) may not import
// each other. What is not listed (cmd, examples, scripts, internal/app) puts together and may import everything.
func layers() map[string]int {
	return map[string]int{
		"internal": 0, "agui": 0, "migrations": 0, "web": 0,
		"store": 1, "policy": 1,
		"bridge": 2,
		"server": 3, "acpgateway": 3,
	}
}

// graph is which rooms each room imports, of this module.
type graph map[string]map[string]bool

// imports is what is measured of the graph.
type imports struct {
	upward  []string // edges against the layers
	circles int      // pairs of top folders that reach each other
	depth   int      // rooms on the longest way of imports
}

func (g graph) add(room string, file *ast.File) {
	if g[room] == nil {
		g[room] = map[string]bool{}
	}
	for _, spec := range file.Imports {
		path, err := strconv.Unquote(spec.Path.Value)
		if imported, ours := strings.CutPrefix(path, module); ours && err == nil {
			g[room][imported] = true
		}
	}
}

// top is the top folder of a package. internal/app counts as cmd: it puts the program together, and may import
// everything.
func top(room string) string {
	if strings.HasPrefix(room, "internal/app") {
		return "cmd"
	}
	folder, _, _ := strings.Cut(room, "/")
	return folder
}

// measure counts edges against the layers, pairs of folders that reach each other, and the longest way down. Edges
// within one folder are its own affair.
func (g graph) measure() imports {
	var m imports
	folders := graph{}
	heights := layers()
	for _, room := range slices.Sorted(maps.Keys(g)) {
		for _, imported := range slices.Sorted(maps.Keys(g[room])) {
			from, to := top(room), top(imported)
			if from == to {
				continue
			}
			low, knownLow := heights[from]
			high, knownHigh := heights[to]
			if knownLow && (!knownHigh || high > low || high == low && low == heights["server"]) {
				m.upward = append(m.upward, room+" -> "+imported)
			}
			if folders[from] == nil {
				folders[from] = map[string]bool{}
			}
			folders[from][to] = true
		}
	}
	m.circles = folders.circles()
	depths := map[string]int{}
	for room := range g {
		m.depth = max(m.depth, g.depth(room, depths))
	}
	return m
}

// circles counts the pairs that reach each other.
func (g graph) circles() (n int) {
	reach := map[string]map[string]bool{}
	for room := range g {
		reach[room] = map[string]bool{}
		g.mark(room, reach[room])
	}
	for a, reached := range reach {
		for b := range reached {
			if a < b && reach[b][a] {
				n++
			}
		}
	}
	return n
}

func (g graph) mark(room string, reached map[string]bool) {
	for next := range g[room] {
		if !reached[next] {
			reached[next] = true
			g.mark(next, reached)
		}
	}
}

// depth is how many rooms the longest way down from a room has, itself included. A room that is met again on its
// own way counts as nothing there: Go refuses circles of packages, but not before it compiles them.
func (g graph) depth(room string, known map[string]int) int {
	if d, ok := known[room]; ok {
		return d
	}
	known[room] = 0
	deepest := 0
	for next := range g[room] {
		deepest = max(deepest, g.depth(next, known))
	}
	known[room] = deepest + 1
	return deepest + 1
}
