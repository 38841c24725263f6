package stages

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"strings"
	"unicode"
	"unsafe"
)

// APIKeys are the keys of serving routes: one that all callers share, and keys of tenants. Only their hashes are kept. It is filled
// before it is used, and not changed after that.
type APIKeys struct {
	ring    keyRing
	tenants []string // by the key's place in the ring
}

// AddShared adds the key that callers share. Its tenant is made of its hash. The error says what is wrong with the key, without it.
func (k *APIKeys) AddShared(key string) error {
	sum := sha256.Sum256([]byte("smg tenant of the shared key\x00" + key))
	return k.add(key, hex.EncodeToString(sum[:4])) // too little of the hash to tell a guessed key by it
}

// AddTenant adds a key of a tenant. The error says what is wrong with either, without the key.
func (k *APIKeys) AddTenant(tenant, key string) error {
	switch {
	case tenant == "":
		return errors.New("the tenant is empty")
	case strings.TrimSpace(tenant) != tenant:
		return errors.New("the tenant has blanks around it")
	}
	return k.add(key, tenant)
}

func (k *APIKeys) add(key, tenant string) error {
	if err := k.ring.add(key); err != nil {
		return err
	}
	k.tenants = append(k.tenants, "auth:"+tenant)
	return nil
}

// Len is the number of keys.
func (k *APIKeys) Len() int { return len(k.tenants) }

// Tenant is the tenant that a token is a key of, such as "auth:acme"; ok is false if it is no key. How long it takes depends on the
// number of keys and the length of the token alone.
func (k *APIKeys) Tenant(token string) (tenant string, ok bool) {
	i := k.ring.find(token)
	if i < 0 {
		return "", false
	}
	return k.tenants[i], true
}

// keyRing holds hashes of keys.
type keyRing struct{ sums []keySum }

// keySum is a SHA-256 as numbers, which compare faster than bytes.
type keySum [4]uint64

var (
	errEmptyKey     = errors.New("the key is empty")
	errPaddedKey    = errors.New("the key has blanks around it")
	errUnsayableKey = errors.New("the key has characters that no header can carry")
	errKnownKey     = errors.New("the key is given twice")
)

func (r *keyRing) add(key string) error {
	switch {
	case key == "":
		return errEmptyKey
	case strings.TrimSpace(key) != key:
		return errPaddedKey
	case strings.ContainsFunc(key, unicode.IsControl):
		return errUnsayableKey
	case r.find(key) >= 0:
		return errKnownKey
	}
	r.sums = append(r.sums, sumOf(key))
	return nil
}

// find is the place of a token among the keys; -1 if it is none. It looks at all of them and branches on nothing that it finds, so
// that its time does not tell which one is near.
func (r *keyRing) find(token string) int {
	sum, place := sumOf(token), -1
	for i := range r.sums {
		place = subtle.ConstantTimeSelect(sum.equal(&r.sums[i]), i, place)
	}
	return place
}

// equal is 1 or 0.
func (k *keySum) equal(other *keySum) int {
	different := (k[0] ^ other[0]) | (k[1] ^ other[1]) | (k[2] ^ other[2]) | (k[3] ^ other[3])
	return int((different|-different)>>63) ^ 1
}

// sumOf hashes a text without a copy of it.
func sumOf(s string) (sum keySum) {
	bytes := sha256.Sum256(unsafe.Slice(unsafe.StringData(s), len(s)))
	for i := range sum {
		sum[i] = binary.LittleEndian.Uint64(bytes[8*i:])
	}
	return sum
}
