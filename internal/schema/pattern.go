// This file bounds regular expressions. A schema's author chooses the expression and another party the string, so
// neither their product nor either of them is trusted.

package schema

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"slices"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

const (
	// maxPattern bounds the program of one regular expression, and maxPatterns those of a schema together, in instructions
	// before repeats are unrolled and after: the engine's time for a string is its length times the program. [a-z]{1,255}
	// has about 500.
	maxPattern  = 5_000
	maxPatterns = 20_000
)

// pattern is a regular expression whose matching can be priced. work.match refuses any other jsonschema.Regexp.
type pattern struct {
	*regexp.Regexp
	size int
}

// patternCompiler bounds the expressions of one schema. Go's engine does not backtrack, so that size and length bound the
// time; an expression that it does not know (look-ahead, back references, another escape) matches any string. Validators of the
// authors' own languages check it: zod writes look-aheads for an email address.
type patternCompiler struct {
	total   int
	refused *Error // the last one; the compiler wraps it beyond recognition
}

// compile is jsonschema's RegexpEngine. An expression is measured by its parsed form, before it is compiled.
func (p *patternCompiler) compile(text string) (jsonschema.Regexp, error) {
	tree, err := syntax.Parse(text, syntax.Perl)
	if isForeign(err) {
		return pattern{anything, 1}, nil
	}
	if err != nil {
		p.refused = &Error{CodePattern, "The schema holds a regular expression that is not valid."}
		return nil, p.refused
	}
	size := programSize(tree)
	if p.total += size; size > maxPattern || p.total > maxPatterns {
		p.refused = &Error{CodePattern, fmt.Sprintf("The regular expressions of the schema are larger than %d instructions.", maxPattern)}
		return nil, p.refused
	}
	re, err := regexp.Compile(text)
	if err != nil {
		return nil, err
	}
	return pattern{re, size}, nil
}

// anything matches any string.
var anything = regexp.MustCompile("")

// isForeign reports whether an expression has syntax of another language's expressions.
func isForeign(err error) bool {
	var bad *syntax.Error
	return errors.As(err, &bad) && slices.Contains([]syntax.ErrorCode{syntax.ErrInvalidPerlOp, syntax.ErrInvalidEscape, syntax.ErrInvalidNamedCapture}, bad.Code)
}

// programSize estimates the instructions of an expression with its repeats unrolled. It stops at one more than is
// allowed for a whole schema: nested repeats multiply, and the product would overflow.
func programSize(re *syntax.Regexp) int {
	size := 1
	if re.Op == syntax.OpLiteral {
		size = len(re.Rune)
	}
	for _, sub := range re.Sub {
		if size += programSize(sub); size > maxPatterns {
			return maxPatterns + 1
		}
	}
	if re.Op == syntax.OpRepeat {
		size *= max(re.Min, re.Max, 1) // Max is -1 where there is none
	}
	return min(size, maxPatterns+1)
}
