package outbound

import "io"

// bounded is an answer that fails when it turns out larger than it may be. It does not
// end early without saying so: half an answer must not pass for one.
type bounded struct {
	body io.ReadCloser
	left int64 // may still come; -1 after the limit was passed, for good
}

// Read implements io.Reader.
func (b *bounded) Read(p []byte) (int, error) {
	if b.left < 0 {
		return 0, ErrTooLarge
	}
	if int64(len(p)) > b.left+1 {
		p = p[:b.left+1] // one more than may come shows that there is more
	}
	n, err := b.body.Read(p)
	if int64(n) > b.left {
		n, err = int(b.left), ErrTooLarge
		b.left = -1
		return n, err
	}
	b.left -= int64(n)
	return n, err
}

// Close implements io.Closer.
func (b *bounded) Close() error { return b.body.Close() }
