package status

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// remembered is how long a write is known that no reading has shown: longer than any
// cache lags behind.
const remembered = 2 * time.Minute

// Memory knows what a writer has written and has not read yet. A cache lags behind: a
// pass that compares with what was there before would find nothing to write where it
// takes its own last write back. Nobody is woken by a status of its own. The zero
// Memory is empty.
type Memory struct {
	mu    sync.Mutex
	lines map[types.UID]line // guarded by mu
	swept time.Time          // guarded by mu
}

// line is the last write of one object's status.
type line struct {
	// unsure: the write has failed, and may have come through all the same.
	unsure   bool
	revision string
	part     map[string]any
	said     [sha256.Size]byte
	at       time.Time
}

// Knowing makes the writer remember its writes in m, which is its own alone.
func (w *Writer) Knowing(m *Memory) *Writer {
	w.memory = m
	return w
}

// Behind tells that an object was read before the last write of its status.
func (w *Writer) Behind(o client.Object) bool {
	_, behind := w.memory.behind(o)
	return behind
}

// Recall gives an object that was read before the last write of its status that
// status: what is recorded there is read back.
func (w *Writer) Recall(o client.Object) error {
	last, behind := w.memory.behind(o)
	if !behind || last.unsure {
		return nil
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		return fmt.Errorf("reading the status of %T: %w", o, err)
	}
	have, _, err := unstructured.NestedMap(content, "status")
	if err != nil {
		return fmt.Errorf("reading the status of %T: %w", o, err)
	}
	content["status"] = w.clean(have, runtime.DeepCopyJSON(last.part))
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(content, o); err != nil {
		return fmt.Errorf("recalling the status of %T: %w", o, err)
	}
	return nil
}

// needed says whether want has to be written where had was read.
func (w *Writer) needed(before client.Object, had, want map[string]any) (bool, error) {
	last, behind := w.memory.behind(before)
	if !behind {
		same, err := equal(had, want)
		return !same, err
	}
	if last.unsure {
		return true, nil
	}
	said, err := timeless(want)
	return said != last.said, err
}

// behind gives the last write of an object's status if it is newer than the object.
// What was read since is forgotten.
func (m *Memory) behind(o client.Object) (line, bool) {
	if m == nil {
		return line{}, false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	last, found := m.lines[o.GetUID()]
	if !found {
		return line{}, false
	}
	newer, err := resourceversion.CompareResourceVersion(o.GetResourceVersion(), last.revision)
	if time.Since(last.at) > remembered || !last.unsure && (err != nil || newer >= 0) {
		delete(m.lines, o.GetUID())
		return line{}, false
	}
	return last, true
}

// put records a write. The part is the memory's own from then on.
func (m *Memory) put(uid types.UID, is line) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	is.at = time.Now()
	if is.at.Sub(m.swept) > remembered {
		m.swept = is.at
		maps.DeleteFunc(m.lines, func(_ types.UID, l line) bool { return is.at.Sub(l.at) > remembered })
	}
	if m.lines == nil {
		m.lines = map[types.UID]line{}
	}
	m.lines[uid] = is
}

// timeless is the digest of a part without the times of its conditions: a pass that
// comes to the same has another time, and nothing to say.
func timeless(part map[string]any) ([sha256.Size]byte, error) {
	part = maps.Clone(part)
	if all, _ := part["conditions"].([]any); len(all) > 0 {
		all = slices.Clone(all)
		for i, c := range all {
			if m, ok := c.(map[string]any); ok {
				m = maps.Clone(m)
				delete(m, "lastTransitionTime")
				all[i] = m
			}
		}
		part["conditions"] = all
	}
	text, err := json.Marshal(part)
	if err != nil {
		return [sha256.Size]byte{}, fmt.Errorf("encoding a status: %w", err)
	}
	return sha256.Sum256(text), nil
}
