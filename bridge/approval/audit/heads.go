// This file gives the head of the audit chain to others. A chain proves that nothing in it was changed; that its end is
// there still, only a head from elsewhere proves.

package audit

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"time"

	"aqueduct/store"
)

// Exporter gives the head of the chain to others while the server runs: only who has a head from outside the database can
// find later that the end of the chain was cut off.
//
// A head goes to the log, and where they are set to a file, a metric and webhooks. Each of them alone is enough for
// Verify.
type Exporter struct {
	Store store.Store
	Log   *slog.Logger
	// Gauge gets the head; nil gets none.
	Gauge func(Head)
	// Rows are the webhooks that report a head; nil is none. Kick is called when they are kept.
	Rows func(h Head, now time.Time) []store.OutboxItem
	Kick func()
	// File gets a line for each head that is exported; "" is none.
	File string
}

const (
	// exportEvery is how often a head that has moved goes out. A chain that was cut off is found up to the last one.
	exportEvery = time.Hour
	// lookEvery is how often the metric is brought up to date.
	lookEvery = 15 * time.Second
)

// Run exports the head at once, every hour in which it moved, and when ctx ends.
func (x *Exporter) Run(ctx context.Context) error {
	var last Head // as it was exported; an empty chain has the zero Head, which is never exported
	look, export := time.NewTicker(lookEvery), time.NewTicker(exportEvery)
	defer look.Stop()
	defer export.Stop()
	for out := true; ; out = false {
		select { // the ticks of export are only looked at on those of look, which are the more frequent
		default:
		case <-export.C:
			out = true
		}
		if h, err := x.head(ctx); err != nil && ctx.Err() == nil {
			x.Log.Warn("the head of the audit cannot be read", slog.Any("error", err))
		} else if err == nil {
			if x.Gauge != nil {
				x.Gauge(h)
			}
			if out && h != last {
				x.export(ctx, h)
				last = h
			}
		}
		select {
		case <-look.C:
		case <-ctx.Done():
			// A database that is away now must not hold up the end of the server, hence a deadline of its own.
			end, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTime)
			defer cancel()
			if h, err := x.head(end); err == nil && h != last {
				x.export(end, h)
			}
			return nil
		}
	}
}

// head is where the chain ends now; the zero Head while it is empty.
func (x *Exporter) head(ctx context.Context) (Head, error) {
	e, err := x.Store.AuditHead(ctx, store.System())
	if errors.Is(err, store.ErrNotFound) {
		return Head{}, nil
	}
	return Head{e.Seq, e.Hash}, err
}

// export gives one head to all who want it. What fails is logged: the next hour has another.
func (x *Exporter) export(ctx context.Context, h Head) {
	x.Log.Info("audit head", slog.Int64("seq", h.Seq), slog.String("hash", h.Hash))
	if x.File != "" {
		if err := appendHead(x.File, h, time.Now()); err != nil {
			x.Log.Warn("the head of the audit is not in its file", slog.Any("error", err))
		}
	}
	if x.Rows == nil || h.Seq == 0 {
		return
	}
	rows := x.Rows(h, time.Now())
	if len(rows) == 0 {
		return
	}
	err := x.Store.InTx(ctx, func(tx store.Tx) error {
		for _, row := range rows {
			if err := tx.InsertOutbox(ctx, row); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		x.Log.Warn("no webhook tells of the head of the audit", slog.Any("error", err))
		return
	}
	if x.Kick != nil {
		x.Kick()
	}
}

// appendHead adds one line. The file is opened for each, so that it may be moved away while the server runs.
func appendHead(path string, h Head, now time.Time) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(f, "%s %d:%s\n", now.UTC().Format(time.RFC3339), h.Seq, h.Hash)
	return errors.Join(err, f.Close())
}

// ReadHeads reads the file of an Exporter; none, where there is no such file. A last line that a crash cut is left out.
func ReadHeads(path string) (heads []Head, err error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close() // a read loses nothing when it is closed
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		_, head, _ := strings.Cut(lines.Text(), " ")
		h, err := ParseHead(head)
		if err == nil && (len(h.Hash) == hashLength || h.Seq == 0) {
			heads = append(heads, h)
		}
	}
	return heads, lines.Err()
}

// hashLength is the length of a whole hash.
const hashLength = 64

// ParseHead reads a head as SEQ:HASH.
func ParseHead(text string) (Head, error) {
	seq, hash, ok := strings.Cut(text, ":")
	n, err := strconv.ParseInt(seq, 10, 64)
	if !ok || err != nil || n < 0 || n > 0 && hash == "" {
		return Head{}, fmt.Errorf("%q is not SEQ:HASH as audit verify prints it", text)
	}
	return Head{Seq: n, Hash: hash}, nil
}

// String is the form of ParseHead.
func (h Head) String() string { return strconv.FormatInt(h.Seq, 10) + ":" + h.Hash }

// Begin writes that entries have MACs of a key from here on, if the chain has no such entry yet. The store makes them.
func Begin(ctx context.Context, st store.Store, key store.AuditKey) error {
	if key.ID() == "" {
		return nil
	}
	return st.InTx(ctx, func(tx store.Tx) error {
		_, err := tx.AuditKeyBegun(ctx, store.System(), key.ID())
		if !errors.Is(err, store.ErrNotFound) {
			return err
		}
		return Append(ctx, tx, Nobody(AllTenants), KeyBegun, Subject{store.SubjectAuditKey, key.ID()}, nil)
	})
}
