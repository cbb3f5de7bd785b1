package policy

import (
	"errors"
	"fmt"
	"slices"

	"aqueduct/internal/jsonequal"
)

// operator reads what stands behind an operator of a Match; nil when the name is of none.
func operator(name string) func(any) (test, error) {
	switch name {
	case "equals":
		return equals
	case "any":
		return anything
	case "prefix_path":
		return prefixPath
	case "prefix_paths":
		return prefixPaths
	case "glob":
		return globs
	case "one_of":
		return oneOf
	case "argv":
		return argvIs
	}
	return nil
}

// readTest reads a field of a Match. An object with an operator in it is an operator and
// nothing else; to mean such an object itself, equals is written around it.
//
// Operators: equals, any, prefix_path, prefix_paths, glob, one_of, argv. Anything that is no such object is compared
// as a value.
func readTest(want any) (test, error) {
	object, ok := want.(map[string]any)
	if !ok {
		return equals(want)
	}
	for name, operand := range object {
		read := operator(name)
		switch {
		case read != nil && len(object) > 1:
			return nil, fmt.Errorf("beside %q nothing else may stand", name)
		case read != nil:
			return read(operand)
		}
	}
	return equals(want)
}

// equals compares as JSON does: numbers by value, objects without regard to the order of members.
func equals(want any) (test, error) {
	return func(value any) bool { return jsonequal.Values(want, value) }, nil
}

func anything(want any) (test, error) {
	if want != true {
		return nil, errors.New("any is true")
	}
	return func(any) bool { return true }, nil
}

func oneOf(want any) (test, error) {
	all, ok := want.([]any)
	if !ok || len(all) == 0 {
		return nil, errors.New("one_of takes a list")
	}
	return func(value any) bool {
		return slices.ContainsFunc(all, func(one any) bool { return jsonequal.Values(one, value) })
	}, nil
}

// globs is for names. It is not for commands and paths, so its * stands for no character
// that is special to a shell, and not for a way up.
// "*" in a glob for names would also fit "x; rm -rf /", which a careless tool might pass to a shell.
func globs(want any) (test, error) {
	pattern, ok := want.(string)
	if !ok || pattern == "" || goesUp(pattern) {
		return nil, errors.New(`glob takes a text without ".."`)
	}
	return func(value any) bool {
		text, ok := value.(string)
		return ok && plain(text) == text && glob(pattern, text) && sameMeta(pattern, text) && !goesUp(text)
	}, nil
}

// prefixPath is for one path. What cannot be compared for certain (within) is not below the root.
func prefixPath(want any) (test, error) {
	root, ok := want.(string)
	if !ok || !clear(root) {
		return nil, errors.New(`prefix_path takes a path without "..", "%", backslashes and what cannot be seen`)
	}
	return func(value any) bool {
		path, ok := value.(string)
		return ok && within(root, path)
	}, nil
}

// prefixPaths is prefixPath for a list of paths, of which there is at least one.
func prefixPaths(want any) (test, error) {
	one, err := prefixPath(want)
	return func(value any) bool {
		paths, ok := value.([]any)
		return ok && len(paths) > 0 && !slices.ContainsFunc(paths, func(path any) bool { return !one(path) })
	}, err
}

// argvIs is a command by its words, of which each has to be equal.
// It takes a command as text or as a list, since agents send both.
func argvIs(want any) (test, error) {
	argv, ok := texts(want)
	if !ok || len(argv) == 0 || hasMeta(argv) {
		return nil, errors.New("argv takes a list of texts without characters that are special to a shell")
	}
	return func(value any) bool {
		if command, ok := value.(string); ok {
			return isCommand(command, argv)
		}
		words, ok := texts(value)
		return ok && !hasMeta(words) && slices.Equal(words, argv)
	}, nil
}

// texts are the texts of a list; false for anything else, and for a list with another value in it.
func texts(value any) ([]string, bool) {
	items, ok := value.([]any)
	if !ok {
		return nil, false
	}
	out := make([]string, len(items))
	for i, item := range items {
		if out[i], ok = item.(string); !ok {
			return nil, false
		}
	}
	return out, true
}
