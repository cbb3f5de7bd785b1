// Package tdesign speaks to TDesign Chat (protocol "agui"), whose engine knows
// the AG-UI of 2025 and a few things of its own. [New] turns a log of AG-UI 1.0
// into the frames that engine shows rightly, [DecodeBody] reads what its pages
// post. docs/protocol.md lists what differs and why.
package tdesign
