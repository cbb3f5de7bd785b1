package proxy

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"strings"
	"sync/atomic"

	"aqueduct/acpgateway/wire"
)

// fileBytes bounds a file read for an agent: its text goes into one line.
const fileBytes = 16 << 20

// files answers an agent's fs/* methods. Its requests come on goroutines of their own, while initialize may still run.
type files struct {
	launch *launcher
	space  workspace
	busy   chan struct{} // has a place for each helper at once
	// emptyForMissing is set for an agent that takes an error for the end where a file is not there yet.
	emptyForMissing atomic.Bool
}

func newFiles(launch *launcher, space workspace) *files {
	return &files{launch: launch, space: space, busy: make(chan struct{}, fileWorkers)}
}

// call answers fs/*, inside the workspace, with the rights of the agent.
func (fl *files) call(ctx context.Context, method string, params json.RawMessage) (any, error) {
	select {
	case fl.busy <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	defer func() { <-fl.busy }()
	ctx, cancel := context.WithTimeoutCause(ctx, fileTime, errors.New("the file took too long"))
	defer cancel()
	if method == wire.MethodReadTextFile {
		return fl.read(ctx, params)
	}
	var w wire.WriteTextFileParams
	if err := json.Unmarshal(params, &w); err != nil {
		return nil, invalid(err)
	}
	rel, err := fl.space.rel(w.Path)
	if err != nil {
		return nil, invalid(err)
	}
	if len(w.Content) > fileBytes {
		return nil, &wire.Error{Code: wire.CodeInternal, Message: errLarge.Error()}
	}
	_, err = fl.launch.fileWork(ctx, fileRequest{Do: writeFile, Root: fl.space.root, Path: rel}, strings.NewReader(w.Content), nil)
	return struct{}{}, err
}

// read gives a text file, or the lines of it that are asked for. A file past the limit is refused whole: a part that
// looks like all of it would be written back as such.
func (fl *files) read(ctx context.Context, params json.RawMessage) (any, error) {
	var q wire.ReadTextFileParams
	if err := json.Unmarshal(params, &q); err != nil {
		return nil, invalid(err)
	}
	rel, err := fl.space.rel(q.Path)
	if err != nil {
		return nil, invalid(err)
	}
	data, err := fl.launch.fileWork(ctx, fileRequest{Do: readFile, Root: fl.space.root, Path: rel}, nil, nil)
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
