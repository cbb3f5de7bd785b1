// aqueduct doctor: examines any AG-UI endpoint from outside and prints what it found.

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"aqueduct/agui/doctor"
	"aqueduct/agui/doctor/recorder"
	"aqueduct/internal/secretfile"
	"aqueduct/server/auth"
)

// doctorCmd asks an endpoint for one run. It exits with 0 when nothing was found, 1 with findings, and 2 when the
// endpoint could not be examined.
type doctorCmd struct {
	URL       string        `arg:"" help:"The endpoint, as a client is given it."`
	Prompt    string        `default:"Say hello in one short sentence." help:"What is asked; one run is made of it."`
	TokenFile string        `help:"File that holds a bearer token for the endpoint. Without it, an endpoint of the server that runs on the state folder gets that server's token." placeholder:"FILE"`
	Header    []string      `help:"A header of every request, such as 'X-Api-Key: …'; repeatable. Other users of this machine can read it: a credential is better in --token-file." placeholder:"HEADER" sep:"none"`
	Origin    string        `help:"Origin whose pages are to be let in, such as https://app.example.com; without it only what is let in by mistake is looked for." placeholder:"ORIGIN"`
	Old       bool          `help:"Ask as a client from before AG-UI 1.0, without protocolVersion."`
	Resume    bool          `help:"Send the input a second time, with Last-Event-ID. That may be a second run."`
	Patience  time.Duration `default:"2m" help:"How long the run may take."`
	JSON      bool          `name:"json" help:"Print the report as JSON."`
	Insecure  bool          `help:"Let an endpoint on another machine be called by http://."`
	Files     stateFlags    `embed:""`
}

// The exit codes.
const (
	exitFindings  = 1
	exitUnchecked = 2
)

// exitError ends the program with a code of its own.
type exitError struct {
	code int
	err  error
}

// Error implements error.
func (e *exitError) Error() string { return e.err.Error() }

// Unwrap gives the reason.
func (e *exitError) Unwrap() error { return e.err }

// Run implements the command.
func (c *doctorCmd) Run(ctx context.Context, to output) error {
	report, err := c.examine(ctx)
	if err != nil {
		return &exitError{exitUnchecked, fmt.Errorf("%s could not be examined: %w", c.URL, err)}
	}
	if err := c.print(to.out, report); err != nil {
		return err
	}
	switch {
	case len(report.Findings) > 0:
		return &exitError{exitFindings, fmt.Errorf("%d findings", len(report.Findings))}
	case !report.Complete:
		return &exitError{exitUnchecked, errors.New("the run did not end in time, see --patience")}
	}
	return nil
}

// examine asks the endpoint and judges what came.
func (c *doctorCmd) examine(ctx context.Context) (doctor.Report, error) {
	if err := checkFar("the endpoint", c.URL, c.Insecure); err != nil {
		return doctor.Report{}, err
	}
	header := make(http.Header)
	for _, h := range c.Header {
		name, value, ok := strings.Cut(h, ":")
		if !ok {
			return doctor.Report{}, fmt.Errorf("--header %q: must be a name, a colon and a value", h)
		}
		header.Set(strings.TrimSpace(name), strings.TrimSpace(value))
	}
	token, err := c.token(header)
	if err != nil {
		return doctor.Report{}, err
	}
	if token != "" {
		header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	}
	exchange, err := recorder.Record(ctx, recorder.Options{
		URL: c.URL, Header: header, Prompt: c.Prompt, Old: c.Old, Origin: c.Origin, Patience: c.Patience, Again: c.Resume,
	})
	if err != nil {
		return doctor.Report{}, err
	}
	return doctor.Examine(exchange), nil
}

// token returns the token for the endpoint, or "". The state folder has that of its own server alone: any other program of this
// machine must not get it.
func (c *doctorCmd) token(given http.Header) (auth.Secret, error) {
	own := c.Files.server()
	switch {
	case c.TokenFile != "":
		return readToken(c.TokenFile)
	case given.Get("Authorization") != "" || own == "" || !strings.HasPrefix(c.URL, own+"/"):
		return "", nil
	}
	token, err := secretfile.Read(c.Files.in(tokenName))
	if errors.Is(err, os.ErrNotExist) {
		return "", nil // the server has a token file of its own, or needs no token
	}
	return auth.Secret(token), err
}

// print writes the report: as JSON with the members of doctor.Report, or for people. What it quotes was made safe for
// a terminal where it was found (doctor), and names of events here (plain).
func (c *doctorCmd) print(out io.Writer, report doctor.Report) error {
	if c.JSON {
		enc := json.NewEncoder(out)
		enc.SetEscapeHTML(false)
		enc.SetIndent("", "  ")
		return enc.Encode(struct {
			URL string `json:"url"`
			doctor.Report
		}{c.URL, report})
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %d findings\n", c.URL, len(report.Findings))
	for _, f := range report.Findings {
		fmt.Fprintf(&b, "\n%-7s  %s", f.Level, f.Code)
		if f.Count > 1 {
			fmt.Fprintf(&b, " (%d times)", f.Count)
		}
		fmt.Fprintf(&b, "\n         seen:   %s\n         why:    %s\n         source: %s\n", f.Seen, f.Why, f.Source)
	}
	total := 0
	for _, n := range report.Events {
		total += n
	}
	fmt.Fprintf(&b, "\n%d events: %s\n%d rules kept", total, counted(report.Events), len(report.Sound))
	if len(report.NotSeen) > 0 {
		fmt.Fprintf(&b, "; not seen, for there was no\n")
		for _, needs := range grouped(report.NotSeen) {
			fmt.Fprintf(&b, "         %s\n", needs)
		}
	} else {
		b.WriteString("\n")
	}
	for _, note := range report.Notes {
		fmt.Fprintf(&b, "note: %s\n", note)
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// counted lists how many events of each type there were.
func counted(events map[string]int) string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(events)) {
		list = append(list, fmt.Sprintf("%d %s", events[name], plain(name)))
	}
	return strings.Join(list, ", ")
}

// grouped lists the rules without an occasion, by what they needed, in the order of the report.
func grouped(list []doctor.NotSeen) (lines []string) {
	codes := make(map[string][]string)
	var order []string
	for _, n := range list {
		if codes[n.Needs] == nil {
			order = append(order, n.Needs)
		}
		codes[n.Needs] = append(codes[n.Needs], n.Code)
	}
	for _, needs := range order {
		lines = append(lines, needs+": "+strings.Join(codes[needs], " "))
	}
	return lines
}
