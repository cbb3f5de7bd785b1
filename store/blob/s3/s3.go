// Package s3 keeps blobs as objects of a bucket of Amazon S3, or of a server that speaks its protocol (MinIO, Ceph, Garage,
// R2 …).
//
// Three requests are all it makes: PUT, GET and DELETE of one object. What is intricate about them, the signature, is
// minio-go's; the rest of that library would be a fortieth of the whole program.
package s3

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/minio/minio-go/v7/pkg/signer"

	"aqueduct/internal/retry"
	"aqueduct/store/blob"
)

// Credentials sign requests. They reach no log and no error.
type Credentials struct {
	AccessKey, SecretKey string
	SessionToken         string // "" for keys that do not expire
}

// Location is where the objects are.
type Location struct {
	Bucket   string
	Prefix   string // of every object's name, with its slash; "" for none
	Region   string
	Endpoint string // of the server, with scheme; "" is Amazon's in that region
}

// ErrLocation is the error of a URL that names no bucket.
var ErrLocation = errors.New("not s3://BUCKET/PREFIX?endpoint=URL&region=REGION")

// ParseLocation reads s3://BUCKET/PREFIX?endpoint=URL&region=REGION, of which all but the bucket may be left out.
func ParseLocation(text string) (Location, error) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "s3" || u.Host == "" || u.User != nil || u.Fragment != "" {
		return Location{}, ErrLocation // the text may hold a key in the wrong place
	}
	query := u.Query()
	l := Location{Bucket: u.Host, Prefix: strings.Trim(u.Path, "/"), Region: query.Get("region"), Endpoint: strings.TrimRight(query.Get("endpoint"), "/")}
	query.Del("region")
	query.Del("endpoint")
	if len(query) > 0 {
		return Location{}, ErrLocation
	}
	if l.Prefix != "" {
		l.Prefix += "/"
	}
	if l.Region == "" {
		l.Region = "us-east-1"
	}
	if at, err := url.Parse(l.Endpoint); err != nil || l.Endpoint != "" && (at.Scheme != "http" && at.Scheme != "https" || at.Host == "" || at.User != nil || at.RawQuery != "") {
		return Location{}, fmt.Errorf("%w: the endpoint is no URL", ErrLocation)
	}
	return l, nil
}

// BaseURL is where objects are found under their names. Amazon's buckets are host names of their own; other servers
// know every bucket by its path.
func (l Location) BaseURL() string {
	if l.Endpoint == "" {
		return "https://" + l.Bucket + ".s3." + l.Region + ".amazonaws.com/" + l.Prefix
	}
	return l.Endpoint + "/" + l.Bucket + "/" + l.Prefix
}

// Store keeps each blob in an object named by its id.
type Store struct {
	at     Location
	keys   Credentials
	client *http.Client
}

// New makes a Store. The client is the way out; it must not bound how long a body takes, which the contexts of the
// calls do.
func New(at Location, keys Credentials, client *http.Client) *Store {
	return &Store{at: at, keys: keys, client: client}
}

var _ blob.Store = (*Store)(nil)

const (
	// attempts is how often a request is made that meets a fault of the server's or of the network: such servers answer 503
	// to a burst and mean it.
	attempts = 3
	// pause is the wait before the second attempt; the third waits four times as long.
	pause = 200 * time.Millisecond
	// maxFault bounds what is read of an error's body.
	maxFault = 8 << 10
	// emptyHash is the SHA-256 of no bytes, which a request without a body is signed with.
	emptyHash = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
)

// Put implements blob.Store: S3 answers when the object is durable. The hash of the bytes is signed, so bytes that were damaged on their way are
// refused.
func (s *Store) Put(ctx context.Context, id string, data []byte) error {
	sum := sha256.Sum256(data)
	resp, err := s.do(ctx, http.MethodPut, id, data, hex.EncodeToString(sum[:]), "")
	return ended(resp, err)
}

// Delete implements blob.Store. S3 answers 204 for an object that is not there, some servers 404.
func (s *Store) Delete(ctx context.Context, id string) error {
	resp, err := s.do(ctx, http.MethodDelete, id, nil, emptyHash, "")
	if err := ended(resp, err); !errors.Is(err, blob.ErrNotFound) {
		return err
	}
	return nil
}

// ended closes a response whose body does not matter. It takes the error of do along, so that it can be called on
// what do returns.
func ended(resp *http.Response, err error) error {
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

// do makes a signed request, again after a fault that may pass. A response is one of success.
//
// A write is repeated as it is: an id has one content, so a PUT that arrived twice is one.
func (s *Store) do(ctx context.Context, method, id string, data []byte, sum, bytesOf string) (*http.Response, error) {
	for n := 1; ; n++ {
		resp, err := s.once(ctx, method, id, data, sum, bytesOf)
		var refused *fault
		if err == nil || n == attempts || ctx.Err() != nil || errors.As(err, &refused) && !refused.passes() {
			return resp, err
		}
		if err := retry.Sleep(ctx, pause*time.Duration(n*n)); err != nil {
			return nil, err
		}
	}
}

// once makes a request, signed anew: a signature holds the time and is good for minutes. The hash of the body is part
// of what is signed.
func (s *Store) once(ctx context.Context, method, id string, data []byte, sum, bytesOf string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, s.at.BaseURL()+id, bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	req.Header.Set("X-Amz-Content-Sha256", sum)
	if bytesOf != "" {
		req.Header.Set("Range", bytesOf)
	}
	resp, err := s.client.Do(signer.SignV4(*req, s.keys.AccessKey, s.keys.SecretKey, s.keys.SessionToken, s.at.Region))
	if err != nil {
		return nil, err
	}
	if resp.StatusCode/100 == 2 {
		return resp, nil
	}
	defer resp.Body.Close()
	return nil, faultOf(resp)
}

// fault is a refusal of the server's. Its text has the code and never the message, which may repeat the access key.
type fault struct {
	status int
	code   string
}

// Error implements error.
func (f *fault) Error() string {
	return strings.TrimSpace(fmt.Sprintf("s3: status %d %s", f.status, f.code))
}

// Is makes an object that is not there blob.ErrNotFound. Any other 404 is a mistake of the operator's (a bucket or a key that is not
// there): taken for one of the object, a delete would count as done.
func (f *fault) Is(target error) bool {
	return target == blob.ErrNotFound && f.status == http.StatusNotFound && f.code == "NoSuchKey"
}

// passes reports whether the same request may succeed a moment later.
func (f *fault) passes() bool {
	return f.status >= http.StatusInternalServerError || f.status == http.StatusTooManyRequests
}

// faultOf reads the code of a refusal (S3's Error document). A code is a word; what is longer is cut.
func faultOf(resp *http.Response) error {
	var said struct {
		XMLName xml.Name `xml:"Error"`
		Code    string
	}
	_ = xml.NewDecoder(io.LimitReader(resp.Body, maxFault)).Decode(&said) // a proxy's error page has no code
	const longest = 64
	return &fault{status: resp.StatusCode, code: said.Code[:min(len(said.Code), longest)]}
}
