package main

import (
	"bufio"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"

	"aqueduct/acpgateway/proxy"
	"aqueduct/store"
)

// With --auth none a request without a token is the operator's, so an agent would only have to leave its token out to decide
// about itself. Where agents have a user of their own, the kernel says whose a connection is.

// withoutAgents refuses requests of agents that do not show a run token, where nobody needs a token.
func (s *serveCmd) withoutAgents(next http.Handler, log *slog.Logger) (http.Handler, error) {
	if s.Auth != "none" || len(s.ACP.ACP) == 0 {
		return next, nil
	}
	if s.ACP.Confine.ACPUser == "" {
		log.Warn("--auth none with --acp: an agent that leaves its token out may approve its own commands; use --auth token, or --acp-user as root")
		return next, nil
	}
	user, err := proxy.LookupUser(s.ACP.Confine.ACPUser)
	if err != nil {
		return nil, fmt.Errorf("--acp-user: %w", err)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token := strings.TrimSpace(strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "))
		if !strings.HasPrefix(token, store.RunTokenPrefix) { // one is judged by its own routes, and opens no other
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

// peerUID is whose socket the other end of a loopback connection is. Whoever cannot be found is in another network
// namespace, as through a container's published port.
func peerUID(r *http.Request) (uint32, error) {
	local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if !ok {
		return 0, errors.New("no address")
	}
	_, theirs, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return 0, err
	}
	_, ours, err := net.SplitHostPort(local.String())
	if err != nil {
		return 0, err
	}
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		if uid, err := uidOf(table, theirs, ours); err == nil {
			return uid, nil
		}
	}
	return 0, errors.New("not a socket of this machine")
}

// uidOf finds the owner of the socket that has these ports in a table of the kernel's: the columns are number, local and
// remote address in hexadecimal, state, queues, timers, retransmissions, uid.
func uidOf(table, local, remote string) (uint32, error) {
	file, err := os.Open(table)
	if err != nil {
		return 0, err
	}
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		f := strings.Fields(lines.Text())
		if len(f) < 8 || portOf(f[1]) != local || portOf(f[2]) != remote {
			continue
		}
		uid, err := strconv.ParseUint(f[7], 10, 32)
		return uint32(uid), err
	}
	return 0, os.ErrNotExist
}

// portOf is the port of an address in the kernel's form, in decimal.
func portOf(address string) string {
	_, hex, _ := strings.Cut(address, ":")
	port, err := strconv.ParseUint(hex, 16, 16)
	if err != nil {
		return ""
	}
	return strconv.FormatUint(port, 10)
}
