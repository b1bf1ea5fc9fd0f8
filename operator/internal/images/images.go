package images

// The environment names, one for each image.
const (
	EnvDHCPD      = "RELATED_IMAGE_DHCPD"
	EnvCoreDNS    = "RELATED_IMAGE_COREDNS"
	EnvEnvoy      = "RELATED_IMAGE_ENVOY"
	EnvXDSManager = "RELATED_IMAGE_XDS_MANAGER"
	EnvFence      = "RELATED_IMAGE_FENCE"
)

// The built-in defaults.
const (
	DefaultDHCPD      = "quay.io/densityops/oooi-dhcpd:v0.1.0"
	DefaultCoreDNS    = "quay.io/densityops/oooi-coredns:v0.1.0"
	DefaultEnvoy      = "docker.io/envoyproxy/envoy:v1.36.4"
	DefaultXDSManager = "quay.io/densityops/oooi-xds-manager:v0.1.0"
	DefaultFence      = "quay.io/densityops/oooi-fence:v0.1.0"
)

// Set is the operator's images, for resources that name none.
type Set struct {
	DHCPD, CoreDNS, Envoy, XDSManager, Fence string
}

// For makes the Set. lookup is os.LookupEnv or a fake of it.
func For(lookup func(string) (string, bool)) Set {
	from := func(env, builtin string) string {
		if value, _ := lookup(env); value != "" {
			return value
		}
		return builtin
	}
	return Set{
		DHCPD:      from(EnvDHCPD, DefaultDHCPD),
		CoreDNS:    from(EnvCoreDNS, DefaultCoreDNS),
		Envoy:      from(EnvEnvoy, DefaultEnvoy),
		XDSManager: from(EnvXDSManager, DefaultXDSManager),
		Fence:      from(EnvFence, DefaultFence),
	}
}

// Choose is field, or without one the operator's image.
func Choose(field, operators string) string {
	if field != "" {
		return field
	}
	return operators
}
