package app

import (
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

type groups []string

func (g groups) ServerGroups() (*metav1.APIGroupList, error) {
	list := &metav1.APIGroupList{}
	for _, name := range g {
		list.Groups = append(list.Groups, metav1.APIGroup{Name: name})
	}
	return list, nil
}

// behaviours B2, B13: the flag means something only where there are
// SecurityContextConstraints.
func TestOpenShiftNeedsTheFlagAndTheAPI(t *testing.T) {
	for _, tc := range []struct {
		name   string
		asked  bool
		served groups
		want   bool
	}{
		{name: "asked for and served", asked: true, served: groups{"apps", "security.openshift.io"}, want: true},
		{name: "asked for on a cluster without it", asked: true, served: groups{"apps"}},
		{name: "served and not asked for", served: groups{"security.openshift.io"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := Options{OpenShift: tc.asked, Logger: slog.New(slog.DiscardHandler)}.openShift(tc.served)
			require.NoError(t, err)
			require.Equal(t, tc.want, got)
		})
	}
}
