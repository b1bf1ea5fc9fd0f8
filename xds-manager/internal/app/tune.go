package app

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/densityops/oooi/xds-manager/internal/envoy"
)

const (
	adminTimeout = 5 * time.Second
	tuneRetry    = 2 * time.Second
	// maxAnswer holds one gauge of each of 30,000 clusters.
	maxAnswer = 4 << 20
)

// settings are what Envoy takes by its administration, because as xDS they
// would drain listeners or need a restart.
type settings struct {
	accessLog bool
	logLevel  string
	// stream counts Envoy's connections: a new Envoy starts from defaults.
	stream int
}

// tuner brings settings to Envoy.
type tuner struct {
	client *http.Client
	logger *slog.Logger
	want   chan settings
}

func newTuner(socket string, logger *slog.Logger) *tuner {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}
	return &tuner{
		client: &http.Client{Timeout: adminTimeout, Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}},
		logger: logger, want: make(chan settings, 1),
	}
}

// set replaces what is wanted. It never blocks; one caller only.
func (t *tuner) set(s settings) {
	select {
	case <-t.want:
	default:
	}
	t.want <- s
}

func (t *tuner) run(ctx context.Context) error {
	var want, have settings
	var retry <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return nil
		case want = <-t.want:
		case <-retry:
		}
		retry = nil
		if want == have || want.stream == 0 {
			continue
		}
		if err := t.apply(ctx, want); err != nil {
			t.logger.Warn("envoy not tuned", "err", err)
			retry = time.After(tuneRetry)
			continue
		}
		have = want
	}
}

func (t *tuner) apply(ctx context.Context, s settings) error {
	percent := 0
	if s.accessLog {
		percent = 100
	}
	level := s.logLevel
	if level == "" {
		level = "info"
	}
	if err := t.post(ctx, fmt.Sprintf("/runtime_modify?%s=%d", envoy.AccessLogRuntimeKey, percent)); err != nil {
		return err
	}
	if err := t.post(ctx, "/logging?level="+level); err != nil {
		return err
	}
	// Every listener update warns that filter_chain_matcher is work in progress.
	return t.post(ctx, "/logging?misc=error")
}

func (t *tuner) post(ctx context.Context, path string) error {
	_, err := t.ask(ctx, http.MethodPost, path)
	return err
}

func (t *tuner) ask(ctx context.Context, method, path string) (string, error) {
	r, err := http.NewRequestWithContext(ctx, method, "http://envoy"+path, nil)
	if err != nil {
		return "", fmt.Errorf("asking envoy: %w", err)
	}
	resp, err := t.client.Do(r)
	if err != nil {
		return "", fmt.Errorf("asking envoy: %w", err)
	}
	words, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if cerr := resp.Body.Close(); err == nil {
		err = cerr
	}
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", resp.Status, words)
	}
	if err != nil {
		return "", fmt.Errorf("asking envoy for %s: %w", path, err)
	}
	return string(words), nil
}
