// Masking of secrets: the patterns beside the well-known forms, and the key that seals what was masked, so that an
// approved call runs with its real arguments.

package main

import (
	"cmp"
	"fmt"
	"strings"

	"aqueduct/bridge/redact"
	"aqueduct/internal/ownfile"
)

// redactFlags name what is masked beside the well-known forms of secrets, and what seals the originals of what runs.
// Replicas must have the same patterns and the same key.
type redactFlags struct {
	RedactFile     ownfile.Config `help:"File of patterns (RE2, one a line; # begins a comment) of further secrets that are masked before anything is kept, shown or logged." placeholder:"FILE"`
	SealingKeyFile ownfile.Secret `help:"File with the keys that seal the originals of masked arguments and prompts; made with mode 0600 when it is not there. sealing.key in the state folder when not given. Replicas share it." placeholder:"FILE"`
}

// redaction is what masks and seals.
type redaction struct {
	filter *redact.Filter
	vault  *redact.Vault
}

// hash gives the hashes that bind arguments to what is decided about them.
func (r redaction) hash() redact.Hasher { return redact.Hasher{Filter: r.filter, Vault: r.vault} }

// open reads both files; the key is made where there is none.
func (f redactFlags) open(files *stateFlags) (redaction, error) {
	filter, err := f.filter()
	if err != nil {
		return redaction{}, err
	}
	// Made where there is none, because an approved call could not run without its originals.
	vault, err := redact.OpenKeyFile(f.keyFile(files))
	if err != nil {
		return redaction{}, fmt.Errorf("--sealing-key-file: %w", err)
	}
	return redaction{filter, vault}, nil
}

// filter reads the patterns. An error names the pattern by its place: the file may hold what must not be logged. A
// pattern that does not compile ends the start: secrets would pass unmasked otherwise.
func (f redactFlags) filter() (*redact.Filter, error) {
	var patterns []string
	if f.RedactFile != "" {
		raw, err := f.RedactFile.Read()
		if err != nil {
			return nil, fmt.Errorf("--redact-file: %w", err)
		}
		for line := range strings.Lines(string(raw)) {
			// An empty line would be a pattern that matches everywhere.
			if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
				patterns = append(patterns, line)
			}
		}
	}
	filter, err := redact.New(patterns)
	if err != nil {
		return nil, fmt.Errorf("--redact-file %s: %w", f.RedactFile, err)
	}
	return filter, nil
}

// keyFile is where the key lies when no file is named.
func (f redactFlags) keyFile(files *stateFlags) string {
	return cmp.Or(string(f.SealingKeyFile), files.in(sealingKeyName))
}

const sealingKeyName = "sealing.key"
