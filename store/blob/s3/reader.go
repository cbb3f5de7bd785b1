// This file reads an object as net/http needs it: from any position, with a size that is known before. The object
// never changes, so what is read by two requests is of one piece.

package s3

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
)

// Open implements blob.Store. The first request is made here, so that an object that is not there is found out now.
func (s *Store) Open(ctx context.Context, id string, size int64) (io.ReadSeekCloser, error) {
	r := &reader{ctx: ctx, from: s, id: id, size: size}
	if err := r.open(); err != nil {
		return nil, err
	}
	return r, nil
}

// reader reads an object from wherever Seek puts it, by a request for what is behind that. A Seek alone makes none:
// net/http seeks to the end and back to learn the size.
type reader struct {
	ctx  context.Context // bounds all reads (blob.Store)
	from *Store
	id   string
	size int64
	at   int64         // where the next read begins
	body io.ReadCloser // of the request under way; nil before it
	next int64         // where body goes on
}

// open makes the request for what is behind the position. An answer of another status or length than was asked for is
// an error: a server may ignore a range (RFC 9110, section 14.2), and the whole object would be read as its end.
func (r *reader) open() error {
	if r.at >= r.size {
		return nil // a range of nothing is refused
	}
	resp, err := r.from.do(r.ctx, http.MethodGet, r.id, nil, emptyHash, fmt.Sprintf("bytes=%d-", r.at))
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusPartialContent || resp.ContentLength != r.size-r.at {
		return errors.Join(fmt.Errorf("s3: blob %s: status %d and %d bytes from %d on of %d", r.id, resp.StatusCode, resp.ContentLength, r.at, r.size), resp.Body.Close())
	}
	r.body, r.next = resp.Body, r.at
	return nil
}

// Read implements io.Reader.
func (r *reader) Read(p []byte) (int, error) {
	if r.at >= r.size {
		return 0, io.EOF
	}
	if r.body != nil && r.next != r.at {
		_ = r.Close() // it is not read to its end
	}
	if r.body == nil {
		if err := r.open(); err != nil {
			return 0, err
		}
	}
	n, err := r.body.Read(p)
	r.at += int64(n)
	r.next = r.at
	if errors.Is(err, io.EOF) && r.at < r.size {
		err = io.ErrUnexpectedEOF // the connection ended before the object did
	}
	return n, err
}

// Seek implements io.Seeker.
func (r *reader) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += r.at
	case io.SeekEnd:
		offset += r.size
	}
	if offset < 0 {
		return 0, errors.New("s3: a position before the beginning")
	}
	r.at = offset
	return offset, nil
}

// Close implements io.Closer.
func (r *reader) Close() error {
	if r.body == nil {
		return nil
	}
	body := r.body
	r.body = nil
	return body.Close()
}
