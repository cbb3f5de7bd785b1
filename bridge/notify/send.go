package notify

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"aqueduct/bridge/outbound"
	"aqueduct/bridge/trace"
	"aqueduct/store"
)

// HeaderDelivery names the delivery: the same each time it is tried, so that a receiver can drop a repetition.
const HeaderDelivery = "X-Aqueduct-Delivery"

// outcome is what became of one try. Without ok and final it is tried again.
type outcome struct {
	ok     bool
	final  bool          // trying again is no use
	reason string        // never the target's own text: that may be anything
	after  time.Duration // how long the target wants to be left alone; below zero: it was not tried, and may be at once
}

// send makes one try. The signature is made for each, because it holds the time and expires at the receiver.
func (n *Notifier) send(ctx context.Context, i store.OutboxItem) outcome {
	delivery, err := n.kinds[i.Kind](i)
	if err != nil {
		return outcome{final: true, reason: err.Error()}
	}
	ctx, cancel := context.WithTimeout(ctx, sendTime)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, delivery.URL, bytes.NewReader(delivery.Body))
	if err != nil {
		return outcome{final: true, reason: "malformed_url"}
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "aqueduct")
	req.Header.Set(HeaderDelivery, i.ID)
	req.Header.Set(HeaderSignature, Sign(delivery.Secret, delivery.Body, n.cfg.Now()))
	n.setTrace(ctx, req.Header, delivery.TurnID)
	resp, err := n.cfg.Client.Do(req)
	if err != nil {
		n.cfg.Logger.Info("a delivery failed", slog.String("delivery", i.ID), slog.Any("error", err))
		return outcome{reason: outbound.Cause(err)}
	}
	defer resp.Body.Close()
	_, _ = io.CopyN(io.Discard, resp.Body, 4<<10) // so that the connection can be used again
	return judge(resp, n.cfg.Now())
}

// setTrace makes a delivery a span of its Turn's trace. Without it, it goes all the same.
func (n *Notifier) setTrace(ctx context.Context, h http.Header, turnID string) {
	if turnID == "" {
		return
	}
	turn, err := n.cfg.Store.Turn(ctx, store.System(), turnID)
	if err != nil {
		return
	}
	if c, ok := trace.Parse(turn.Traceparent, turn.Tracestate); ok {
		c.Child().SetHeaders(h)
	}
}

// judge reads the status alone. Every status but 2xx and 410 is tried again, 4xx too: a receiver that is misconfigured
// for an hour must not lose what came meanwhile.
func judge(resp *http.Response, now time.Time) outcome {
	said := outcome{reason: "HTTP " + strconv.Itoa(resp.StatusCode)}
	switch {
	case resp.StatusCode/100 == 2:
		said.ok = true
	case resp.StatusCode == http.StatusGone: // the receiver wants no more of them
		said.final = true
	case resp.StatusCode == http.StatusTooManyRequests, resp.StatusCode == http.StatusServiceUnavailable:
		said.after = retryAfter(resp.Header.Get("Retry-After"), now)
	}
	return said
}

// retryAfter reads both forms of the header (RFC 9110, 10.2.3). It is 0 for none; next bounds it.
func retryAfter(value string, now time.Time) time.Duration {
	if seconds, err := strconv.ParseUint(value, 10, 31); err == nil {
		return time.Duration(seconds) * time.Second
	}
	if at, err := http.ParseTime(value); err == nil {
		return max(0, at.Sub(now))
	}
	return 0
}
