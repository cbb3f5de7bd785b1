// Package notify tells others by webhook that a Question opened, was settled or expired.
// What is to be told is written in the same commit as what it tells about (store's
// outbox); a worker sends it, at least once.
package notify

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"time"

	"aqueduct/bridge/notify/link"
	"aqueduct/store"
)

// Letter is one delivery, ready to be signed and sent.
type Letter struct {
	URL    string
	Secret Secret
	Body   []byte // JSON
	TurnID string // whose trace the delivery is part of; "" when it is of none
}

// Address makes a Letter of an outbox row when it is sent, not when it is written: secrets
// and links are not kept. An error means it never can be.
type Address func(i store.OutboxItem) (Letter, error)

// Config is what a Notifier needs.
type Config struct {
	Targets []Target
	Store   store.Store
	// Client calls the targets; outbound's, without redirects: nobody else is to be told.
	Client *http.Client
	// Links signs links to decisions; nil puts none into the messages.
	Links *link.Signer
	// BaseURL is where people reach this server.
	BaseURL string
	// Others are outbox rows of other kinds, sent in the same way.
	Others map[string]Address
	Logger *slog.Logger
	// Observe counts deliveries: sent, failed or gave_up. Nil counts nothing.
	Observe func(outcome string)
	// Poll is how often the outbox is looked at when nobody Kicks; 2 s.
	Poll time.Duration
	// Now and Jitter (0 to 1) are the clock and the chance; nil are the real ones.
	Now    func() time.Time
	Jitter func() float64
}

// Notifier writes rows and sends them. A nil one writes none.
type Notifier struct {
	cfg     Config
	targets map[string]Target
	kinds   map[string]Address
	kick    chan struct{}

	mu     sync.Mutex
	flying map[string]int // deliveries under way, by kind and target
	total  int
}

// New checks the targets.
func New(cfg Config) (*Notifier, error) {
	n := &Notifier{cfg: cfg, targets: make(map[string]Target), kick: make(chan struct{}, 1), flying: make(map[string]int)}
	for _, t := range cfg.Targets {
		if err := t.check(); err != nil {
			return nil, err
		}
		if _, twice := n.targets[t.Name]; twice {
			return nil, fmt.Errorf("notify: two targets are named %q", t.Name)
		}
		n.targets[t.Name] = t
	}
	if cfg.Links != nil && !strings.HasPrefix(cfg.BaseURL, "http://") && !strings.HasPrefix(cfg.BaseURL, "https://") {
		return nil, errors.New("notify: links need the address under which people reach this server")
	}
	n.cfg.BaseURL = strings.TrimRight(cfg.BaseURL, "/")
	n.kinds = map[string]Address{kindQuestion: n.address, kindHead: n.headLetter}
	for kind, address := range cfg.Others {
		n.kinds[kind] = address
	}
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
	if n.cfg.Poll <= 0 {
		n.cfg.Poll = 2 * time.Second
	}
	if n.cfg.Observe == nil {
		n.cfg.Observe = func(string) {}
	}
	if n.cfg.Logger == nil {
		n.cfg.Logger = slog.New(slog.DiscardHandler)
	}
}

// Kick has the outbox looked at now: somebody committed a row.
func (n *Notifier) Kick() {
	if n == nil {
		return
	}
	select {
	case n.kick <- struct{}{}:
	default: // it will be looked at anyway
	}
}

// Run sends until ctx ends, and waits for what is under way.
func (n *Notifier) Run(ctx context.Context) error {
	var sending sync.WaitGroup
	defer sending.Wait()
	var swept time.Time
	for {
		if err := n.round(ctx, &sending); err != nil && ctx.Err() == nil {
			n.cfg.Logger.Warn("the outbox cannot be read", slog.Any("error", err))
		}
		if now := n.cfg.Now(); now.Sub(swept) > sweepEvery && n.sweep(ctx, now) {
			swept = now
		}
		timer := time.NewTimer(n.cfg.Poll)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-n.kick:
			timer.Stop()
		case <-timer.C:
		}
	}
}

const (
	sweepEvery = time.Hour
	// keepUsed is how long a used link is remembered after it expired: only replicas whose
	// clocks differ could tell.
	keepUsed = 24 * time.Hour
	// keepSent is how long a delivery can be looked up after it was sent, or, of one that was
	// given up, after it was made: a weekend and the days after it.
	keepSent = 7 * 24 * time.Hour
	// sweepMost bounds what one transaction deletes; it holds up those that write.
	sweepMost = 1000
)

// sweep forgets used links that are refused for their age anyway, and deliveries of long ago.
// It is false when there are more of those.
func (n *Notifier) sweep(ctx context.Context, now time.Time) bool {
	var dropped int64
	err := n.cfg.Store.InTx(ctx, func(tx store.Tx) (err error) {
		if dropped, err = tx.DropOutbox(ctx, now.Add(-keepSent), never(), sweepMost); err != nil {
			return err
		}
		return tx.DropUsedLinks(ctx, now.Add(-keepUsed))
	})
	if err != nil && ctx.Err() == nil {
		n.cfg.Logger.Warn("what is over was not swept", slog.Any("error", err))
	}
	return dropped < sweepMost
}
