package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNamesAreFoundInComments(t *testing.T) {
	for _, c := range []struct {
		name string
		text string
		want []string
	}{
		{"a single number", "// proves behaviour C5.\n", []string{"C5"}},
		{"a range", "// behaviours C1-C3\n", []string{"C1", "C2", "C3"}},
		{"a range in words", "// Behaviours D1 to D2 and E4\n", []string{"D1", "D2", "E4"}},
		{"a list that is wrapped", "// behaviours B5, C1,\n// C2 and then E9 of the next sentence.\n", []string{"B5", "C1", "C2", "E9"}},
		{"another list below a full stop", "// behaviour B5.\n// See RFC A1.\n", []string{"B5"}},
		{"numbers before the word do not count", "// H4 is no number here, behaviour A1 is\n", []string{"A1"}},
		{"no word, no number", "// C5\n", nil},
	} {
		t.Run(c.name, func(t *testing.T) { require.Equal(t, c.want, named(c.text)) })
	}
}

func TestTheDocumentHasEveryNumberOnce(t *testing.T) {
	all := numbers("# x\n- **A1** one\n  more\n- **A2** two\n")
	require.Equal(t, []behaviour{{"A1", "one"}, {"A2", "two"}}, all)
}
