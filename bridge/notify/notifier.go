// Package notify sends signed webhooks when a Question opens, is settled or expires. The row of a notice is written to the
// outbox in the commit that changes the Question; a worker on every replica sends what is due, at least once.
//
// The way of a notice: Rows makes it (row.go), the caller commits it and calls Kick, Run claims it when it is due and
// sends it (deliver.go, send.go). The same worker sends rows of other kinds, each made into a Delivery by its own Address:
// the audit's heads here, callbacks of channels elsewhere. A message reports that a Question is there and what it is
// about; it never holds an argument's value. What a decision link does, and who may use it, server/decide knows; here
// is only the record of those that were used.
package notify

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"time"

	"aqueduct/internal/wake"
	"aqueduct/store"
)

// Delivery is a message of the outbox, ready to be signed and sent.
type Delivery struct {
	URL    string
	Secret Secret
	Body   []byte // JSON
	TurnID string // whose trace the delivery is part of; "" when it is of none
}

// Address makes a Delivery of an outbox row when it is sent, not when it is written: secrets
// and links are not kept. An error means it never can be.
type Address func(i store.OutboxItem) (Delivery, error)

// Config is what a Notifier needs.
type Config struct {
	Targets []Target
	Store   store.Store
	// Client calls the targets. It is outbound's, without redirects, which could carry a notice to another host.
	Client *http.Client
	// Link returns the token of a link to a decision; nil puts no links into the messages.
	Link func(Link) string
	// BaseURL is where people reach this server.
	BaseURL string
	// Others are outbox rows of other kinds, sent in the same way.
	Others map[string]Address
	Logger *slog.Logger
	// Observe counts deliveries: sent, failed or gave_up. Nil counts nothing.
	Observe func(outcome string)
	// Poll is how often the outbox is read without a Kick; 2 s.
	Poll time.Duration
	// Now and Jitter (0 to 1) are the clock and the chance; nil are the real ones.
	Now    func() time.Time
	Jitter func() float64
}

// Link is what a signed link to a decision is bound to.
type Link struct {
	RowID      string // of the outbox row that carries it: every try of a delivery carries the same link
	ApprovalID string
	Tenant     string
	User       string // the approver
	ArgsSHA256 string
	ExpiresAt  time.Time
}

// Notifier writes rows and sends them. A nil one writes none.
type Notifier struct {
	cfg     Config
	targets map[string]Target  // by name
	kinds   map[string]Address // of every kind that this worker sends
	kick    wake.Signal

	mu     sync.Mutex
	flying map[store.OutboxLane]map[string]bool // the ids of deliveries under way
	landed func(i store.OutboxItem)             // OnLanded
}

// OnLanded sets the function that gets each delivery of which a try has ended, well or not. It must be set before Run, and
// be quick. A nil Notifier never calls it.
func (n *Notifier) OnLanded(landed func(i store.OutboxItem)) {
	if n != nil {
		n.landed = landed
	}
}

// New checks the targets. A name stands for one target only, because rows that wait keep nothing else of it.
func New(cfg Config) (*Notifier, error) {
	n := &Notifier{cfg: cfg, targets: make(map[string]Target), kick: wake.New(), flying: make(map[store.OutboxLane]map[string]bool)}
	for _, t := range cfg.Targets {
		if err := t.check(); err != nil {
			return nil, err
		}
		if _, twice := n.targets[t.Name]; twice {
			return nil, fmt.Errorf("notify: two targets are named %q", t.Name)
		}
		n.targets[t.Name] = t
	}
	if cfg.Link != nil && !strings.HasPrefix(cfg.BaseURL, "http://") && !strings.HasPrefix(cfg.BaseURL, "https://") {
		return nil, errors.New("notify: links need the address under which people reach this server")
	}
	n.cfg.BaseURL = strings.TrimRight(cfg.BaseURL, "/")
	n.kinds = map[string]Address{kindQuestion: n.address, kindHead: n.headDelivery, kindPolicy: n.policyDelivery}
	maps.Copy(n.kinds, cfg.Others)
	n.defaults()
	return n, nil
}

func (n *Notifier) defaults() {
	if n.cfg.Now == nil {
		n.cfg.Now = time.Now
	}
	if n.cfg.Jitter == nil {
		n.cfg.Jitter = rand.Float64
	}
	n.cfg.Poll = cmp.Or(n.cfg.Poll, 2*time.Second)
	n.cfg.Logger = cmp.Or(n.cfg.Logger, slog.New(slog.DiscardHandler))
	if n.cfg.Observe == nil {
		n.cfg.Observe = func(string) {}
	}
}

// Kick has the outbox read now, because a row was committed.
func (n *Notifier) Kick() {
	if n != nil {
		n.kick.Ring()
	}
}

// Run sends until ctx ends, and waits for what is under way. A delivery that ctx interrupts gives its row back first
// (deliver), so that another replica has it at once and not when the claim runs out.
func (n *Notifier) Run(ctx context.Context) error {
	var sending sync.WaitGroup
	defer sending.Wait()
	var swept time.Time // zero: a sweep is the first thing done
	for {
		if err := n.round(ctx, &sending); err != nil && ctx.Err() == nil {
			n.cfg.Logger.Warn("the outbox cannot be read", slog.Any("error", err))
		}
		if now := n.cfg.Now(); now.Sub(swept) > sweepEvery && n.sweep(ctx, now) {
			swept = now
		}
		select {
		case <-ctx.Done():
			return nil
		case <-n.kick:
		case <-time.After(n.cfg.Poll):
		}
	}
}

const (
	sweepEvery = time.Hour
	// keepUsed is how long a used link is remembered after it expired. An expired link is refused anyway; the margin covers
	// replicas whose clocks differ.
	keepUsed = 24 * time.Hour
	// keepSent is how long a delivery can be looked up after it was sent, or, of one that was
	// given up, after it was made: a weekend and the days after it.
	keepSent = 7 * 24 * time.Hour
	// sweepMost bounds what one transaction deletes; it holds up those that write.
	sweepMost = 1000
)

// sweep forgets used links that are refused for their age anyway, and deliveries of long ago.
// It is false when there are more of those; the next round then goes on. After an error it is true, and an hour passes.
func (n *Notifier) sweep(ctx context.Context, now time.Time) bool {
	var dropped int64
	err := n.cfg.Store.InTx(ctx, func(tx store.Tx) (err error) {
		if dropped, err = tx.DropOutbox(ctx, now.Add(-keepSent), store.NeverDue(), sweepMost); err != nil {
			return err
		}
		return tx.DropUsedLinks(ctx, now.Add(-keepUsed))
	})
	if err != nil && ctx.Err() == nil {
		n.cfg.Logger.Warn("what is over was not swept", slog.Any("error", err))
	}
	return dropped < sweepMost
}
