package dhcp

import (
	"net/netip"
	"slices"
	"time"

	"github.com/densityops/oooi/dhcpd/internal/config"
	"github.com/densityops/oooi/dhcpd/internal/lease"
)

// Outcome says what became of a message; it is a label of the metrics.
type Outcome string

// The outcomes that are not a lease.Reason.
const (
	Answered      Outcome = "answered"
	NotForUs      Outcome = "other_server"
	UnknownRelay  Outcome = "unknown_relay"
	WrongLink     Outcome = "wrong_link"
	Unexpected    Outcome = "unexpected_type"
	Incomplete    Outcome = "incomplete"
	WaitForRetry  Outcome = "wait_for_retry"
	DeclinedKept  Outcome = "declined_kept"
	DeclinedTaken Outcome = "declined"
	Released      Outcome = "released"
)

// Result is the answer to one message.
type Result struct {
	Outcome Outcome
	// Answer is empty when there is none.
	Answer []byte
	Type   Type // of the answer
	To     Destination
	// IP is the address that it is about, VM its machine.
	IP netip.Addr
	VM lease.VM
	// New is as in lease.Answer.
	New bool
	// Probe asks the caller to find out first that no other station uses IP,
	// and to handle the message again then. There is no answer yet.
	Probe bool
}

// Destination is where an answer goes (RFC 2131 section 4.1).
type Destination struct {
	// Relay: by the routing table, to port 67. Else the client is on the
	// link and its port is 68.
	Relay bool
	// IP is the address; broadcast when it is 255.255.255.255.
	IP netip.Addr
	// MAC is where the frame goes.
	MAC lease.MAC
	// Configured says that the client has IP already, and so answers ARP.
	Configured bool
}

var broadcast = netip.AddrFrom4([4]byte{255, 255, 255, 255})

// Handler answers messages, one at a time.
type Handler struct {
	Config    *config.Config
	Table     *lease.Table
	Directory lease.Directory
	// Newcomer says whether a client that nothing is known of should be
	// left to ask again, since its machine may be known by then. May be nil.
	Newcomer func(m lease.MAC, now time.Time) bool
	// Near says that clients on the link can be probed for.
	Near bool

	encoder encoder
}

// Handle answers m, appending the answer to buf.
func (h *Handler) Handle(m *Message, now time.Time, buf []byte) Result {
	if out := h.reject(m); out != "" {
		return Result{Outcome: out}
	}
	switch m.Type {
	case Discover:
		return h.discover(m, now, buf)
	case Request:
		return h.request(m, now, buf)
	case Decline:
		return h.decline(m, now)
	case Release:
		return h.release(m, now)
	case Inform:
		return h.inform(m, buf)
	}
	return Result{Outcome: Unexpected}
}

// reject finds out what is not for us whatever its type.
func (h *Handler) reject(m *Message) Outcome {
	if m.Relayed() && !slices.Contains(h.Config.Relays, m.GIAddr) {
		return UnknownRelay
	}
	if m.LinkSelection.IsValid() && !h.Config.Prefix.Contains(m.LinkSelection) {
		return WrongLink
	}
	if m.ServerID.IsValid() && m.ServerID != h.Config.ServerIP && m.ServerID != m.ServerOverride {
		if m.Type == Request {
			h.Table.Withdraw(m.MAC)
		}
		return NotForUs
	}
	return ""
}

func (h *Handler) client(m *Message) lease.Client {
	return lease.Client{MAC: m.MAC, VMs: h.Directory.VMs(m.MAC), Near: h.Near && !m.Relayed()}
}

func (h *Handler) discover(m *Message, now time.Time, buf []byte) Result {
	c := h.client(m)
	if len(c.VMs) == 0 && h.Newcomer != nil && !h.Table.Knows(m.MAC) && h.Newcomer(m.MAC, now) {
		return Result{Outcome: WaitForRetry}
	}
	a := h.Table.Offer(c, m.Requested, now)
	if a.Verdict != lease.Ack {
		return Result{Outcome: Outcome(a.Reason)}
	}
	return h.positive(m, Offer, a, buf)
}

