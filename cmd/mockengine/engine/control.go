package engine

// control answers the /mock routes, by which whoever drives the engine from outside does what the methods of Engine do.
func (c *conn) control() error {
	if err := c.readBody(); err != nil {
		return c.refuseHead(err)
	}
	switch string(c.head.method) + " " + string(c.head.path) {
	case "GET /mock/faults":
		return c.sendValue(c.e.faults.list())
	case "POST /mock/faults":
		faults, err := parseFaults(c.body)
		if err != nil {
			return c.refuse(400, "BadRequestError", err.Error(), "")
		}
		c.e.faults.replace(faults)
		return c.sendValue(object{"faults": len(faults)})
	case "DELETE /mock/faults":
		c.e.faults.replace(nil)
		return c.sendValue(object{"faults": 0})
	case "GET /mock/requests":
		return c.sendValue(object{"requests": c.e.Requests()})
	case "DELETE /mock/requests":
		c.e.ClearRequests()
		return c.sendValue(object{"requests": []Request{}})
	case "GET /mock/state":
		return c.sendValue(c.e.State())
	}
	return c.send(404, jsonType, []byte(`{"detail":"Not Found"}`))
}
