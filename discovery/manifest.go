package discovery

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/smg-go/smg/workers"
)

// listing is one worker of a manifest.
type listing struct {
	URL           string  `json:"url"`
	ID            string  `json:"id"`
	WorkerType    string  `json:"worker_type"`
	BootstrapPort *uint16 `json:"bootstrap_port"`
	ModelID       string  `json:"model_id"`
	KVConnector   string  `json:"kv_connector"`
	KVRole        string  `json:"kv_role"`
	KVEngineID    string  `json:"kv_engine_id"`

	endpoint workers.Endpoint
	role     workers.Type
}

// readManifest reads the workers that a manifest lists, in its order. roles are those that may occur. The error is a sentence that
// names the place.
func readManifest(data []byte, roles []workers.Type) ([]Wanted, error) {
	document, err := treeOf(data)
	if err != nil {
		return nil, err
	}
	top, isObject := document.(map[string]any)
	if !isObject {
		return nil, fmt.Errorf("it must be an object with 'version' and 'workers'")
	}
	if err := checkTop(top); err != nil {
		return nil, err
	}
	items := top["workers"].([]any)
	entries := make([]listing, 0, len(items))
	for i, item := range items {
		e, err := readEntry(item, roles)
		if err != nil {
			return nil, fmt.Errorf("workers[%d]: %w", i, err)
		}
		entries = append(entries, e)
	}
	if err := checkUnique(entries); err != nil {
		return nil, err
	}
	wanted := make([]Wanted, len(entries))
	for i := range entries {
		wanted[i] = entries[i].wanted()
	}
	return wanted, nil
}

func checkTop(top map[string]any) error {
	if err := checkNames(top, "version", "workers"); err != nil {
		return err
	}
	for _, name := range []string{"version", "workers"} {
		if _, there := top[name]; !there {
			return fmt.Errorf("'%s' is missing", name)
		}
	}
	if version, isWhole := wholeNumber(top["version"]); !isWhole || version != 1 {
		return fmt.Errorf("'version' must be 1")
	}
	if _, isList := top["workers"].([]any); !isList {
		return fmt.Errorf("'workers' must be a list")
	}
	return nil
}

func checkNames(object map[string]any, known ...string) error {
	unknown := ""
	for name := range object {
		if !slices.Contains(known, name) && (unknown == "" || name < unknown) { // the first by name: the same one each time
			unknown = name
		}
	}
	if unknown != "" {
		return fmt.Errorf("unknown field '%s'", unknown)
	}
	return nil
}

func readEntry(item any, roles []workers.Type) (e listing, err error) {
	object, isObject := item.(map[string]any)
	if !isObject {
		return e, fmt.Errorf("it must be an object")
	}
	texts := map[string]*string{
		"url": &e.URL, "id": &e.ID, "worker_type": &e.WorkerType, "model_id": &e.ModelID,
		"kv_connector": &e.KVConnector, "kv_role": &e.KVRole, "kv_engine_id": &e.KVEngineID,
	}
	names := []string{"url", "id", "worker_type", "bootstrap_port", "model_id", "kv_connector", "kv_role", "kv_engine_id"}
	if err := checkNames(object, names...); err != nil {
		return e, err
	}
	for _, name := range names {
		value, there := object[name]
		if !there || value == nil {
			continue
		}
		if name == "bootstrap_port" {
			port, isWhole := wholeNumber(value)
			if !isWhole || port < 1 || port > 65535 {
				return e, fmt.Errorf("'bootstrap_port' must be a whole number from 1 to 65535")
			}
			e.BootstrapPort = new(uint16(port))
			continue
		}
		text, isText := value.(string)
		if !isText {
			return e, fmt.Errorf("'%s' must be a string", name)
		}
		*texts[name] = text
	}
	return e, e.complete(roles)
}

// complete checks what an entry says, and fills in what it leaves out.
func (e *listing) complete(roles []workers.Type) (err error) {
	if e.URL == "" {
		return fmt.Errorf("'url' is required")
	}
	if e.endpoint, err = workers.ParseEndpoint(e.URL); err != nil {
		if wrong, ok := errors.AsType[*workers.URLError](err); ok {
			return fmt.Errorf("url '%s': %s", wrong.URL, wrong.Reason)
		}
		return err
	}
	e.URL = e.endpoint.URL
	e.ID = cmp.Or(e.ID, e.URL)
	e.WorkerType = cmp.Or(e.WorkerType, workers.Regular.String())
	role, known := workers.ParseType(e.WorkerType)
	switch {
	case !known:
		return fmt.Errorf("worker_type '%s' is not one of regular, prefill, decode, encode", e.WorkerType)
	case !slices.Contains(roles, role):
		return fmt.Errorf("worker_type '%s' is not used in %s routing", e.WorkerType, routing(roles))
	}
	e.role = role
	return nil
}

// routing is what a gateway's routing is called by the roles in it.
func routing(roles []workers.Type) string {
	names := make([]string, len(roles))
	for i, r := range roles {
		names[i] = r.String()
	}
	return strings.Join(names, "/")
}

func checkUnique(entries []listing) error {
	ids, addresses := map[string]bool{}, map[string]string{}
	for i := range entries {
		e := &entries[i]
		if ids[e.ID] {
			return fmt.Errorf("workers[%d]: duplicate id '%s'", i, e.ID)
		}
		if other, taken := addresses[e.endpoint.Address]; taken {
			return fmt.Errorf("workers[%d]: '%s' and '%s' name the same endpoint %s", i, e.ID, other, e.endpoint.Address)
		}
		ids[e.ID], addresses[e.endpoint.Address] = true, e.ID
	}
	return nil
}

// wanted is the worker that an entry asks for. Its owner is the hash of all that the entry says: if any of it changes, it is another
// worker.
func (e *listing) wanted() Wanted {
	said, _ := json.Marshal(e) // strings and a number: cannot fail
	sum := sha256.Sum256(said)
	spec := workers.NewSpec(e.URL)
	spec.WorkerType, spec.BootstrapPort = e.role, e.BootstrapPort
	spec.KVConnector, spec.KVRole, spec.KVEngineID = e.KVConnector, e.KVRole, e.KVEngineID
	if e.ModelID != "" {
		spec.Labels = map[string]string{"served_model_name": e.ModelID}
	}
	return Wanted{
		Claim: Claim{Address: e.endpoint.Address, Owner: hex.EncodeToString(sum[:])},
		Name:  e.ID, Key: e.ID, Spec: spec,
	}
}
