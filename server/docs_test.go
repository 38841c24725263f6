package server

import "flag"

// updating tells whether golden files are to be rewritten: go test ./server -update. The flag belongs to the external test package.
func updating() bool {
	f := flag.Lookup("update")
	return f != nil && f.Value.String() == "true"
}
