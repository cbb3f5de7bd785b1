// Package fromacp turns what ACP agents and their proxies send into AG-UI events. It is
// pure: no clock, no I/O, no context, and the same frames give the same events with the
// same ids, which stand for the agent's own. Those never reach the log.
//
// A [Translator] belongs to a Session and is keyed by ids, not by prompts: an update may
// come before a prompt, after it, or while nobody listens.
package fromacp
