package outbound

import "syscall"

// Control is what judges a socket for calls to name at port.
func (g *Gate) Control(name string, port uint16) func(string, string, syscall.RawConn) error {
	return (&dialer{gate: g}).control(target{name: name, port: port})
}
