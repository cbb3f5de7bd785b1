package bridge

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/google/uuid"

	"aqueduct/agui"
	"aqueduct/bridge/contextstore"
	"aqueduct/internal/fault"
	"aqueduct/store"
)

// RefusedAttachment: a message names an attachment that is not there.
const RefusedAttachment = "attachment_unknown"

// maxAttachments bounds how many attachments one message may bring: each is read and written while its sender waits.
const maxAttachments = 16

// contextPath is where the entries of the context store are served, and so attachments that no message has named yet.
const contextPath = "/v1/context/"

// AttachmentURL is the URL of an attachment. It has the hash of the bytes, where they may be known by it: a message that is
// sent again is recognized by that as the one that was kept.
func AttachmentURL(key, sum string) string {
	if sum == "" {
		return contextPath + key
	}
	return contextPath + key + "?sha256=" + sum
}

// attachmentOf reads the source of a part that was uploaded: its URL, of whatever host, or its id alone.
func attachmentOf(s *agui.Source) (key, sum string, ok bool) {
	switch s.Type {
	case agui.SourceFile:
		key = s.Value
	case agui.SourceURL:
		u, err := url.Parse(s.Value)
		if err != nil {
			return "", "", false
		}
		_, rest, found := strings.Cut(u.EscapedPath(), contextPath)
		if !found {
			return "", "", false
		}
		key, sum = rest, u.Query().Get("sha256")
	}
	_, err := uuid.Parse(key) // an id of a provider's is none of ours
	return key, sum, err == nil && len(key) == len(uuid.Nil.String())
}

// unattached is the error of a transaction that needs bytes which are not read yet: they are neither read nor written inside
// of one. Only a message that is new needs them, which the transaction alone knows.
type unattached struct {
	keys  []string            // of entries
	parts []store.MessagePart // of another thread of the user's, in blobs
}

// Error implements error.
func (u *unattached) Error() string {
	return fmt.Sprintf("bridge: %d attachments are not read yet", len(u.keys)+len(u.parts))
}

// attach reads what a message names, and writes the bytes for the thread. What is not there is refused where the message shows
// that it is ours; any other id is left as it is.
func (k *taking) attach(ctx context.Context, named *unattached) error {
	if len(named.keys) > maxAttachments {
		return fault.New(RefusedAttachment, fmt.Sprintf("A message may bring %d attachments.", maxAttachments))
	}
	if k.req.attached == nil {
		k.req.attached = make(map[string]*contextstore.Attachment)
	}
	entries := k.s.cfg.Contexts
	for _, part := range named.parts {
		a, err := entries.AttachPart(ctx, contextstore.Caller{Principal: k.req.Principal}, part)
		k.attachments = append(k.attachments, a)
		if err != nil {
			return err
		}
		k.req.attached[part.SHA256] = &a
	}
	for _, key := range named.keys {
		if _, twice := k.req.attached[key]; twice {
			continue
		}
		a, err := contextstore.Attachment{}, store.ErrNotFound
		if entries != nil {
			a, err = entries.Attach(ctx, contextstore.Caller{Principal: k.req.Principal}, key)
		}
		k.attachments = append(k.attachments, a)
		switch {
		case errors.Is(err, store.ErrNotFound) && k.names(key):
			return fault.New(RefusedAttachment, "The message names an attachment that is not there, or has expired: upload it again.")
		case errors.Is(err, store.ErrNotFound):
			k.req.attached[key] = nil
		case err != nil:
			return err
		default:
			k.req.attached[key] = &a
		}
	}
	return nil
}

// names reports whether a message names the attachment by its URL. An answer is never refused for one.
func (k *taking) names(key string) bool {
	for _, m := range k.req.Messages {
		for _, p := range m.Content.Parts {
			if p.Source != nil && p.Source.Type == agui.SourceURL && strings.Contains(p.Source.Value, contextPath+key) {
				return len(k.req.Answers) == 0
			}
		}
	}
	return false
}

// release gives up what was written for a message that was not kept, or for parts that the thread had.
func (k *taking) release(ctx context.Context) {
	if len(k.attachments) > 0 && k.s.cfg.Contexts != nil {
		k.s.cfg.Contexts.Release(ctx, k.attachments...)
	}
}
