package workers

import (
	"encoding/binary"

	"github.com/google/uuid"
)

// ID is the identity of one registration, a version 7 UUID: it stays while the worker is registered, through updates and
// replacements. A worker that is removed and added again gets another.
type ID [16]byte

// NewID makes a fresh id; ids made later sort after earlier ones.
func NewID() ID { return ID(uuid.Must(uuid.NewV7())) }

// ParseID reads an id as [ID.String] writes it.
func ParseID(s string) (ID, error) {
	u, err := uuid.Parse(s)
	return ID(u), err
}

// String is the id in the usual form of a UUID.
func (id ID) String() string { return uuid.UUID(id).String() }

// words is the id as two numbers, for hashing.
func (id ID) words() [2]uint64 {
	return [2]uint64{binary.BigEndian.Uint64(id[:8]), binary.BigEndian.Uint64(id[8:])}
}
