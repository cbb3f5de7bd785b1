package audit

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"hash"
	"os"
	"path/filepath"
	"time"

	"aqueduct/store"
)

// The files of a bundle. A script checks them with nothing but this folder: examples/verify-audit.
const (
	BundleEntries   = "entries.jsonl"
	BundleApprovals = "approvals.jsonl"
	BundleManifest  = "manifest.json"
	BundleMAC       = "manifest.mac"

	bundleFormat = "aqueduct-audit-1"
)

// bundleEntry is an entry with every field that its hash covers (store.AuditEntry.Sum), so that the hash can be computed
// again without the database.
type bundleEntry struct {
	Seq         int64  `json:"seq"`
	Tenant      string `json:"tenant"`
	TS          int64  `json:"ts"` // Unix milliseconds, as hashed
	Actor       string `json:"actor"`
	Action      string `json:"action"`
	SubjectType string `json:"subject_type"`
	SubjectID   string `json:"subject_id"`
	Payload     string `json:"payload"` // the text that was hashed, which is JSON
	Remote      string `json:"remote"`
	PrevHash    string `json:"prev_hash"`
	Hash        string `json:"hash"`
	MAC         string `json:"mac"`
}

// bundleApproval is a settled Approval as its row has it.
type bundleApproval struct {
	ID         string `json:"id"`
	Kind       string `json:"kind"`
	Tool       string `json:"tool"`
	Status     string `json:"status"`
	ArgsSHA256 string `json:"args_sha256"`
	DecidedBy  string `json:"decided_by"`
	DecidedVia string `json:"decided_via"`
	DecidedAt  int64  `json:"decided_at"`
}

// bundleFile is what the manifest has of another file: enough to see that a line was added, changed or cut off.
type bundleFile struct {
	SHA256 string `json:"sha256"`
	Bytes  int64  `json:"bytes"`
	Lines  int64  `json:"lines"`
}

// manifest names the other files with their hashes, so that one MAC over it covers the folder.
type manifest struct {
	Format     string                `json:"format"`
	CreatedAt  time.Time             `json:"created_at"`
	Head       bundleHead            `json:"head"`
	KnownHeads []bundleHead          `json:"known_heads"`
	Problems   []string              `json:"problems"`
	Files      map[string]bundleFile `json:"files"`
}

// bundleHead is a Head in JSON. Its text form (Head.String) is for people and command lines.
type bundleHead struct {
	Seq  int64  `json:"seq"`
	Hash string `json:"hash"`
}

// Export writes the chain and the settled Approvals into a folder, which it makes, and checks them as Compare does: what
// is wrong stands in the manifest and in problems, for a chain that was tampered with is evidence too. key signs the
// manifest; the zero value leaves that out.
//
// A broken chain ends the reading there: the entries up to the break are in the bundle, no row was compared, and the
// Approvals follow all the same. After an error the folder is left as it is, and is no bundle.
func Export(ctx context.Context, r rows, w *Walk, key store.AuditKey, dir string) (out Compared, problems []string, err error) {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return out, nil, err
	}
	m := manifest{Format: bundleFormat, CreatedAt: time.Now().UTC(), KnownHeads: []bundleHead{}, Problems: []string{}, Files: make(map[string]bundleFile)}
	for _, k := range w.Known {
		m.KnownHeads = append(m.KnownHeads, bundleHead(k))
	}
	entries, err := newLines(filepath.Join(dir, BundleEntries))
	if err != nil {
		return out, nil, err
	}
	w.Each = func(e store.AuditEntry) error {
		return entries.write(bundleEntry{
			e.Seq, e.Tenant, e.TS.UnixMilli(), e.Actor, e.Action, e.SubjectType, e.SubjectID, string(e.Payload), e.Remote, e.PrevHash, e.Hash, e.MAC,
		})
	}
	out, err = Compare(ctx, r, w)
	if broken, ok := errors.AsType[*Broken](err); ok {
		m.Problems, err = append(m.Problems, broken.Error()), nil
	}
	if err != nil {
		return out, nil, errors.Join(err, entries.close(nil))
	}
	for _, x := range out.Mismatches {
		m.Problems = append(m.Problems, x.String())
	}
	m.Head = bundleHead(w.Head) // after Compare, which may have walked on past entries that came meanwhile
	if err := entries.close(m.Files); err != nil {
		return out, m.Problems, err
	}
	if err := exportApprovals(ctx, r, filepath.Join(dir, BundleApprovals), m.Files); err != nil {
		return out, m.Problems, err
	}
	return out, m.Problems, writeManifest(m, key, dir)
}

// exportApprovals writes every Approval that is settled. An open one is evidence of nothing yet, and its row still
// changes.
func exportApprovals(ctx context.Context, r rows, path string, files map[string]bundleFile) error {
	to, err := newLines(path)
	if err != nil {
		return err
	}
	err = eachApproval(ctx, r, func(a store.Approval) error {
		if a.Status == store.ApprovalPending {
			return nil
		}
		return to.write(bundleApproval{a.ID, string(a.Kind), a.Tool, string(a.Status), a.ArgsSHA256, a.DecidedBy, a.DecidedVia, a.DecidedAt.UnixMilli()})
	})
	if err != nil {
		return errors.Join(err, to.close(nil))
	}
	return to.close(files)
}

// writeManifest writes the list of files, and its MAC.
func writeManifest(m manifest, key store.AuditKey, dir string) error {
	raw, err := json.MarshalIndent(m, "", " ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, BundleManifest), raw, 0o600); err != nil || key.ID() == "" {
		return err
	}
	sum := sha256.Sum256(raw)
	return os.WriteFile(filepath.Join(dir, BundleMAC), []byte(key.MAC(hex.EncodeToString(sum[:]))+"\n"), 0o600)
}

// lines is a file of JSON lines that is hashed while it is written.
type lines struct {
	file *os.File
	to   *bufio.Writer
	sum  hash.Hash
	was  bundleFile // so far; its SHA256 is set by close
}

// newLines makes the file, which must not be there: a bundle is never added to.
func newLines(path string) (*lines, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	return &lines{file: f, to: bufio.NewWriter(f), sum: sha256.New()}, nil
}

func (l *lines) write(v any) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return err
	}
	raw = append(raw, '\n')
	l.was.Bytes += int64(len(raw))
	l.was.Lines++
	_, _ = l.sum.Write(raw) // a hash never fails
	_, err = l.to.Write(raw)
	return err
}

// close ends the file and notes what it is, where files is not nil.
func (l *lines) close(files map[string]bundleFile) error {
	err := errors.Join(l.to.Flush(), l.file.Sync(), l.file.Close())
	l.was.SHA256 = hex.EncodeToString(l.sum.Sum(nil))
	if files != nil {
		files[filepath.Base(l.file.Name())] = l.was
	}
	return err
}
