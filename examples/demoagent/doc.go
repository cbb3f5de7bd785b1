// Package demoagent is an ordinary HTTP agent that speaks Aqueduct's invoke protocol:
// POST /invoke in, Server-Sent Events out. The first word of a prompt picks what it shows,
// so that every event, question and failure can be had on demand, without a model.
//
// It keeps nothing in memory between two calls. What it needs to go on after a question is
// in the body it is called with, which is why it may be restarted in between.
package demoagent
