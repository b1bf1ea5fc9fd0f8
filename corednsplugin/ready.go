package oooi

// Ready implements ready.Readiness: the first snapshot is in force and every
// listening socket is where it belongs. Neither needs the operator.
func (o *Oooi) Ready() bool { return o.open.Load() && o.serving.Load() != nil }
