package proxy

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"aqueduct/acpgateway/acp"
)

// fileBytes bounds a file read for an agent: its text goes into one line.
const fileBytes = 16 << 20

// file answers fs/*, inside the workspace.
func (a *agent) file(method string, params json.RawMessage) (any, error) {
	root, err := os.OpenRoot(a.space.root)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	if method == acp.MethodReadTextFile {
		return a.readFile(root, params)
	}
	var w acp.WriteTextFileParams
	if err := json.Unmarshal(params, &w); err != nil {
		return nil, invalid(err)
	}
	rel, err := a.space.rel(w.Path)
	if err != nil {
		return nil, invalid(err)
	}
	if err := root.MkdirAll(filepath.Dir(rel), 0o755); err != nil {
		return nil, err
	}
	if err := root.WriteFile(rel, []byte(w.Content), 0o644); err != nil {
		return nil, err
	}
	return struct{}{}, a.space.owner.ownIn(root, rel)
}

func (a *agent) readFile(root *os.Root, params json.RawMessage) (any, error) {
	var q acp.ReadTextFileParams
	if err := json.Unmarshal(params, &q); err != nil {
		return nil, invalid(err)
	}
	rel, err := a.space.rel(q.Path)
	if err != nil {
		return nil, invalid(err)
	}
	f, err := root.Open(rel)
	if errors.Is(err, fs.ErrNotExist) {
		// Gemini reads a file before it writes it, and takes an error for the end.
		if strings.Contains(strings.ToLower(a.info.AgentInfo.Name), "gemini") {
			return acp.ReadTextFileResult{}, nil
		}
		return nil, &acp.Error{Code: acp.CodeNotFound, Message: "file not found: " + q.Path}
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
		return nil, &acp.Error{Code: acp.CodeInternal, Message: "the file is too large"}
	}
	return acp.ReadTextFileResult{Content: cut(string(data), q)}, nil
}

// cut takes the lines asked for.
func cut(text string, q acp.ReadTextFileParams) string {
	if q.Line <= 1 && q.Limit == nil {
		return text
	}
	lines := strings.SplitAfter(text, "\n")
	lines = lines[min(max(q.Line-1, 0), len(lines)):]
	if q.Limit != nil {
		lines = lines[:min(max(*q.Limit, 0), len(lines))]
	}
	return strings.Join(lines, "")
}
