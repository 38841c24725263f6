package stages

import (
	"bytes"
	"mime"
	"strings"
)

// formField finds the value of a field among the parts of a multipart form that are complete in its first bytes; of several the
// last one counts, as in the engines' own parsers. A part with a file name is a file, and no field.
func formField(first []byte, boundary, name string) (value span, found bool) {
	delimiter := []byte("\r\n--" + boundary)
	i := firstPart(first, delimiter)
	for i >= 0 {
		head, content := partHead(first, i)
		if content < 0 {
			return value, found
		}
		end := nextDelimiter(first, delimiter, content-2) // its line break may be the one that ends the head
		if end < 0 {
			return value, found
		}
		if fieldOfPart(head) == name {
			value, found = newSpan(content, max(end, content)), true
		}
		i = behindDelimiter(first, end+len(delimiter))
	}
	return value, found
}

// firstPart is where the first part begins: behind the first delimiter, which needs no line break before it at the very start.
func firstPart(b, delimiter []byte) int {
	if bytes.HasPrefix(b, delimiter[2:]) {
		return behindDelimiter(b, len(delimiter)-2)
	}
	if i := nextDelimiter(b, delimiter, 0); i >= 0 {
		return behindDelimiter(b, i+len(delimiter))
	}
	return -1
}

// nextDelimiter is where the next delimiter is, from a position on; -1 if there is none. What only begins like one is content.
func nextDelimiter(b, delimiter []byte, from int) int {
	for {
		at := indexFrom(b, delimiter, from)
		behind := at + len(delimiter)
		if at < 0 || behind == len(b) {
			return -1
		}
		switch b[behind] {
		case '\r', '-', ' ', '\t':
			return at
		}
		from = behind
	}
}

// behindDelimiter is where the part behind a delimiter begins; -1 if it was the last one or its line is not complete.
func behindDelimiter(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\t') {
		i++
	}
	if !bytes.HasPrefix(b[i:], []byte("\r\n")) {
		return -1
	}
	return i + 2
}

// partHead is the head of the part at i, and where its content begins; -1 if the head is not complete.
func partHead(b []byte, i int) (head []byte, content int) {
	if bytes.HasPrefix(b[i:], []byte("\r\n")) { // no head at all
		return nil, i + 2
	}
	end := indexFrom(b, []byte("\r\n\r\n"), i)
	if end < 0 {
		return nil, -1
	}
	return b[i:end], end + 4
}

// fieldOfPart is the name of the field that a part with that head holds; "" if it holds none.
func fieldOfPart(head []byte) string {
	for line := range bytes.SplitSeq(head, []byte("\r\n")) {
		key, value, _ := strings.Cut(string(line), ":")
		if !strings.EqualFold(key, "Content-Disposition") {
			continue
		}
		disposition, params, err := mime.ParseMediaType(value)
		if _, file := params["filename"]; err != nil || disposition != "form-data" || file {
			return ""
		}
		return params["name"]
	}
	return ""
}

// indexFrom is bytes.Index from a position on.
func indexFrom(b, what []byte, from int) int {
	if i := bytes.Index(b[from:], what); i >= 0 {
		return from + i
	}
	return -1
}
