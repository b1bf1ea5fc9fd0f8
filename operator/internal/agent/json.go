package agent

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// compact removes the insignificant space of a JSON text.
func compact(raw []byte) ([]byte, error) {
	var out bytes.Buffer
	if err := json.Compact(&out, raw); err != nil {
		return nil, fmt.Errorf("compacting JSON: %w", err)
	}
	return out.Bytes(), nil
}
