package app

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/densityops/oooi/xds-manager/internal/agent"
	"github.com/densityops/oooi/xds-manager/internal/resolve"
	"github.com/densityops/oooi/xds-manager/internal/routes"
)

// resolvedFile holds, beside the snapshot, the last good addresses of endpoints
// that are host names: a manager that starts anew while the VLAN's DNS is away
// takes none of them from an Envoy that works.
const resolvedFile = "resolved.json"

// loadResolved reads the addresses of an earlier life. They are believed no more
// than an answer: usable sorts them out.
func loadResolved(dir string, logger *slog.Logger) map[string][]netip.Addr {
	out := map[string][]netip.Addr{}
	if dir == "" {
		return out
	}
	b, err := os.ReadFile(filepath.Join(dir, resolvedFile))
	if err == nil {
		err = json.Unmarshal(b, &out)
	}
	if err == nil {
		return out
	}
	if !errors.Is(err, fs.ErrNotExist) {
		logger.Warn("last good addresses of endpoints are unusable", "err", err)
	}
	return map[string][]netip.Addr{}
}

// keepResolved stores the addresses where they changed.
func (e *engine) keepResolved() {
	if e.app.o.StateDir == "" {
		return
	}
	if maps.EqualFunc(e.resolved, e.resolvedKept, slices.Equal[[]netip.Addr]) {
		e.set("keepResolved", nil)
		return
	}
	if time.Now().Before(e.resolvedKeepAfter) {
		return
	}
	b, err := json.Marshal(e.resolved)
	if err == nil {
		err = agent.Replace(e.app.o.StateDir, resolvedFile, b)
	}
	if err != nil {
		err = fmt.Errorf("keeping addresses of endpoints: %w", err)
		e.resolvedKeepAfter = time.Now().Add(keepRetry)
		e.logger.Error("addresses of endpoints not kept", "err", err, "retry", keepRetry.String())
		e.set("keepResolved", []routes.Problem{{Reason: ReasonSnapshotNotKept, Message: err.Error()}})
		return
	}
	e.resolvedKept = e.resolved
	e.set("keepResolved", nil)
}

// policyOf says whom a table's names are asked from and what is believed.
func policyOf(t routes.Table) resolve.Policy {
	return resolve.Policy{Upstreams: t.Upstreams, CIDR: t.CIDR, Reserved: append(slices.Clone(t.Reserved), t.ServerIP)}
}

// usable is what a policy believes of answers that another one, or an earlier
// life, has let in.
func usable(resolved map[string][]netip.Addr, p resolve.Policy) map[string][]netip.Addr {
	out := make(map[string][]netip.Addr, len(resolved))
	for host, addrs := range resolved {
		if ok, err := p.Usable(addrs); err == nil {
			out[host] = ok
		}
	}
	return out
}
