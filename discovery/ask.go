package discovery

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// version is that of the API server.
func (c *client) version(ctx context.Context, pace *pace) (string, error) {
	limited, cancel := context.WithTimeout(ctx, pace.list)
	defer cancel()
	body, err := c.rest.Get().AbsPath("/version").SetHeader("Accept", "application/json").MaxRetries(0).DoRaw(limited)
	if err != nil {
		return "", err
	}
	var v struct {
		GitVersion string `json:"gitVersion"`
	}
	if err := json.Unmarshal(body, &v); err != nil {
		return "", fmt.Errorf("it does not answer as an API server does: %w", err)
	}
	return v.GitVersion, nil
}

// mayI asks whether these credentials may do something with the pods of a namespace, or of all.
func (c *client) mayI(ctx context.Context, pace *pace, verb, namespace string) (Right, error) {
	right := Right{Verb: verb, Resource: "pods", Namespace: namespace}
	review := authorizationv1.SelfSubjectAccessReview{
		TypeMeta: metav1.TypeMeta{Kind: "SelfSubjectAccessReview", APIVersion: "authorization.k8s.io/v1"},
		Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
			Verb: verb, Resource: "pods", Namespace: namespace, Version: "v1",
		}},
	}
	body, err := json.Marshal(&review)
	if err != nil {
		return right, err
	}
	limited, cancel := context.WithTimeout(ctx, pace.list)
	defer cancel()
	answer, err := c.rest.Post().AbsPath("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews").
		SetHeader("Accept", "application/json").SetHeader("Content-Type", "application/json").MaxRetries(0).Body(body).DoRaw(limited)
	if err != nil {
		return right, err
	}
	if err := json.Unmarshal(answer, &review); err != nil {
		return right, err
	}
	right.Allowed, right.Reason = review.Status.Allowed, review.Status.Reason
	return right, nil
}

// answered reports whether an error is the answer of an API server that knows who asks.
func answered(err error) bool {
	status, ok := errors.AsType[*apierrors.StatusError](err)
	return ok && status.ErrStatus.Code < 500 && !apierrors.IsUnauthorized(err)
}

// inWords says what an error means to who has to do something about it.
func inWords(err error) string {
	var dns *net.DNSError
	switch {
	case apierrors.IsUnauthorized(err):
		return "it does not know these credentials (401): the token or certificate is wrong or has run out"
	case apierrors.IsForbidden(err):
		return "it refuses (403): " + plain(err)
	case certificate(err):
		return "its certificate is not trusted (" + plain(err) + "): the certificate authority of the credentials is another one, or the address is"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "nobody listens there (" + plain(err) + ")"
	case errors.As(err, &dns):
		return "its name cannot be found (" + plain(err) + ")"
	case timedOut(err):
		return "it did not answer in time: a firewall or a network policy may drop what is sent there"
	case strings.Contains(err.Error(), "server gave HTTP response to HTTPS client"):
		return "it speaks HTTP, not HTTPS"
	}
	return plain(err)
}
