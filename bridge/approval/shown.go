package approval

import (
	"slices"

	"aqueduct/internal/safetext"
	"aqueduct/store"
)

// Shown is what every surface shows of a Question's arguments beside the arguments themselves, so that no client has to
// make its own text of them: a parser that loses digits or keys would show something else than what runs.
type Shown struct {
	ArgsText string   `json:"args_text,omitempty"`
	Warnings []string `json:"warnings,omitempty"`
	// Path are the agents from the thread's own to the one that asks, where that was called by another.
	Path []string `json:"path,omitempty"`
}

// ShownOf is an Approval's.
func ShownOf(a store.Approval) Shown {
	warnings := labelWarnings(a)
	if a.Unconfined {
		warnings = append(warnings, safetext.WarnUnconfined)
	}
	if len(a.Args) == 0 {
		return Shown{Warnings: warnings, Path: PathOf(a)}
	}
	args := safetext.OfArgs(a.Args)
	return Shown{ArgsText: args.Text, Warnings: append(args.Warnings, warnings...), Path: PathOf(a)}
}

// labelWarnings is for an option whose words mean the opposite of what its kind does: its kind decides.
func labelWarnings(a store.Approval) []string {
	misleads := func(o Option) bool {
		says := KindOf("", "", o.Label)
		return KnownKind(o.Kind) && KnownKind(says) && Option{Kind: says}.Allows() != o.Allows()
	}
	if slices.ContainsFunc((Question{Approval: a}).Options(), misleads) {
		return []string{safetext.WarnLabel}
	}
	return nil
}
