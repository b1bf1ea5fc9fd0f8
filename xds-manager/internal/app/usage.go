package app

import (
	"errors"
	"flag"
	"fmt"
	"io"
)

var (
	// ErrUsage says that a command was called wrongly.
	ErrUsage = errors.New("see --help")
	// ErrFound says that a command did its work and found fault; it has said what.
	ErrFound = errors.New("faults were found")
)

// usage is a wrong call, in words.
func usage(format string, args ...any) error {
	return fmt.Errorf("%w (%w)", fmt.Errorf(format, args...), ErrUsage)
}

// parse reads a command's flags. Help goes to stdout, as asked for; it answers
// with flag.ErrHelp then.
func parse(fs *flag.FlagSet, args []string, stdout io.Writer, synopsis string) error {
	fs.SetOutput(io.Discard)
	err := fs.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprintf(stdout, "usage: xds-manager %s\n\n", synopsis)
		fs.SetOutput(stdout)
		fs.PrintDefaults()
		return flag.ErrHelp
	case err != nil:
		return usage("%s: %w", fs.Name(), err)
	default:
		return nil
	}
}
