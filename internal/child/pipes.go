package child

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"time"
)

// lingerLast is how long a stream may stay silent after its process has ended: a process that
// left the group may hold it open for ever.
const lingerLast = 200 * time.Millisecond

// Stream is our end of a child's output. After the child's end it gives what is left and then
// ends, even if another process still holds the other end.
// A read would otherwise wait until the last holder of the pipe is gone, which may be a daemon that the child started.
type Stream struct{ *os.File }

// Read implements io.Reader.
func (s Stream) Read(b []byte) (int, error) {
	// The first deadline may have passed while the reader was busy with what it had. So there is one more read with a
	// deadline of its own: only one that waited for all of it in vain is the end.
	n, err := s.File.Read(b)
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		return n, err
	}
	if err := s.SetReadDeadline(time.Now().Add(lingerLast)); err != nil {
		return 0, err
	}
	if n, err = s.File.Read(b); errors.Is(err, os.ErrDeadlineExceeded) {
		return n, io.EOF
	}
	return n, err
}

// Ending makes reads return when nothing comes.
func (s Stream) Ending() {
	_ = s.SetReadDeadline(time.Now().Add(lingerLast)) // closed already: its reader has ended
}

// Pipes are a child's standard streams: our ends, and the child's until it has been started.
type Pipes struct {
	Stdin          *os.File
	Stdout, Stderr Stream
	theirs         []*os.File
}

// NewPipes makes the three pipes and gives the child its ends. They are os.Pipe and not cmd.StdoutPipe, because
// cmd.Wait would close ours before what is in them has been read.
func NewPipes(cmd *exec.Cmd) (*Pipes, error) {
	var files []*os.File
	for range 3 {
		r, w, err := os.Pipe()
		if err != nil {
			closeAll(files)
			return nil, err
		}
		files = append(files, r, w)
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = files[0], files[3], files[5]
	return &Pipes{
		Stdin: files[1], Stdout: Stream{files[2]}, Stderr: Stream{files[4]},
		theirs: []*os.File{files[0], files[3], files[5]},
	}, nil
}

// Started closes the child's ends here, so that its end is seen.
func (p *Pipes) Started() { closeAll(p.theirs) }

// Close closes our ends.
func (p *Pipes) Close() { closeAll([]*os.File{p.Stdin, p.Stdout.File, p.Stderr.File}) }

func closeAll(files []*os.File) {
	for _, f := range files {
		_ = f.Close() // nothing is left to be learnt from it
	}
}
