package clustertest

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Store puts pods that run and are ready at their IPs into etcd, past the API server: thousands in some seconds, where
// [Namespace.RunAll] takes minutes, most of them for managedFields. The API server lists them like all others. It is for pods that are
// there before anybody watches: a watch may miss some, since many have one version, as with no other way of making them.
func (n *Namespace) Store(tb TB, pods []Pod) {
	tb.Helper()
	const atOnce = 32 // etcd takes 128 operations and 1.5 MiB
	parts := slices.Collect(slices.Chunk(pods, atOnce))
	failed := make([]error, len(parts))
	each(len(parts), func(i int) { failed[i] = n.store(parts[i]) })
	if err := errors.Join(failed...); err != nil {
		tb.Fatal(err)
	}
}

// store writes a few pods in one transaction. What only differs in size is written out once.
func (n *Namespace) store(pods []Pod) error {
	var puts []object
	fields := map[int]json.RawMessage{}
	for _, p := range pods {
		pod := n.stored(p)
		if fields[p.Managed] == nil {
			text, err := json.Marshal(pod["metadata"].(object)["managedFields"])
			if err != nil {
				return err
			}
			fields[p.Managed] = text
		}
		pod["metadata"].(object)["managedFields"] = fields[p.Managed]
		text, err := json.Marshal(pod)
		if err != nil {
			return err
		}
		key := fmt.Sprintf("/registry/pods/%s/%s", n.Name, p.Name)
		puts = append(puts, object{"requestPut": object{"key": []byte(key), "value": text}}) // bytes are base64 in JSON
	}
	body, err := json.Marshal(object{"success": puts})
	if err != nil {
		return err
	}
	return n.cluster.etcdAsk("kv/txn", string(body), nil)
}

// stored is a pod with what the API server would have added.
func (n *Namespace) stored(p Pod) object {
	pod := p.object()
	maps.Copy(pod, running(p.IP).object())
	uid := strings.ToLower(rand.Text())
	maps.Copy(pod["metadata"].(object), object{
		"namespace": n.Name, "uid": fmt.Sprintf("%s-%s", uid[:8], uid[8:20]), "creationTimestamp": time.Now().UTC().Format(time.RFC3339),
	})
	return pod
}
