package engine

// misbehave does what the fault says before the engine's own answer; done means that there will be none.
func (c *conn) misbehave() (done bool, err error) {
	f := c.fault
	switch {
	case f.HangHeadMillis < 0:
		return true, c.hang()
	case f.HangHeadMillis > 0:
		if err := c.sleep(millis(f.HangHeadMillis)); err != nil {
			return true, err
		}
	}
	switch {
	case f.cuts() == nil && (f.Reset || f.Close):
		return true, f.cut()
	case f.Malformed == GarbledHead:
		_ = c.write([]byte("HTTP/1.1 two hundred\r\nno header line\r\n\r\n"))
		return true, errHangUp
	case len(f.Chunks) > 0:
		return true, c.sendChunks(f.Chunks)
	case f.Body != "":
		status := f.Status
		if status == 0 {
			status = 200
		}
		return true, c.send(status, jsonType, append(c.text[:0], f.Body...))
	case f.Status != 0:
		return true, c.refuse(f.Status, errorType(f.Status), "Injected fault", "")
	}
	return false, nil
}

// cuts is where the fault cuts the body, nil if it does not.
func (f *Fault) cuts() *int {
	if f.CutAfterBytes != nil {
		return f.CutAfterBytes
	}
	return f.CutAfterEvents
}

// cut is the error that closes the connection in the fault's way.
func (f *Fault) cut() error {
	if f.Reset {
		return errReset
	}
	return errHangUp
}

// sendChunks answers with a body that the fault gives, write by write.
func (c *conn) sendChunks(chunks []string) error {
	status := c.fault.Status
	if status == 0 {
		status = 200
	}
	s := c.startStream(status)
	for k, chunk := range chunks {
		if err := s.ready(k); err != nil {
			return err
		}
		if err := s.chunk(append(c.text[:0], chunk...)); err != nil {
			return err
		}
		if err := s.flush(); err != nil {
			return err
		}
	}
	return s.finish()
}
