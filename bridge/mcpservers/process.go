// This file is the way to a server that is a program: it is started here, with the confinement of all children, and
// ends with the connection. Each start has a mark in its environment, by which what it started itself is found and
// ended too.

package mcpservers

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"golang.org/x/time/rate"

	"aqueduct/internal/child"
)

const (
	// stopGrace is how long a server may take to end when its input has closed.
	stopGrace = 5 * time.Second
	// longestMessage bounds what one message of a server may have: it is held in memory whole.
	longestMessage = 16 << 20
	// linesPerSecond and linesAtOnce bound the lines of a server that are logged, on each of its two streams; what is
	// left out of its standard error is counted.
	linesPerSecond, linesAtOnce = 5, 200
	// longestLine is how many bytes are logged of a line, of its standard error and of what is no message.
	longestLine = 1 << 10
)

// command is the way to a server that is started here.
type command struct {
	line    []string
	pass    []string
	epoch   string // begins the marks of its processes
	confine *child.Confinement
	logger  *slog.Logger
}

// open starts the command. What it writes to its standard error goes to the log. The end of the way closes its input,
// which asks a server of MCP to end, sends its process group SIGTERM, and SIGKILL after stopGrace. It returns when
// nothing of it is left to be read.
func (c *command) open() (way, error) {
	cmd := c.confine.Wrap(exec.Command(c.line[0], c.line[1:]...))
	// The mark stands last, where it counts whatever the environment names.
	mark := c.epoch + "." + uuid.NewString()
	cmd.Env = append(c.confine.Account(child.Inherited(c.pass)), child.MarkName+"="+mark)
	streams, err := child.NewPipes(cmd)
	if err != nil {
		return way{}, err
	}
	proc, err := child.Start(cmd)
	streams.Started()
	if err != nil {
		streams.Close()
		return way{}, fmt.Errorf("its command could not be started: %w", err)
	}
	var work sync.WaitGroup
	work.Go(func() { c.console(streams.Stderr) })
	work.Go(func() {
		<-proc.Exited()
		// What it started and left behind may hold the pipes open.
		child.KillMarked(mark)
		streams.Stdout.Ending()
		streams.Stderr.Ending()
	})
	return way{
		transport: noted{&mcp.IOTransport{Reader: newMessages(streams.Stdout, c.logger), Writer: streams.Stdin, MaxLineLength: longestMessage}},
		end: func() {
			_ = streams.Stdin.Close() // by which a server of MCP is asked to end; it may be closed already
			proc.End(stopGrace)
			work.Wait()
			streams.Close()
			signal, code := proc.Status()
			c.logger.Debug("an MCP server's process has ended", slog.String("signal", signal), slog.Int("code", code))
		},
	}, nil
}

// console logs the lines of a server's standard error, until nothing holds the other end any more. It reads on where
// nothing is logged: a full pipe would stop the server.
func (c *command) console(from io.Reader) {
	lines := bufio.NewReaderSize(from, longestLine)
	may, left := rate.NewLimiter(linesPerSecond, linesAtOnce), 0
	for {
		line, err := lines.ReadSlice('\n')
		if text := strings.TrimSpace(string(line)); text != "" {
			if may.Allow() {
				c.logger.Info("an MCP server writes", slog.String("line", strings.ToValidUTF8(text, "\uFFFD")), slog.Int("left_out", left))
				left = 0
			} else {
				left++
			}
		}
		for errors.Is(err, bufio.ErrBufferFull) { // the rest of a long line is left out
			_, err = lines.ReadSlice('\n')
		}
		if err != nil {
			return
		}
	}
}
