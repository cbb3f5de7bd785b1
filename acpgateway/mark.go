package acpgateway

import (
	"bytes"
	"encoding/base64"
	"net/url"
	"strconv"
	"strings"

	"aqueduct/acpgateway/translate"
	"aqueduct/bridge/redact"
)

// mark is a position of the upstream's words: the proxy's epoch and number, and the frame's
// place among all that came to this process; and what is open there.
//
// As text it is "epoch:seq:at:turn.snapshot", with "instance|" before it for an agent beside the thread's own. The
// engine keeps it with the last event of each commit and gives the newest back to the Turn that is taken up.
type mark struct {
	epoch string
	seq   int64
	at    int64
	turn  string // whose snapshot it is; "" when nothing is open
	open  string // what the translator has open, encoded; markLost when that was too much
	of    string // the instance whose words they are, where it is not the Session's own agent's
}

// markLost stands for a snapshot that would be too long, or would keep a secret. The Turn that is taken up there begins
// what it goes on with once more, under other ids.
const markLost = "!"

func (m mark) String() string {
	b := make([]byte, 0, 64+len(m.open)+len(m.of))
	if m.of != "" {
		b = append(append(b, m.of...), '|')
	}
	b = append(append(b, url.QueryEscape(m.epoch)...), ':')
	b = append(strconv.AppendInt(b, m.seq, 10), ':')
	b = append(strconv.AppendInt(b, m.at, 10), ':')
	if m.open != "" {
		b = append(append(append(b, m.turn...), '.'), m.open...)
	}
	return string(b)
}

func parseMark(text string) (m mark) {
	if of, rest, found := strings.Cut(text, "|"); found {
		m.of, text = of, rest
	}
	parts := strings.SplitN(text, ":", 4)
	if len(parts) < 3 {
		return mark{}
	}
	m.epoch, _ = url.QueryUnescape(parts[0])      // it was escaped by us, or has nothing to unescape
	m.seq, _ = strconv.ParseInt(parts[1], 10, 64) // 0 is none
	m.at, _ = strconv.ParseInt(parts[2], 10, 64)
	if len(parts) == 3 { // of a version that did not say what is open
		m.open = markLost
		return m
	}
	m.turn, m.open, _ = strings.Cut(parts[3], ".")
	return m
}

// covers reports that the log has a frame already, from before a restart: the proxy sends again what was not acknowledged.
func (m mark) covers(f frame, epoch string) bool {
	return f.seq > 0 && f.seq <= m.seq && m.epoch == epoch
}

// markOwner is the member "of" in a channel's marks.
func markOwner(c *channel) string {
	if c.id == c.owner {
		return ""
	}
	return c.id
}

// parseMarkOf reads a mark of a channel. The newest of a Session may belong to another agent that is addressed in it:
// then nothing of this agent's was committed in the Turn that is resumed.
func parseMarkOf(c *channel, text string) mark {
	if m := parseMark(text); m.of == markOwner(c) {
		return m
	}
	return mark{}
}

// opened completes a mark with what a translator has open. That holds the agent's words, such as titles of open calls, and
// no reader of rows masks a mark: one with a secret in it is not kept.
func (m mark) opened(turn string, tr *translate.Translator, secrets *redact.Filter) mark {
	raw, ok := tr.Snapshot(nil)
	switch {
	case !ok, !bytes.Equal(secrets.Bytes(raw), raw):
		m.turn, m.open = turn, markLost
	case len(raw) > 0:
		m.turn, m.open = turn, base64.RawURLEncoding.EncodeToString(raw)
	}
	return m
}

// resumes is the snapshot for a Turn that is taken up at the mark. What another Turn had open
// has ended with it. What cannot be read, no translator takes.
// The snapshot of an unknown form is handed on as it is: the translator refuses it and begins anew.
func (m mark) resumes(turn string) []byte {
	if m.open == "" || m.turn != "" && m.turn != turn {
		return nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(m.open)
	if err != nil {
		return []byte(m.open)
	}
	return raw
}
