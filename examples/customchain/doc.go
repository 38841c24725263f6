// Command customchain is a gateway of one's own in a few files: premium tenants have workers reserved for them.
//
// # Where to read
//
// tier.go is a stage that finds something out: a typed fact, the tenant's tier. tenants.go is what runs beside the requests for it: a
// dependency that reads the tenants' file. reserve.go is a stage that builds on the fact: it narrows the candidates. chain.go puts
// both among the built-in stages, and main.go serves the chain. docs/writing-a-stage.md goes through them one by one.
//
// # What it does
//
// A request names its tenant in X-Tenant; a tenant that is not in the list is refused (403 unknown_tenant). Requests of premium tenants go
// to reserved workers, and to the shared ones only while no reserved one can take them. Other requests never go to a reserved worker.
package main
