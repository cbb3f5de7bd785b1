// A database that is reached by a UNIX socket: who may open the socket is asked for no password by many a PostgreSQL (peer,
// trust), and an agent that is let in there decides its own questions.

package main

import (
	"fmt"
	"log/slog"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"

	"aqueduct/internal/child"
	"aqueduct/internal/ownfile"
)

// sockets are the UNIX sockets by which a database is reached, by its URL, the environment and the defaults of its client.
func (d databaseFlag) sockets() (list []string) {
	if _, ok := d.file(); ok {
		return nil
	}
	cfg, err := pgx.ParseConfig(string(d))
	if err != nil {
		return nil // the database is not opened either
	}
	add := func(host string, port uint16) {
		if strings.HasPrefix(host, "/") {
			list = append(list, filepath.Join(host, ".s.PGSQL."+strconv.Itoa(int(port))))
		}
	}
	add(cfg.Host, cfg.Port)
	for _, next := range cfg.Fallbacks {
		add(next.Host, next.Port)
	}
	return list
}

// keepSocket refuses a database whose socket agents can open as the account that the server is: neither Landlock nor a mount
// keeps them from it. For agents of another account, and for unconfined ones, it logs that they can.
func (f *confineFlags) keepSocket(c *child.Confinement, db databaseFlag, log *slog.Logger) error {
	for _, socket := range db.sockets() {
		const out = "give the database a TCP address and a password (--database postgres://USER@127.0.0.1/NAME, PGPASSFILE)"
		switch {
		case c != nil && c.User == nil:
			return fmt.Errorf("--database: agents run as this account and could open the database by %s, without a password where PostgreSQL knows accounts by it (peer, trust): %s, or run agents as another account by --acp-user", socket, out)
		case c == nil || opens(c.User, socket):
			log.Warn("agents can open the socket of the database: its pg_hba.conf alone keeps them from it; "+out, slog.String("socket", socket))
		}
	}
	return nil
}

// opens reports whether an account can connect to a socket. One that cannot be looked at counts as one that it can.
func opens(user *child.User, socket string) bool {
	steps, err := ownfile.Steps(socket)
	if err != nil {
		return true
	}
	account := ownfile.Account{UID: user.UID, Groups: append([]uint32{user.GID}, user.Groups...)}
	for _, step := range steps {
		if step.Info != nil && !account.May(step.Info) {
			return false
		}
	}
	return true
}
