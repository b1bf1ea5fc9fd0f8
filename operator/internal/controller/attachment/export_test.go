package attachment

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// WasSlow makes the hosted cluster of an attachment one that let us wait.
func (t *Turns) WasSlow(who types.NamespacedName) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.slow[who] = time.Now()
}
