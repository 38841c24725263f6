package engine

import (
	"net/http"
	"strconv"
	"sync/atomic"
	"time"
)

const (
	jsonType  = "application/json"
	eventType = "text/event-stream; charset=utf-8"
	textType  = "text/plain; version=1.0.0; charset=utf-8" // of /metrics
)

// clock keeps the date header of the current second.
type clock struct{ now atomic.Pointer[tick] }

type tick struct {
	second int64
	date   string
}

func (c *clock) date(t time.Time) string {
	if k := c.now.Load(); k != nil && k.second == t.Unix() {
		return k.date
	}
	k := &tick{second: t.Unix(), date: "date: " + t.UTC().Format(http.TimeFormat) + "\r\n"}
	c.now.Store(k)
	return k.date
}

// beginHead writes status line and headers up to those that tell the body's framing.
func (c *conn) beginHead(b []byte, status int, contentType string) []byte {
	if status == http.StatusOK {
		b = append(b, "HTTP/1.1 200 OK\r\n"...)
	} else {
		b = append(b, "HTTP/1.1 "...)
		b = strconv.AppendInt(b, int64(status), 10)
		b = append(b, ' ')
		b = append(b, http.StatusText(status)...)
		b = append(b, "\r\n"...)
	}
	var own Headers // what the fault says itself
	if c.fault != nil {
		own = c.fault.Headers
	}
	if !own.has("date") {
		b = append(b, c.e.clock.date(c.at)...)
	}
	if !own.has("server") {
		b = append(b, "server: uvicorn\r\n"...)
	}
	if contentType != "" && !own.has("content-type") {
		b = append(b, "content-type: "...)
		b = append(b, contentType...)
		b = append(b, "\r\n"...)
	}
	return c.faultHeaders(b, own)
}

func (c *conn) faultHeaders(b []byte, own Headers) []byte {
	for _, line := range own {
		b = append(b, line...)
		b = append(b, "\r\n"...)
	}
	if c.fault != nil && c.fault.RetryAfter != "" {
		b = append(b, "retry-after: "...)
		b = append(b, c.fault.RetryAfter...)
		b = append(b, "\r\n"...)
	}
	return b
}

// endHead ends the head; framing is the header line that tells the body's, or empty.
func (c *conn) endHead(b []byte, framing string, length int) []byte {
	b = append(b, framing...)
	if length >= 0 {
		b = append(b, "content-length: "...)
		b = strconv.AppendInt(b, int64(length), 10)
		b = append(b, "\r\n"...)
	}
	if c.head.close {
		b = append(b, "connection: close\r\n"...)
	}
	return append(b, "\r\n"...)
}

// send answers with a body whose length is known, in one write with its head. body may be c.text.
func (c *conn) send(status int, contentType string, body []byte) error {
	c.text = body
	if c.fault != nil && c.fault.Malformed == GarbledJSON {
		body = body[:len(body)/2]
	}
	b := c.endHead(c.beginHead(c.out[:0], status, contentType), "", len(body))
	if string(c.head.method) == http.MethodHead {
		body = nil
	}
	if c.fault == nil {
		c.out = append(b, body...)
		return c.write(c.out)
	}
	return c.sendFaulty(b, body)
}

// sendFaulty sends head and body with the fault's stops in between. The body counts as one event.
func (c *conn) sendFaulty(head, body []byte) error {
	f := c.fault
	if n := f.CutAfterEvents; n != nil && *n < 1 {
		body = nil
	}
	if n := f.CutAfterBytes; n != nil && *n < len(body) {
		body = body[:max(*n, 0)]
	}
	hangs := f.HangAfterEvents
	if hangs != nil && *hangs < 1 {
		if err := c.write(head); err != nil {
			return err
		}
		if err := c.pause(); err != nil {
			return err
		}
		head = head[:0]
	}
	c.out = append(head, body...)
	if err := c.write(c.out); err != nil {
		return err
	}
	if hangs != nil && *hangs == 1 {
		if err := c.pause(); err != nil {
			return err
		}
	}
	if f.cuts() != nil {
		return f.cut()
	}
	return nil
}

// pause is the wait of HangAfterEvents.
func (c *conn) pause() error {
	if c.fault.HangMillis > 0 {
		return c.sleep(millis(c.fault.HangMillis))
	}
	return c.hang()
}
