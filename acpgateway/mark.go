package acpgateway

import (
	"bytes"
	"encoding/base64"
	"net/url"
	"strconv"
	"strings"

	"aqueduct/bridge/fromacp"
	"aqueduct/bridge/redact"
)

// mark is a position of the upstream's words: the proxy's epoch and number, and the frame's
// place among all that came to this process; and what is open there.
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

// markOwner is the of of a tunnel's marks.
func (t *tunnel) markOwner() string {
	if t.id == t.owner {
		return ""
	}
	return t.id
}

// parseMark reads a mark of this tunnel's. The newest of a Session may be of another agent that is addressed in it: then
// nothing of this one's has been kept in the Turn that is taken up.
func (t *tunnel) parseMark(text string) mark {
	if m := parseMark(text); m.of == t.markOwner() {
		return m
	}
	return mark{}
}

// opened completes a mark with what a translator has open. That holds the agent's words, such as titles of open calls, and
// no reader of rows masks a mark: one with a secret in it is not kept.
func (m mark) opened(turn string, tr *fromacp.Translator, secrets *redact.Filter) mark {
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
