package discovery

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
)

// allNamespaces is the namespace of a list and a watch of the whole cluster.
const allNamespaces = metav1.NamespaceAll

// client talks to the API server, of pods alone: the client of all kinds would double the size of the program.
type client struct {
	kubeconfig string
	http       *http.Client
	rest       *rest.RESTClient
	server     string // URL
	source     string // of the credentials, in words
}

// newClient contacts nothing. It fails if there are no credentials, or such that no client can be made of.
func newClient(kubeconfig string) (*client, error) {
	config, source, err := loadCredentials(kubeconfig)
	if err != nil {
		return nil, err
	}
	gv := corev1.SchemeGroupVersion
	config.GroupVersion, config.APIPath = &gv, "/api"
	config.NegotiatedSerializer = codecs().WithoutConversion()
	config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	config.ContentType = runtime.ContentTypeJSON
	config.QPS = -1 // a list and a watch for each namespace: a rate limiter would only delay the first pages
	config.WarningHandler = rest.NoWarnings{}
	config.UserAgent = "smg"
	c := &client{kubeconfig: kubeconfig, source: source, server: config.Host}
	if c.http, err = rest.HTTPClientFor(config); err != nil {
		return nil, err
	}
	if c.rest, err = rest.RESTClientForConfigAndClient(config, c.http); err != nil {
		return nil, err
	}
	c.server = strings.TrimSuffix(c.rest.Get().AbsPath("/").URL().String(), "/")
	return c, nil
}

// codecs know pods and what comes with them, and no other kind.
func codecs() serializer.CodecFactory {
	scheme := runtime.NewScheme()
	scheme.AddKnownTypes(corev1.SchemeGroupVersion, &corev1.Pod{}, &corev1.PodList{})
	metav1.AddToGroupVersion(scheme, corev1.SchemeGroupVersion)
	return serializer.NewCodecFactory(scheme)
}

// close gives back the connections that nobody uses, and a moment later once more: one whose request was cancelled just now is in use
// for that long.
func (c *client) close() {
	idle := func() { utilnet.CloseIdleConnectionsFor(c.http.Transport) }
	idle()
	time.AfterFunc(100*time.Millisecond, idle)
}

// podClient lists and watches the pods of one namespace, or of all, that pass a filter.
type podClient struct {
	client            atomic.Pointer[client]
	namespace, filter string
}

func (c *client) pods(namespace, filter string) *podClient {
	p := &podClient{namespace: namespace, filter: filter}
	p.client.Store(c)
	return p
}

// scope names the namespace, for people.
func (p *podClient) scope() string {
	if p.namespace == allNamespaces {
		return "(all)"
	}
	return p.namespace
}

// renew loads the credentials once more. If there are none now, those from before are kept.
func (p *podClient) renew() {
	old := p.client.Load()
	if c, err := newClient(old.kubeconfig); err == nil {
		p.client.Store(c)
		old.close()
	}
}

func (p *podClient) close() { p.client.Load().close() }

func (p *podClient) get() *rest.Request {
	r := p.client.Load().rest.Get().MaxRetries(0).Resource("pods")
	if p.namespace != allNamespaces {
		r = r.Namespace(p.namespace) // with a Role, a request for the cluster would be refused
	}
	if p.filter != "" {
		r = r.Param("labelSelector", p.filter)
	}
	return r
}

// list hands over each pod, page by page, and returns the version to watch from. A page is let go before the next is read.
func (p *podClient) list(ctx context.Context, pace *pace, take func(*corev1.Pod)) (version string, err error) {
	for next := ""; ; {
		page, err := p.page(ctx, pace, next)
		if err != nil {
			return "", err
		}
		for i := range page.Items {
			take(&page.Items[i])
		}
		if next = page.Continue; next != "" {
			continue
		}
		if page.ResourceVersion == "" {
			return "", errors.New("the list has no version to watch from")
		}
		return page.ResourceVersion, nil
	}
}

func (p *podClient) page(ctx context.Context, pace *pace, next string) (*corev1.PodList, error) {
	limited, cancel := context.WithTimeout(ctx, pace.list)
	defer cancel()
	r := p.get().Param("limit", itoa(pace.page))
	if next != "" {
		r = r.Param("continue", next)
	}
	page := &corev1.PodList{}
	return page, r.Do(limited).Into(page)
}

// watch sends what changes after a version. The server ends it after life; if it has not begun to answer in time, cancel ends it.
func (p *podClient) watch(ctx context.Context, cancel func(), pace *pace, version string, life time.Duration) (watch.Interface, error) {
	silent := time.AfterFunc(pace.list, cancel)
	events, err := p.get().Param("watch", "true").Param("allowWatchBookmarks", "true").Param("resourceVersion", version).
		Param("timeoutSeconds", itoa(int64(life/time.Second))).Watch(ctx)
	if !silent.Stop() && err != nil {
		return nil, fmt.Errorf("no answer to the watch in %s", seconds(pace.list))
	}
	return events, err
}