// request serves every state that a client can be in (RFC 2131 section 4.3.2
// and its table 4).
func (h *Handler) request(m *Message, now time.Time, buf []byte) Result {
	ip := m.CIAddr
	if m.Requested.IsValid() && !m.Requested.IsUnspecified() {
		ip = m.Requested // SELECTING, INIT-REBOOT
	}
	if ip.IsUnspecified() {
		return Result{Outcome: Incomplete}
	}
	a := h.Table.Request(h.client(m), ip, now)
	switch a.Verdict {
	case lease.Ack:
		return h.positive(m, Ack, a, buf)
	case lease.Nak:
		return h.negative(m, a, buf)
	}
	return Result{Outcome: Outcome(a.Reason), IP: ip}
}

func (h *Handler) positive(m *Message, t Type, a lease.Answer, buf []byte) Result {
	if a.Probe {
		return Result{IP: a.IP, VM: a.VM, Probe: true}
	}
	r := reply{
		typ:      t,
		yiaddr:   a.IP,
		leased:   true,
		hostName: hostName(h.Config, m.MAC, a.VM),
	}
	if t == Ack {
		r.ciaddr = m.CIAddr // RFC 2131 table 3
	}
	return Result{
		Outcome: Answered, Type: t, IP: a.IP, VM: a.VM, New: a.New,
		Answer: h.encoder.build(buf, h.Config, m, r),
		To:     destination(m, a.IP),
	}
}

func (h *Handler) negative(m *Message, a lease.Answer, buf []byte) Result {
	to := Destination{IP: broadcast}
	if m.Relayed() {
		to = Destination{Relay: true, IP: m.GIAddr}
	}
	return Result{
		Outcome: Outcome(a.Reason), Type: Nak, To: to,
		Answer: h.encoder.build(buf, h.Config, m, reply{typ: Nak, message: string(a.Reason)}),
	}
}

// destination follows RFC 2131 section 4.1.
func destination(m *Message, yiaddr netip.Addr) Destination {
	switch {
	case m.Relayed():
		return Destination{Relay: true, IP: m.GIAddr}
	case !m.CIAddr.IsUnspecified():
		return Destination{IP: m.CIAddr, MAC: m.MAC, Configured: true}
	case m.Broadcast:
		return Destination{IP: broadcast}
	}
	return Destination{IP: yiaddr, MAC: m.MAC}
}

// decline must name us (RFC 2131 table 5).
func (h *Handler) decline(m *Message, now time.Time) Result {
	if !m.Requested.IsValid() || !m.ServerID.IsValid() {
		return Result{Outcome: Incomplete}
	}
	r := Result{IP: m.Requested}
	if b, ok := h.Table.Holder(m.Requested); ok {
		r.VM = b.VM
	}
	switch reason := h.Table.Decline(m.MAC, m.Requested, now); reason {
	case lease.OK:
		r.Outcome = DeclinedTaken
	case lease.Kept:
		r.Outcome = DeclinedKept
	default:
		r.Outcome = Outcome(reason)
	}
	return r
}

// release takes one without a server identifier too: networkd sends it so, and
// it is sent to us alone.
func (h *Handler) release(m *Message, now time.Time) Result {
	r := Result{IP: m.CIAddr, Outcome: Released}
	if reason := h.Table.Release(m.MAC, m.CIAddr, now); reason != lease.OK {
		r.Outcome = Outcome(reason)
	}
	return r
}

// inform gives the configuration to a client that has its address from
// elsewhere (RFC 2131 section 4.3.5): no lease, no yiaddr.
func (h *Handler) inform(m *Message, buf []byte) Result {
	if !h.Config.Prefix.Contains(m.CIAddr) {
		return Result{Outcome: Incomplete}
	}
	vms := h.Directory.VMs(m.MAC)
	if h.Config.Lease.IgnoreUnknown && len(vms) == 0 && !h.Table.Knows(m.MAC) {
		return Result{Outcome: Outcome(lease.UnknownClient)}
	}
	r := reply{typ: Ack, ciaddr: m.CIAddr}
	if len(vms) > 0 {
		r.hostName = hostName(h.Config, m.MAC, vms[0])
	}
	return Result{
		Outcome: Answered, Type: Ack, IP: m.CIAddr,
		Answer: h.encoder.build(buf, h.Config, m, r),
		To:     destination(m, m.CIAddr),
	}
}
