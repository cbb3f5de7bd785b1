// Package livefeed publishes hints about what happens now to pages that watch. It is lossy: a slow or late watcher misses
// hints, and none is kept. The log is the truth.
//
// A hint goes through two queues, each bounded by number and bytes: one of the Hub, which publishers put into without
// ever waiting, and one of each watcher. In between Run finds out whose Session the hint is of and who may see it. The
// room knows the frames' shapes and nothing of sockets, and a Hub is one replica's.
package livefeed
