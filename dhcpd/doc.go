// Package dhcpd holds nothing but the test of this module's structure; the
// programs are in cmd.
package dhcpd
