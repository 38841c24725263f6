package discovery

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// eventError is the error that an event of a watch carries.
func eventError(o runtime.Object) error { return apierrors.FromObject(o) }

// expired reports whether the server does not know the version, or the rest of a list, any more, or not yet: list anew.
func expired(err error) bool {
	return apierrors.IsResourceExpired(err) || apierrors.IsGone(err) || tooLarge(err)
}

// tooLarge is a version that this replica of the server has not seen yet; older servers say so in the text alone.
func tooLarge(err error) bool {
	if apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge) {
		return true
	}
	status, ok := errors.AsType[*apierrors.StatusError](err)
	return ok && status.ErrStatus.Code == http.StatusGatewayTimeout &&
		strings.Contains(status.ErrStatus.Message, "Too large resource version")
}

// stale reports whether other credentials may help: the token is not accepted any more, or the server has another certificate.
func stale(err error) bool { return apierrors.IsUnauthorized(err) || certificate(err) }

func certificate(err error) bool {
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return true
	}
	_, unknown := errors.AsType[x509.UnknownAuthorityError](err)
	return unknown
}

// asked is how long the server wants to be left alone; 0 if it does not say.
func asked(err error) time.Duration {
	secs, _ := apierrors.SuggestsClientDelay(err)
	return time.Duration(secs) * time.Second
}

// plain is an error in words, without the URL and its query.
func plain(err error) string {
	if u, ok := errors.AsType[*url.Error](err); ok && u.Err != nil {
		err = u.Err
	}
	return strings.TrimSpace(err.Error())
}

// timedOut reports whether an answer did not come in time.
func timedOut(err error) bool {
	n, ok := errors.AsType[net.Error](err)
	return ok && n.Timeout()
}

func itoa(n int64) string { return strconv.FormatInt(n, 10) }
