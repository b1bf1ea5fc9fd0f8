package plan

// Ref is an attachment and what it refers to.
type Ref struct {
	Attachment, Infra, HostedCluster Key
}

// Counting tells which attachments the Plan is made from: those of the Infras on
// its network, those that these have on record, and those of an Infra that
// shares a HostedCluster with the planned one (behaviours A9, F0, F5). With a thousand attachments on other networks the Plan
// would be made mostly of what changes nothing. in needs no attachments.
func Counting(in Inputs, refs []Ref) []bool {
	infras := Neighbours(in)
	recorded := onRecord(in, infras)
	clusters := map[Key]bool{}
	for _, r := range refs {
		if r.Infra == in.Infra.Key {
			clusters[r.HostedCluster] = true
		}
	}
	for _, r := range refs {
		if clusters[r.HostedCluster] {
			infras[r.Infra] = true
		}
	}
	out := make([]bool, len(refs))
	for i, r := range refs {
		out[i] = infras[r.Infra] || recorded[r.Attachment]
	}
	return out
}

// onRecord are the attachments that the Infras have on record.
func onRecord(in Inputs, infras map[Key]bool) map[Key]bool {
	out := map[Key]bool{}
	for _, i := range append([]Infra{in.Infra}, in.Siblings...) {
		if !infras[i.Key] {
			continue
		}
		for _, r := range i.InForce {
			out[Key{i.Namespace, string(r.Attachment)}] = true
		}
	}
	return out
}

// Neighbours are the Infras on the network of the planned one, itself among them.
func Neighbours(in Inputs) map[Key]bool {
	w := &world{in: in, networks: map[Key]*network{}}
	w.own = &network{nad: nadOf(in.Infra)}
	out := map[Key]bool{in.Infra.Key: true}
	for _, s := range in.Siblings {
		w.networks[s.Key] = &network{nad: nadOf(s)}
		if w.near(s.Key) {
			out[s.Key] = true
		}
	}
	return out
}

// nadOf is the NetworkAttachmentDefinition that an Infra names.
func nadOf(i Infra) Key {
	c := i.Spec.NetworkConfig
	n := Key{string(c.NetworkAttachmentNamespace), string(c.NetworkAttachmentDefinition)}
	if n.Namespace == "" {
		n.Namespace = i.Namespace
	}
	return n
}
