package main

import (
	"encoding/binary"
	"fmt"
	"net/netip"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

const tableName = "oooi-fence"

// rules is what the fence is made of.
type rules struct {
	device         string
	server         netip.Addr
	prefix         netip.Prefix
	maxConnections uint32
}

// install replaces the table in one transaction: there is no moment without
// it, and running twice changes nothing.
func install(r rules) error {
	c, err := nftables.New()
	if err != nil {
		return fmt.Errorf("opening nftables: %w", err)
	}
	t := &nftables.Table{Family: nftables.TableFamilyINet, Name: tableName}
	c.AddTable(t) // so that deleting it works when there is none
	c.DelTable(t)
	c.AddTable(t)
	drop, accept := nftables.ChainPolicyDrop, nftables.ChainPolicyAccept
	c.AddChain(&nftables.Chain{
		Name: "forward", Table: t, Type: nftables.ChainTypeFilter,
		Hooknum: nftables.ChainHookForward, Priority: nftables.ChainPriorityFilter, Policy: &drop,
	})
	vlan := c.AddChain(&nftables.Chain{Name: "vlan", Table: t})
	input := c.AddChain(&nftables.Chain{
		Name: "input", Table: t, Type: nftables.ChainTypeFilter,
		Hooknum: nftables.ChainHookInput, Priority: nftables.ChainPriorityFilter, Policy: &accept,
	})
	c.AddRule(&nftables.Rule{Table: t, Chain: input, Exprs: append(fromDevice(r.device), verdict(expr.VerdictGoto, vlan.Name))})
	for _, e := range r.vlan(c, t) {
		c.AddRule(&nftables.Rule{Table: t, Chain: vlan, Exprs: e})
	}
	if err := c.Flush(); err != nil {
		return fmt.Errorf("writing nftables rules: %w", err)
	}
	return nil
}

// vlan are the rules for packets of the VLAN's device, in order. None of them asks
// whether a connection is known: connection tracking knows no devices, so a packet
// from the VLAN that claims to answer what the pod asked on its other side would
// pass. What really answers us on the VLAN is addressed to the server.
func (r rules) vlan(c *nftables.Conn, t *nftables.Table) [][]expr.Any {
	var out [][]expr.Any
	for _, a := range []netip.Addr{netip.AddrFrom4([4]byte{255, 255, 255, 255}), broadcastOf(r.prefix)} {
		out = append(out, append(toAddress(a), verdict(expr.VerdictAccept, "")))
	}
	out = append(out, append(unrouted(), &expr.Counter{}, verdict(expr.VerdictDrop, "")))
	if r.maxConnections > 0 {
		out = append(out, r.limit(c, t))
	}
	return append(out,
		append(toAddress(r.server), verdict(expr.VerdictAccept, "")),
		[]expr.Any{&expr.Counter{}, verdict(expr.VerdictDrop, "")})
}

// unrouted matches a source whose answers would leave by another device: a machine
// that uses the pod to send to the pod network.
func unrouted() []expr.Any {
	return []expr.Any{
		&expr.Fib{Register: 1, FlagSADDR: true, FlagIIF: true, ResultOIF: true},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: make([]byte, 4)},
	}
}

// limit drops a new TCP connection of a source that has too many open.
func (r rules) limit(c *nftables.Conn, t *nftables.Table) []expr.Any {
	set := &nftables.Set{
		Table: t, Name: "sources", KeyType: nftables.TypeIPAddr, Dynamic: true, Size: 65535,
	}
	// The set is only described here and sent with the rest.
	_ = c.AddSet(set, nil)
	out := []expr.Any{
		&expr.Meta{Key: expr.MetaKeyNFPROTO, Register: 1},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{unix.NFPROTO_IPV4}},
		&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: 1},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{unix.IPPROTO_TCP}},
	}
	out = append(out, newConnection()...)
	return append(out,
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: 12, Len: 4},
		&expr.Dynset{
			SrcRegKey: 1, SetName: set.Name, SetID: set.ID, Operation: uint32(unix.NFT_DYNSET_OP_ADD),
			Exprs: []expr.Any{&expr.Connlimit{Count: r.maxConnections, Flags: 1}}, // 1 = over
		},
		verdict(expr.VerdictDrop, ""),
	)
}

func verdict(k expr.VerdictKind, chain string) expr.Any { return &expr.Verdict{Kind: k, Chain: chain} }

// fromDevice matches by name: a device that is made anew keeps its name.
func fromDevice(name string) []expr.Any {
	b := make([]byte, unix.IFNAMSIZ)
	copy(b, name)
	return []expr.Any{
		&expr.Meta{Key: expr.MetaKeyIIFNAME, Register: 1},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: b},
	}
}

// newConnection matches the first packet of a connection.
func newConnection() []expr.Any {
	return []expr.Any{
		&expr.Ct{Key: expr.CtKeySTATE, Register: 1},
		&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: 4, Mask: binaryutil.NativeEndian.PutUint32(expr.CtStateBitNEW), Xor: make([]byte, 4)},
		&expr.Cmp{Op: expr.CmpOpNeq, Register: 1, Data: make([]byte, 4)},
	}
}

func toAddress(a netip.Addr) []expr.Any {
	b := a.As4()
	return []expr.Any{
		&expr.Meta{Key: expr.MetaKeyNFPROTO, Register: 1},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{unix.NFPROTO_IPV4}},
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: 16, Len: 4},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: b[:]},
	}
}

func broadcastOf(p netip.Prefix) netip.Addr {
	b := p.Masked().Addr().As4()
	n := binary.BigEndian.Uint32(b[:]) | (1<<(32-p.Bits()) - 1)
	binary.BigEndian.PutUint32(b[:], n)
	return netip.AddrFrom4(b)
}
