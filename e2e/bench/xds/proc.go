package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/densityops/oooi/e2e/lab"
)

// cpu is the seconds that a program has used so far; USER_HZ is 100 on every
// Linux that Go runs on.
func cpu(p *lab.Process) float64 {
	pid, err := p.PID()
	if err != nil {
		return 0
	}
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	f := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
	user, _ := strconv.Atoi(f[11])
	system, _ := strconv.Atoi(f[12])
	return float64(user+system) / 100
}

// rss is a program's memory in MB.
func rss(p *lab.Process) float64 {
	pid, err := p.PID()
	if err != nil {
		return 0
	}
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(b)) {
		if v, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kb, _ := strconv.Atoi(strings.Fields(v)[0])
			return float64(kb) / 1024
		}
	}
	return 0
}
