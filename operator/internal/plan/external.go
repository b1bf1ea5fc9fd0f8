package plan

import (
	"slices"

	"github.com/densityops/oooi/operator/api/v1alpha1"
)

// The pod ports of external Services (behaviour F3).
const (
	firstExternalPort = 20000
	lastExternalPort  = 20249
)

// externalPorts gives each attachment with an external Service a pod port. One
// that it has it keeps, also while it is excluded: its Service leads there, and
// must never reach another cluster's names. wanting are sorted by name.
func externalPorts(in Inputs, wanting []*candidate) map[string]uint16 {
	out := map[string]uint16{}
	wants := map[string]bool{}
	for _, c := range wanting {
		wants[c.Name] = true
	}
	used := map[uint16]bool{}
	for _, h := range heldPorts(in) {
		if h.Port < firstExternalPort || h.Port > lastExternalPort || used[h.Port] || out[h.Attachment] != 0 {
			continue
		}
		used[h.Port] = true
		if wants[h.Attachment] {
			out[h.Attachment] = h.Port
		}
	}
	for _, c := range wanting {
		if out[c.Name] == 0 {
			out[c.Name] = takeFree(used)
		}
	}
	return out
}

// takeFree takes the lowest port that nobody holds; 0: there is none.
func takeFree(used map[uint16]bool) uint16 {
	for port := uint16(firstExternalPort); port <= lastExternalPort; port++ {
		if !used[port] {
			used[port] = true
			return port
		}
	}
	return 0
}

// heldPorts are what the proxy has, what the status records and where Services
// lead, in the order in which they count.
func heldPorts(in Inputs) []HeldPort {
	out := sortHeld(in.Listeners)
	for _, r := range sortInForce(in.Infra.InForce) {
		out = append(out, HeldPort{string(r.Attachment), uint16(r.ExternalPort)})
	}
	return append(out, sortHeld(in.HeldPorts)...)
}

// externalListeners are the proxy's, sorted by name. One of an attachment that
// is excluded has no backends; it holds the port.
func externalListeners(ports map[string]uint16, wanting []*candidate, backends []v1alpha1.ProxyBackend) []v1alpha1.ProxyExternalListener {
	there := map[string]bool{}
	for _, b := range backends {
		there[b.Name] = true
	}
	var out []v1alpha1.ProxyExternalListener
	for _, c := range wanting {
		if ports[c.Name] == 0 {
			continue
		}
		l := v1alpha1.ProxyExternalListener{Name: v1alpha1.ObjectName(c.Name), Port: int32(ports[c.Name])}
		for _, name := range []string{c.Name + "/ignition", c.Name + "/konnectivity", c.Name + "/oauth"} {
			if there[name] {
				l.Backends = append(l.Backends, name)
			}
		}
		out = append(out, l)
	}
	return out
}

func sortHeld(held []HeldPort) []HeldPort {
	held = slices.Clone(held)
	slices.SortFunc(held, func(a, b HeldPort) int {
		if a.Attachment != b.Attachment {
			return compareKeys(Key{Name: a.Attachment}, Key{Name: b.Attachment})
		}
		return int(a.Port) - int(b.Port)
	})
	return held
}

func sortInForce(records []v1alpha1.AttachmentInForce) []v1alpha1.AttachmentInForce {
	records = slices.Clone(records)
	slices.SortFunc(records, func(a, b v1alpha1.AttachmentInForce) int {
		return compareKeys(Key{Name: string(a.Attachment)}, Key{Name: string(b.Attachment)})
	})
	return records
}
