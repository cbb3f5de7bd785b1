// Package translate turns what ACP agents and their proxies send into AG-UI events. It is
// pure: no clock, no I/O, no context, and the same frames give the same events with the
// same ids, which stand for the agent's own. Those never reach the log.
//
// A [Translator] belongs to a Session and is keyed by ids, not by prompts: an update may
// come before a prompt, after it, or while no client is connected.
//
// ACP and AG-UI differ in what they leave open. ACP has no end of a message, repeats calls until they are whole, and
// replays a session in frames like any others; AG-UI wants each message begun and ended once, and arguments that are
// never taken back; our log wants no id that an agent could be addressed by. What lies between is kept here, and a
// [Translator.Snapshot] of it stands beside the events in the log, so that another Translator can go on in mid-message.
//
// The package does not know who asked, what a policy decides or when a Turn ends; it emits Questions and Ends, and the
// gateway acts on them. Whatever an agent invents is passed on as CUSTOM, bounded and with our ids in it.
package translate
