// Command bench measures the operator with many attachments (make
// bench-operator): the real binary, with the rights of its ServiceAccount, on a
// real etcd and kube-apiserver.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"time"
)

func main() {
	operator := flag.String("operator", "bin/operator", "the operator's binary")
	attachments := flag.Int("attachments", 1000, "attachments, on -infras Infras")
	infras := flag.Int("infras", 10, "Infras")
	rounds := flag.Int("rounds", 150, "attachments that come and go; each is two changes")
	out := flag.String("out", "bench-out/operator.json", "where the result goes")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *operator, *attachments, *infras, *rounds, *out); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// row of the result, as every benchmark of the product writes it.
type row struct {
	ID     string  `json:"id"`
	Ours   float64 `json:"ours"`
	Peer   string  `json:"peer"`
	Theirs float64 `json:"theirs"`
	Ratio  float64 `json:"ratio"`
	Bar    float64 `json:"bar"`
	OK     bool    `json:"ok"`
}

// barred is a row whose bar is an absolute value.
func barred(id string, ours, bar float64) row {
	r := row{ID: id, Ours: ours, Peer: "bar", Theirs: bar, Bar: 1, OK: ours <= bar}
	if bar > 0 {
		r.Ratio = ours / bar
	} else {
		r.Bar, r.Ratio = 0, ours
	}
	return r
}

func run(ctx context.Context, operator string, attachments, infras, rounds int, out string) error {
	b, err := newBench(ctx, operator, attachments, infras)
	if err != nil {
		return err
	}
	defer b.stop()
	rows, err := b.measure(ctx, rounds)
	if err != nil {
		return err
	}
	say("%-44s %12s %12s", "", "ours", "bar")
	for _, r := range rows {
		verdict := "ok"
		if !r.OK {
			verdict = "MISSED"
		}
		say("%-44s %12.2f %12.2f  %s", r.ID, r.Ours, r.Theirs, verdict)
	}
	result := map[string]any{
		"rounds": rounds, "rows": rows,
		"versions": map[string]string{"go": runtime.Version(), "attachments": fmt.Sprint(attachments), "infras": fmt.Sprint(infras)},
	}
	text, err := json.MarshalIndent(result, "", "  ")
	if err != nil {
		return fmt.Errorf("writing the result: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(out), 0o755); err != nil {
		return fmt.Errorf("writing the result: %w", err)
	}
	return os.WriteFile(out, append(text, '\n'), 0o644)
}

// percentile of durations, in milliseconds.
func percentile(list []time.Duration, p float64) float64 {
	if len(list) == 0 {
		return 0
	}
	sorted := slices.Clone(list)
	slices.Sort(sorted)
	i := min(len(sorted)-1, int(p*float64(len(sorted))))
	return float64(sorted[i].Microseconds()) / 1000
}
