// Who is at the other end of a loopback connection, for serve --auth none: the kernel's tables have the owner of each
// socket. It is for Linux, as /proc is.

package main

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strconv"
	"strings"

	"aqueduct/internal/child"
	"aqueduct/store"
)

// With --auth none a request without a token is the operator's, so an agent would only have to leave its token out to decide
// about itself. Where agents have a user of their own, the kernel names the owner of a connection.

// withoutAgents refuses requests of agents that do not show a run token. It is for a server whose other callers need no
// token. Without --acp-user there is no user to recognize agents by, and a warning is all that can be done.
func (f *acpFlags) withoutAgents(next http.Handler, log *slog.Logger) (http.Handler, error) {
	if len(f.ACP) == 0 {
		return next, nil
	}
	if f.Confine.ACPUser == "" {
		log.Warn("--auth none with --acp: an agent that leaves its token out may approve its own commands; use --auth token, or --acp-user as root")
		return next, nil
	}
	user, err := child.LookupUser(f.Confine.ACPUser)
	if err != nil {
		return nil, fmt.Errorf("--acp-user: %w", err)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token := strings.TrimSpace(strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "))
		if !strings.HasPrefix(token, store.RunTokenPrefix) { // one is judged by its own routes, and opens no other
			// What cannot be attributed is refused as well, or an agent would only have to hide its socket.
			if uid, err := peerUID(r); err != nil || uid == user.UID {
				w.Header().Set("Content-Type", "application/problem+json")
				w.Header().Set("Connection", "close")
				w.WriteHeader(http.StatusUnauthorized)
				_, _ = w.Write([]byte(`{"title":"A token is needed, or the one given is not good.","status":401,"code":"unauthorized"}`)) // it may have left
				return
			}
		}
		next.ServeHTTP(w, r)
	}), nil
}

// peerUID is whose socket the other end of a loopback connection is. An end that cannot be found is in another
// network namespace, as through a container's published port. Both tables are searched, because a connection to an
// IPv4 address may stand in either.
func peerUID(r *http.Request) (uint32, error) {
	local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if !ok {
		return 0, errors.New("no address")
	}
	theirs, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return 0, err
	}
	ours, err := netip.ParseAddrPort(local.String())
	if err != nil {
		return 0, err
	}
	// The row is that of the other end's socket, whose local address is the one that we see as remote.
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		if uid, err := uidOf(table, theirs, ours); err == nil {
			return uid, nil
		}
	}
	return 0, errors.New("not an open socket of this machine")
}

// uidOf finds the owner of the socket between two addresses in a table of the kernel's: the columns are number, local and
// remote address in hexadecimal, state, queues, timers, retransmissions, uid, timeout, inode.
//
// Addresses are compared whole: all of 127.0.0.0/8 is this machine, so an agent can choose the ports of another process's
// connection. A socket that no process holds any more has inode 0 and uid 0, whatever its owner was: an agent that closes behind
// its request would pass for root.
func uidOf(table string, local, remote netip.AddrPort) (uint32, error) {
	file, err := os.Open(table)
	if err != nil {
		return 0, err
	}
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		f := strings.Fields(lines.Text())
		if len(f) < 10 || !sameAddress(f[1], local) || !sameAddress(f[2], remote) {
			continue
		}
		if f[9] == "0" {
			return 0, errors.New("nobody holds the socket any more")
		}
		uid, err := strconv.ParseUint(f[7], 10, 32)
		return uint32(uid), err
	}
	return 0, os.ErrNotExist
}

// sameAddress compares an address in the kernel's form: words of 32 bits as this machine keeps them, and the port.
// The kernel prints each word in the byte order of the machine, so the words are turned before they are compared.
func sameAddress(text string, want netip.AddrPort) bool {
	host, port, _ := strings.Cut(text, ":")
	number, err := strconv.ParseUint(port, 16, 16)
	if err != nil || uint16(number) != want.Port() {
		return false
	}
	raw, err := hex.DecodeString(host)
	if err != nil || len(raw)%4 != 0 {
		return false
	}
	for at := 0; at < len(raw); at += 4 {
		binary.NativeEndian.PutUint32(raw[at:], binary.BigEndian.Uint32(raw[at:]))
	}
	addr, ok := netip.AddrFromSlice(raw)
	return ok && addr.Unmap() == want.Addr().Unmap().WithZone("")
}
