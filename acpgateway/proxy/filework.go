package proxy

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"time"

	"aqueduct/internal/child"
)

const (
	// fileTime bounds one file that an agent reads or writes: its disk may be one that does not answer.
	fileTime = 30 * time.Second
	// fileWorkers bounds the helpers at once of one agent, each of which may hold a whole file.
	fileWorkers = 4
	// helperWords bounds the text of a helper's error.
	helperWords = 4 << 10
)

// fileWork has the helper do a request, and returns what it wrote. content is the rest of its input, archive its
// descriptor 3; either may be nil.
func (la *launcher) fileWork(ctx context.Context, r fileRequest, content io.Reader, archive *os.File) ([]byte, error) {
	head, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	input := io.Reader(bytes.NewReader(append(head, '\n')))
	if content != nil {
		input = io.MultiReader(input, content)
	}
	cmd := la.cfg.Confine.Wrap(exec.Command("/proc/self/exe", FilesArgument))
	cmd.Env, cmd.Dir = []string{"PATH=" + os.Getenv("PATH")}, "/"
	out, words := &capped{most: fileBytes}, &capped{most: helperWords}
	cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.WaitDelay = input, out, words, stopGrace
	if archive != nil {
		cmd.ExtraFiles = []*os.File{archive}
	}
	proc, err := child.Start(cmd)
	if err != nil {
		return nil, fmt.Errorf("the file helper could not be started: %w", err)
	}
	select {
	case <-proc.Exited():
	case <-ctx.Done():
		proc.End(0)
		return nil, context.Cause(ctx)
	}
	_, code := proc.Status()
	said := errors.New(cmp.Or(strings.TrimSpace(words.String()), "the file helper failed"))
	switch code {
	case 0:
		return out.Bytes(), nil
	case exitMissing:
		return nil, errors.Join(fs.ErrNotExist, said)
	case exitLarge:
		return nil, errLarge
	}
	return nil, said
}

// capped keeps the first bytes of an output.
type capped struct {
	bytes.Buffer
	most int
}

// Write implements io.Writer.
func (c *capped) Write(b []byte) (int, error) {
	_, err := c.Buffer.Write(b[:min(len(b), max(0, c.most-c.Len()))])
	return len(b), err
}
