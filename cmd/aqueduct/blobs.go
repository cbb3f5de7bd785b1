// Where the server keeps what is too large for a row of the database: contents of the context store, and attachments.

package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/google/uuid"

	"aqueduct/bridge/outbound"
	"aqueduct/internal/ownfile"
	"aqueduct/internal/secretfile"
	"aqueduct/store/blob"
	"aqueduct/store/blob/disk"
	"aqueduct/store/blob/s3"
)

// blobFlags name the blob store. Replicas share one.
type blobFlags struct {
	BlobDir         ownfile.Secret `help:"Folder for what is too large for a row; \"blobs\" in the state folder when not given. With PostgreSQL and neither --blob-dir nor --blob-url the rows hold all. Replicas share it." placeholder:"DIR"`
	BlobURL         string         `name:"blob-url" help:"Bucket for it instead, as s3://BUCKET/PREFIX?endpoint=URL&region=REGION. Its key is in --blob-key-file, else in AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY." placeholder:"URL"`
	BlobKeyFile     ownfile.Secret `help:"File with the access key and the secret key of --blob-url, with white space between them." placeholder:"FILE"`
	MaxContextBytes int64          `default:"1073741824" help:"Most bytes of one user's entries in the context store."`
}

const (
	// blobFolder is that of --blob-dir when it is not given.
	blobFolder = "blobs"
	// blobFirstByte is how long a bucket may take to answer: it has to write 16 MiB first.
	blobFirstByte = time.Minute
	// probeTime bounds the trial of a blob store at the start.
	probeTime = 30 * time.Second
)

// open makes the blob store that the flags name and tries it; nil is none. What is written for that has no row, so its id is the
// replica's: what a start leaves that was killed, the next one deletes. A full disk does not fail the start, because the server
// frees the disk by deleting threads.
func (f blobFlags) open(ctx context.Context, files *stateFlags, name string, log *slog.Logger) (blob.Store, error) {
	if f.BlobURL != "" && f.BlobDir != "" {
		return nil, errors.New("--blob-dir and --blob-url contradict each other")
	}
	st, flag, err := f.make(files)
	if err != nil || st == nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	err = blob.Probe(ctx, st, uuid.NewSHA1(uuid.NameSpaceURL, []byte(name)).String())
	if errors.Is(err, syscall.ENOSPC) {
		log.Warn("the disk of the blobs is full: uploads fail until threads are deleted", slog.Any("error", err))
		return st, nil
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", flag, err)
	}
	return st, nil
}

func (f blobFlags) make(files *stateFlags) (st blob.Store, flag string, err error) {
	if f.BlobURL != "" {
		if st, err = f.bucket(os.Getenv); err != nil {
			return nil, "", fmt.Errorf("--blob-url: %w", err)
		}
		return st, "--blob-url", nil
	}
	folder := f.folder(files)
	if folder == "" {
		return nil, "", nil
	}
	if st, err = disk.Open(folder); err != nil {
		return nil, "", fmt.Errorf("--blob-dir: %w", err)
	}
	return st, "--blob-dir", nil
}

// folder is the folder of blobs; "" for none. Beside PostgreSQL there is none that all replicas are known to share.
func (f blobFlags) folder(files *stateFlags) string {
	_, ok := files.Database.file()
	switch {
	case f.BlobDir != "":
		return string(f.BlobDir)
	case f.BlobURL != "" || !ok:
		return ""
	}
	return files.in(blobFolder)
}

// bucket is the store in a bucket. Its address may be private and this machine, for the operator named it.
func (f blobFlags) bucket(env func(string) string) (blob.Store, error) {
	at, err := s3.ParseLocation(f.BlobURL)
	if err != nil {
		return nil, err
	}
	keys, err := f.keys(env)
	if err != nil {
		return nil, err
	}
	base, err := url.Parse(at.BaseURL())
	if err != nil {
		return nil, s3.ErrLocation
	}
	gate, err := outbound.New(outbound.Config{
		Allow:  []string{"127.0.0.0/8", "::1/128", base.Host},
		Limits: outbound.Limits{FirstByte: blobFirstByte, Total: -1, Body: -1, Redirects: -1},
	})
	if err != nil {
		return nil, err
	}
	return s3.New(at, keys, gate.Client()), nil
}

// keys are those of the file, else of the environment. No error repeats what stands there.
func (f blobFlags) keys(env func(string) string) (s3.Credentials, error) {
	if f.BlobKeyFile == "" {
		keys := s3.Credentials{AccessKey: env("AWS_ACCESS_KEY_ID"), SecretKey: env("AWS_SECRET_ACCESS_KEY"), SessionToken: env("AWS_SESSION_TOKEN")}
		if keys.AccessKey == "" || keys.SecretKey == "" {
			return keys, errors.New("give its key by --blob-key-file, or by AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY")
		}
		return keys, nil
	}
	text, err := secretfile.Read(string(f.BlobKeyFile))
	if err != nil {
		return s3.Credentials{}, fmt.Errorf("--blob-key-file: %w", err)
	}
	pair := strings.Fields(text)
	if len(pair) != 2 {
		return s3.Credentials{}, errors.New("--blob-key-file: expected an access key and a secret key")
	}
	return s3.Credentials{AccessKey: pair[0], SecretKey: pair[1]}, nil
}
