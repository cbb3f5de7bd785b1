// This file puts pictures into what the model is sent. The transcript names large parts of messages by URLs of this
// server, which the model's server can neither reach nor open.

package assistant

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"regexp"
	"strings"

	"aqueduct/internal/fault"
)

// maxConversation bounds the bytes of a conversation to which pictures are added, of the newest messages first: OpenAI's API takes
// 50 MB in a request, others less.
const maxConversation = 44 << 20

// tooManyPictures stands for a picture for which there is no room, and noPicture for one that is not there any more.
const (
	tooManyPictures = "[A picture was left out here: the conversation has too many bytes of pictures.]"
	noPicture       = "[A picture was left out here: it could not be read.]"
)

// contentPart is a part of a message's content; only pictures are looked into.
type contentPart struct {
	Type     string   `json:"type"`
	Text     string   `json:"text,omitempty"`
	ImageURL *address `json:"image_url,omitempty"`
}

type address struct {
	URL string `json:"url"`
}

// pictures gives messages the bytes of the pictures that they name by URLs of this server: what is large comes so, and opens by
// the run token alone, which the model's server has not got.
type pictures struct {
	platform platform
	path     *regexp.Regexp         // of a part, behind whatever host
	room     int                    // how many bytes may be added, as base64
	read     map[string]contentPart // by path: what stands for a picture that several messages have, read once
}

func newPictures(p platform, messages []json.RawMessage) *pictures {
	room := maxConversation
	for _, m := range messages {
		room -= len(m)
	}
	return &pictures{p, regexp.MustCompile(`^(?:https?://[^/]+)?(/api/threads/[^/?#]+/parts/[0-9a-f]{64})$`), room, make(map[string]contentPart)}
}

// inline returns the messages with the bytes, the newest first as far as there is room.
func (p *pictures) inline(ctx context.Context, messages []json.RawMessage) error {
	for i := len(messages) - 1; i >= 0; i-- {
		if !strings.Contains(string(messages[i]), "/parts/") {
			continue
		}
		var m map[string]json.RawMessage
		var content []json.RawMessage
		if json.Unmarshal(messages[i], &m) != nil || json.Unmarshal(m["content"], &content) != nil {
			continue // a text
		}
		for j, raw := range content {
			var part contentPart
			if json.Unmarshal(raw, &part) != nil || part.ImageURL == nil {
				continue
			}
			if path := p.path.FindStringSubmatch(part.ImageURL.URL); path != nil {
				part, err := p.load(ctx, path[1])
				if err != nil {
					return err
				}
				content[j] = encoded(part)
			}
		}
		m["content"] = encoded(content)
		messages[i] = encoded(m)
	}
	return nil
}

// load is a picture as a part with its bytes, or a text in its place. A server that cannot be reached is an error.
func (p *pictures) load(ctx context.Context, path string) (contentPart, error) {
	part, known := p.read[path]
	if !known {
		data, kind, err := p.platform.picture(ctx, path, base64.StdEncoding.DecodedLen(max(p.room, 0)))
		switch _, refused := errors.AsType[*fault.Error](err); {
		case refused:
			part = contentPart{Type: "text", Text: noPicture}
		case err != nil:
			return part, err
		case data != nil:
			part = contentPart{Type: "image_url", ImageURL: &address{"data:" + kind + ";base64," + base64.StdEncoding.EncodeToString(data)}}
		default:
			part = contentPart{Type: "text", Text: tooManyPictures}
		}
		p.read[path] = part
	}
	if part.ImageURL == nil {
		return part, nil
	}
	if len(part.ImageURL.URL) > p.room {
		return contentPart{Type: "text", Text: tooManyPictures}, nil
	}
	p.room -= len(part.ImageURL.URL)
	return part, nil
}

// picture reads a part of the thread; nil where it has more bytes than that.
func (p platform) picture(ctx context.Context, path string, most int) (data []byte, kind string, err error) {
	resp, err := p.get(ctx, http.MethodGet, path, nil)
	if err != nil {
		return nil, "", err
	}
	defer resp.Body.Close()
	if data, err = io.ReadAll(io.LimitReader(resp.Body, int64(most)+1)); err != nil || len(data) > most {
		return nil, "", err
	}
	if kind, _, err = mime.ParseMediaType(resp.Header.Get("Content-Type")); err != nil {
		return nil, "", fault.New(codeModel, fmt.Sprintf("The picture's type cannot be read: %v.", err))
	}
	return data, kind, nil
}
