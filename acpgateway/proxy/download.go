package proxy

import (
	"bytes"
	"context"
	"crypto/sha256"

	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"
)

const (
	// downloadTimeout is for one input, from the request to its last byte: the start of the agent waits for it.
	downloadTimeout = 300 * time.Second
	redirectsMost   = 5
)

// archive is what one agent input may bring: an archive that is larger fills a disk or keeps
// the agent from starting.
type archive struct {
	packed   int64 // bytes of the file
	unpacked int64 // bytes of all that is in it
	files    int   // files and directories in it
}

// archiveMost is the bound of every archive.
func archiveMost() archive { return archive{packed: 256 << 20, unpacked: 1 << 30, files: 10_000} }

// download brings the file at uri here, verified, as a file that has no name any more. Which
// hosts it may lie on is the gateway's choice: who may send it here may send scripts too.
// The file has no name so that no other process finds it, and a crash leaves nothing.
func download(ctx context.Context, uri, contentHash string, most int64) (*os.File, error) {
	want, err := digest(contentHash)
	if err != nil {
		return nil, err
	}
	from, err := url.Parse(uri)
	if err != nil || from.Scheme != "https" && from.Scheme != "http" || from.Host == "" {
		return nil, errors.New("the uri is not an http or https address")
	}
	ctx, cancel := context.WithTimeoutCause(ctx, downloadTimeout, fmt.Errorf("the download took longer than %s", downloadTimeout))
	defer cancel()
	body, err := get(ctx, from, most)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	to, err := nameless()
	if err != nil {
		return nil, err
	}
	if err := receive(ctx, to, body, want, most); err != nil {
		_ = to.Close() // nothing of it is used
		return nil, err
	}
	return to, nil
}

// digest reads a contentHash; nil is none.
func digest(text string) ([]byte, error) {
	if text == "" {
		return nil, nil
	}
	sum, err := hex.DecodeString(strings.TrimPrefix(text, "sha256:"))
	if err != nil || len(sum) != sha256.Size {
		return nil, errors.New("contentHash is not a sha256 in hex")
	}
	return sum, nil
}

// get asks for the file. Its errors name the host at most: the path and the query may hold a signature that gives
// access.
func get(ctx context.Context, from *url.URL, most int64) (io.ReadCloser, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, from.String(), nil)
	if err != nil {
		return nil, errors.New("the uri cannot be asked for")
	}
	// Compression would be undone before the hash is taken.
	// No connection is kept: the next input is from another host, as far as is known here.
	transport := &http.Transport{DisableKeepAlives: true, DisableCompression: true, Proxy: http.ProxyFromEnvironment}
	resp, err := (&http.Client{Transport: transport, CheckRedirect: redirected}).Do(req)
	if err != nil {
		return nil, unaddressed(ctx, err)
	}
	switch {
	case resp.StatusCode != http.StatusOK:
		err = fmt.Errorf("%s answers HTTP %s", from.Host, resp.Status)
	case resp.ContentLength > most:
		err = tooLarge(most)
	default:
		return resp.Body, nil
	}
	_ = resp.Body.Close() // it is not read
	return nil, err
}

// redirected allows few redirects, and none that gives encryption up.
func redirected(req *http.Request, via []*http.Request) error {
	switch {
	case len(via) > redirectsMost:
		return fmt.Errorf("more than %d redirects", redirectsMost)
	case req.URL.Scheme != "https" && (req.URL.Scheme != "http" || via[0].URL.Scheme == "https"):
		return errors.New("a redirect leads away from https")
	}
	return nil
}

// unaddressed leaves the address out of an error: what is signed into it gives access, and
// errors are shown.
func unaddressed(ctx context.Context, err error) error {
	var whole *url.Error
	if errors.As(err, &whole) {
		err = whole.Err
	}
	// Our own time limit, or the end of the run, is what a person has to read, and not how the library words it.
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	return fmt.Errorf("download: %w", err)
}

// nameless is a file that is gone when it is closed, or when this process dies.
func nameless() (*os.File, error) {
	f, err := os.CreateTemp("", "aqueduct-input-*")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(f.Name()); err != nil {
		_ = f.Close() // the other error is the cause
		return nil, err
	}
	return f, nil
}

// receive writes what comes, and takes it for what it should be only when its hash matches.
func receive(ctx context.Context, to io.Writer, body io.Reader, want []byte, most int64) error {
	hash := sha256.New()
	// One byte more than may come shows that there is more. A Content-Length need not be there, or be true.
	n, err := io.Copy(io.MultiWriter(to, hash), io.LimitReader(body, most+1))
	switch {
	case err != nil:
		return unaddressed(ctx, err)
	case n > most:
		return tooLarge(most)
	case want != nil && !bytes.Equal(hash.Sum(nil), want):
		return fmt.Errorf("its sha256 is %x, contentHash asks for %x", hash.Sum(nil), want)
	}
	return nil
}

func tooLarge(most int64) error { return fmt.Errorf("it is larger than %d bytes", most) }
