// Package trace makes the Records of the platform contract's events (§9.1): what happened in a Turn beside its log. Each
// is kept in the commit of what it describes. The package also reads and makes W3C trace contexts.
//
// It knows the payloads' forms and nothing of when they are kept: the room that changes a row makes the Record and
// commits both. Package reader joins the Records with the log. What a payload shows is final, so a member that is added
// later is missing in older Records for good.
package trace
