// Package seqlink makes a connection that may be cut into a link that loses and duplicates
// nothing. Frames are numbered by run, kept until they are acknowledged, sent again on the next
// connection, and handed out in order, once. Both ends use it, after both have offered it: Outbox
// is the sending end, Inbox the receiving one. It knows frames only as bytes and a number.
package seqlink
