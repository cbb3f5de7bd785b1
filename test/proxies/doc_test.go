// Package proxies_test puts real proxies in front of aqueduct, with the files of deploy/ and
// with their defaults, and looks whether streams, sockets and browsers get through.
package proxies_test
