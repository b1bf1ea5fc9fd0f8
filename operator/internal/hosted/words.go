package hosted

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// ErrSilent is every way in which a hosted API server lets us wait: each call that
// ends so has words of its own.
var ErrSilent = errors.New("the hosted API server does not answer")

// Plain gives one error for all that say the same of a hosted API server.
func Plain(err error) error {
	if timedOut(err) {
		return ErrSilent
	}
	return err
}

// rate is what the client's own limiter says where the time would not suffice.
const rate = "would exceed context deadline"

func timedOut(err error) bool {
	if err == nil {
		return false
	}
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded) || strings.Contains(err.Error(), rate) {
		return true
	}
	timeout, ok := errors.AsType[net.Error](err)
	return ok && timeout.Timeout()
}

// Words of an error: the hosted API server's own, if it has answered. "unknown" is
// client-go's word for an answer that is no Status.
func Words(err error) string {
	var answer apierrors.APIStatus
	if timedOut(err) || !errors.As(err, &answer) {
		return Plain(err).Error()
	}
	st := answer.Status()
	if st.Message != "" && st.Message != "unknown" {
		return st.Message
	}
	return fmt.Sprintf("the hosted API server answers %d %s", st.Code, http.StatusText(int(st.Code)))
}
