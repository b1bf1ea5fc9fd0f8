package ingress

// Known is of how many hosted clusters the Step knows what it has applied.
func (s *Step) Known() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.appliers)
}
