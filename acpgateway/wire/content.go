package wire

import (
	"bytes"
	"encoding/json"

	"aqueduct/internal/jsontext"
)

// The types of a content block (ACP, "Content").
const (
	BlockText         = "text"
	BlockImage        = "image"
	BlockAudio        = "audio"
	BlockResourceLink = "resource_link"
	BlockResource     = "resource"
)

// Block is one content block: of a message, of a prompt, of a tool's content. Which
// members mean something depends on Type. As JSON it is what a prompt wants.
type Block struct {
	Type     string    `json:"type"`
	Text     string    `json:"text,omitempty"`
	Data     string    `json:"data,omitempty"` // base64
	MimeType string    `json:"mimeType,omitempty"`
	URI      string    `json:"uri,omitempty"`
	Name     string    `json:"name,omitempty"`
	Resource *Resource `json:"resource,omitempty"`

	Raw json.RawMessage `json:"-"` // as it came
}

// Resource is what an embedded resource holds: text, or a blob in base64.
type Resource struct {
	URI      string `json:"uri"`
	MimeType string `json:"mimeType,omitempty"`
	Text     string `json:"text,omitempty"`
	Blob     string `json:"blob,omitempty"`
}

// MarshalJSON gives text its text even when that is empty: it is a required member.
func (b Block) MarshalJSON() ([]byte, error) {
	if b.Type == BlockText {
		return json.Marshal(struct {
			Type string `json:"type"`
			Text string `json:"text"`
		}{b.Type, b.Text})
	}
	type plain Block
	return json.Marshal(plain(b))
}

// UnmarshalJSON reads tolerantly.
func (b *Block) UnmarshalJSON(raw []byte) error {
	*b = ReadBlock(bytes.Clone(raw))
	return nil
}

// UnmarshalJSON reads tolerantly.
func (r *Resource) UnmarshalJSON(raw []byte) error {
	var wire struct{ URI, MimeType, Text, Blob lax[string] }
	if err := json.Unmarshal(raw, &wire); err != nil {
		return err
	}
	*r = Resource{URI: wire.URI.Val, MimeType: wire.MimeType.Val, Text: wire.Text.Val, Blob: wire.Blob.Val}
	return nil
}

// ReadBlock reads a content block. It does not fail; the type of what is none is "".
func ReadBlock(raw json.RawMessage) Block {
	var wire struct {
		Type     lax[string]            `json:"type"`
		Text     lax[jsontext.Fragment] `json:"text"`
		Data     lax[string]            `json:"data"`
		MimeType lax[string]            `json:"mimeType"`
		URI      lax[string]            `json:"uri"`
		Name     lax[string]            `json:"name"`
		Resource lax[Resource]          `json:"resource"`
	}
	b := Block{Raw: raw}
	if len(raw) == 0 || json.Unmarshal(raw, &wire) != nil {
		return b
	}
	b.Type, b.Text, b.Data = wire.Type.Val, string(wire.Text.Val), wire.Data.Val
	b.MimeType, b.URI, b.Name = wire.MimeType.Val, wire.URI.Val, wire.Name.Val
	if wire.Resource.Set {
		b.Resource = &wire.Resource.Val
	}
	return b
}

// Words is a block's text: its own, or its resource's.
func (b Block) Words() string {
	switch {
	case b.Type == BlockText:
		return b.Text
	case b.Type == BlockResource && b.Resource != nil:
		return b.Resource.Text
	}
	return ""
}
