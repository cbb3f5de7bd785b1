// Command house counts what can be counted of the code's form: sizes, comments, types, imports. "house -check" fails
// where a count passes its limit. The counts are signs that a part needs a look; they are not the aim.
//
// Product is every Go file that ships; scripts/ is neither product nor test. Test is _test.go, test/ and the packages that only tests use (storetest, aguitest and others that end so).
package main

import (
	"flag"
	"fmt"
	"os"
	"text/tabwriter"
)

func main() {
	check := flag.Bool("check", false, "exit with status 1 where a count passes its limit")
	top := flag.Int("top", 8, "how many of the biggest files, functions and types to list")
	flag.Parse()
	root := "."
	if flag.NArg() > 0 {
		root = flag.Arg(0)
	}
	tree, err := read(root)
	if err != nil {
		fmt.Fprintln(os.Stderr, "house:", err)
		os.Exit(2)
	}
	counts := tree.counts()
	failed := show(counts)
	tree.showBiggest(*top)
	if *check && failed > 0 {
		fmt.Fprintf(os.Stderr, "house: %d counts pass their limits\n", failed)
		os.Exit(1)
	}
}

// show prints each count beside its limit and returns how many pass it.
func show(counts []count) (failed int) {
	w := tabwriter.NewWriter(os.Stdout, 0, 8, 2, ' ', 0)
	for _, c := range counts {
		verdict := ""
		if !c.ok() {
			verdict = "  <-"
			failed++
		}
		fmt.Fprintf(w, "%s\t%s\t%s%s\n", c.name, c.value(), c.limit(), verdict)
	}
	_ = w.Flush() // to the standard output
	return failed
}
