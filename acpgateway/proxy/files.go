package proxy

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"

	"aqueduct/acpgateway/wire"
)

// fileBytes bounds a file read for an agent: its text goes into one line.
const fileBytes = 16 << 20

// files answers an agent's fs/* methods. Its requests come on goroutines of their own, while initialize may still run.
type files struct {
	space workspace
	// emptyForMissing is set for an agent that takes an error for the end where a file is not there yet.
	emptyForMissing atomic.Bool
}

// call answers fs/*, inside the workspace.
func (fl *files) call(method string, params json.RawMessage) (any, error) {
	root, err := os.OpenRoot(fl.space.root)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	if method == wire.MethodReadTextFile {
		return fl.read(root, params)
	}
	var w wire.WriteTextFileParams
	if err := json.Unmarshal(params, &w); err != nil {
		return nil, invalid(err)
	}
	rel, err := fl.space.rel(w.Path)
	if err != nil {
		return nil, invalid(err)
	}
	if err := root.MkdirAll(filepath.Dir(rel), 0o755); err != nil {
		return nil, err
	}
	if err := root.WriteFile(rel, []byte(w.Content), 0o644); err != nil {
		return nil, err
	}
	// This process has written it as its own user, and the agent has to be able to go on with it.
	return struct{}{}, fl.space.owner.OwnIn(root, rel)
}

// read gives a text file, or the lines of it that are asked for. A file past the limit is refused whole: a part that
// looks like all of it would be written back as such.
func (fl *files) read(root *os.Root, params json.RawMessage) (any, error) {
	var q wire.ReadTextFileParams
	if err := json.Unmarshal(params, &q); err != nil {
		return nil, invalid(err)
	}
	rel, err := fl.space.rel(q.Path)
	if err != nil {
		return nil, invalid(err)
	}
	f, err := root.Open(rel)
	if errors.Is(err, fs.ErrNotExist) {
		// Gemini reads a file before it writes it, and takes an error for the end.
		if fl.emptyForMissing.Load() {
			return wire.ReadTextFileResult{}, nil
		}
		return nil, &wire.Error{Code: wire.CodeNotFound, Message: "file not found: " + q.Path}
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, fileBytes+1))
	if err != nil {
		return nil, err
	}
	if len(data) > fileBytes {
		return nil, &wire.Error{Code: wire.CodeInternal, Message: "the file is too large"}
	}
	return wire.ReadTextFileResult{Content: cut(string(data), q)}, nil
}

// cut takes the lines asked for.
func cut(text string, q wire.ReadTextFileParams) string {
	if q.Line <= 1 && q.Limit == nil {
		return text
	}
	lines := strings.SplitAfter(text, "\n")
	// Lines are counted from 1.
	lines = lines[min(max(q.Line-1, 0), len(lines)):]
	if q.Limit != nil {
		lines = lines[:min(max(*q.Limit, 0), len(lines))]
	}
	return strings.Join(lines, "")
}
