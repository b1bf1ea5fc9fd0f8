package reach

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// refusalCounts is how long an API server may refuse us before that is believed:
// one that has just started does so until it has read its own rules.
const refusalCounts = time.Minute

// Wait returns once the API server can be used: it serves, lets us in, and has the
// resource whose collection is at path.
//
// What waiting heals is waited for, and logged once and when it changes: nobody
// answers (also: no such name, no route, a connection that breaks or hangs), it
// answers that it cannot now (5xx, 429), or it does not know the resource (404:
// the CRDs are yet to be installed). What waiting does not heal is an error once
// it has lasted a minute: it does not know our credentials (401), forbids to read
// the resource (403), or shows a certificate that the configuration does not
// trust. Ending is then better: whoever starts the process again also reads the
// credentials and the CA anew, and sees why.
func (s *Server) Wait(ctx context.Context, path string) error {
	since, said := time.Time{}, ""
	for {
		err := s.usable(ctx, path)
		if err == nil || ctx.Err() != nil {
			if err == nil && said != "" {
				s.log.Info("the API server can be used")
			}
			return ctx.Err()
		}
		why := reason(err)
		switch {
		case !refusal(err):
			since = time.Time{}
		case since.IsZero():
			since = time.Now()
		case time.Since(since) >= refusalCounts:
			return fmt.Errorf("%s, for more than %s: %w", why, refusalCounts, err)
		}
		if why != said {
			said = why
			s.log.Warn("waiting for the API server", "reason", why, "err", err)
		}
		if !pause(ctx) {
			return ctx.Err()
		}
	}
}

func (s *Server) usable(ctx context.Context, path string) error {
	if err := s.ready(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	return s.rest.Get().AbsPath(path).Param("limit", "1").MaxRetries(0).Do(ctx).Error()
}

// status is the code of an answer; none if there was no answer.
func status(err error) (int32, bool) {
	var answer apierrors.APIStatus
	if !errors.As(err, &answer) {
		return 0, false
	}
	return answer.Status().Code, answer.Status().Code != 0
}

// refusal is what another try does not change.
func refusal(err error) bool {
	code, _ := status(err)
	return code == http.StatusUnauthorized || code == http.StatusForbidden || untrusted(err)
}

func untrusted(err error) bool {
	_, ok := errors.AsType[*tls.CertificateVerificationError](err)
	return ok
}

// reason says in words, without anything volatile, what is the matter.
func reason(err error) string {
	code, answered := status(err)
	switch {
	case code == http.StatusUnauthorized:
		return "the API server does not know the credentials (401)"
	case code == http.StatusForbidden:
		return "the API server forbids to read oooi's resources (403); is the RBAC of the manifests installed?"
	case untrusted(err):
		return "the API server's certificate is not trusted"
	case code == http.StatusNotFound:
		return "the API server does not know oooi's resources (404); are the CRDs installed?"
	case answered:
		return fmt.Sprintf("the API server cannot be used now (%d)", code)
	}
	return "the API server cannot be reached"
}
