// Command demoagent serves the demo agent, for trying Aqueduct with an agent in a process
// of its own: aqueduct serve --agent demo=http://127.0.0.1:8090
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"aqueduct/examples/demoagent"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "demoagent:", err)
		os.Exit(1)
	}
}

// run serves until ctx ends, and a moment longer for answers that are under way.
func run(ctx context.Context, args []string) error {
	pace := demoagent.Default()
	flags := flag.NewFlagSet("demoagent", flag.ContinueOnError)
	listen := flags.String("listen", "127.0.0.1:8090", "address to listen on")
	flags.DurationVar(&pace.Pace, "pace", pace.Pace, "pause between two deltas")
	if err := flags.Parse(args); err != nil {
		return err
	}
	ln, err := net.Listen("tcp", *listen)
	if err != nil {
		return err
	}
	fmt.Println("demoagent listens on http://" + ln.Addr().String())
	srv := &http.Server{Handler: demoagent.New(pace), ReadHeaderTimeout: 5 * time.Second}
	stopped := make(chan error, 1)
	go func() {
		<-ctx.Done()
		grace, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		_ = srv.Shutdown(grace) // a stream that outlasts the grace is cut by Close
		stopped <- srv.Close()
	}()
	if err := srv.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return <-stopped
}
