// Package clustertest runs a real Kubernetes API server for tests: etcd and kube-apiserver on loopback, without a scheduler or a
// kubelet. A test plays the kubelet: it creates pods, says that they run and are ready, and lets them go.
//
// # A test
//
//	cluster := clustertest.Need(t)             // one for all tests of a package; skips where there is no binary
//	pods := cluster.Namespace(t)               // each test has its own
//	engine := clustertest.StartEngine(t)       // a mock engine on an address of 127.0.0.0/8 that nobody else has
//	pods.Run(t, clustertest.Pod{Name: "p1", IP: engine.IP, Labels: map[string]string{"app": "m"}})
//	pods.Unready(t, "p1")
//	pods.Terminate(t, "p1", time.Minute)       // the object stays, as with a kubelet that waits for the containers
//	pods.Delete(t, "p1")                       // and now it is gone
//
// What is tested gets a kubeconfig of [Namespace.Kubeconfig]: the service account "smg" of the namespace, that may get, list and
// watch the pods there, or what [Namespace.Grant] and [Namespace.Revoke] make of it. [Cluster.Proxy] stands between the two, counts
// lists and watches, and cuts or stalls connections. A test that stops the API server or compacts etcd has a cluster of its own:
// [Start].
//
// # What it needs
//
// The binary that `.ci/testcluster` builds, named by SMG_TEST_CLUSTER, and Linux: elsewhere 127.0.0.0/8 is one address. The servers
// are up about three seconds after the first test asks, take some 400 MB, write to a temporary folder that they remove, and end
// with the test process, however that ends.
package clustertest
