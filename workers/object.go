package workers

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
)

// FieldError says what is wrong with a field of a worker's spec, in one sentence that is fit for the client who sent it.
type FieldError struct{ Field, Reason string }

func (e *FieldError) Error() string {
	return fmt.Sprintf("Invalid value for field '%s': %s", e.Field, e.Reason)
}

// object reads a JSON object field by field. It is strict where a decoder into a struct is not: names match in their exact
// case and errors name the field. A field that is null counts as absent; one that nobody reads is ignored. The first error is
// kept and later reads do nothing, so that a caller checks once.
type object struct {
	path   string // what stands before the names in errors, "health." for example
	fields map[string]json.RawMessage
	err    *error // shared with the objects inside
	found  int    // fields that were there and valid
}

func (o *object) fail(name, reason string) {
	if *o.err == nil {
		*o.err = &FieldError{o.path + name, reason}
	}
}

// read decodes one field. ok is false if it is absent or invalid; want says what it should have been.
func read[T any](o *object, name, want string, valid func(T) bool) (v T, ok bool) {
	raw, there := o.fields[name]
	if !there || *o.err != nil || string(raw) == "null" {
		return v, false
	}
	var got T
	if err := json.Unmarshal(raw, &got); err != nil || valid != nil && !valid(got) {
		o.fail(name, "expected "+want)
		return v, false
	}
	o.found++
	return got, true
}

// optional is a pointer to the field's value, nil if it is absent.
func optional[T any](o *object, name, want string, valid func(T) bool) *T {
	if v, ok := read(o, name, want, valid); ok {
		return &v
	}
	return nil
}

func (o *object) text(name string) string {
	s, _ := read[string](o, name, "a string", nil)
	return s
}

func (o *object) texts(name string) []string {
	v, _ := read(o, name, "a list of strings", func(v []*string) bool { return !slices.Contains(v, nil) })
	list := make([]string, 0, len(v))
	for _, s := range v {
		list = append(list, *s)
	}
	if len(list) == 0 {
		return nil
	}
	return list
}

func (o *object) flag(name string) *bool { return optional[bool](o, name, "true or false", nil) }

// whole reads a whole number; from and to are the least and the greatest that are valid.
func whole[N uint16 | uint32 | int64](o *object, name string, from, to int64) *N {
	want := fmt.Sprintf("a whole number from %d to %d", from, to)
	v := optional(o, name, want, func(n int64) bool { return n >= from && n <= to })
	if v == nil {
		return nil
	}
	n := N(*v)
	return &n
}

// count is a number of 32 bits, which seconds and milliseconds are too: more would not fit a duration.
func (o *object) count(name string, from int64) *uint32 {
	return whole[uint32](o, name, from, math.MaxUint32)
}

// choice reads one of a list of names.
func choice[E ~uint8](o *object, name string, names []string) (e E, ok bool) {
	s, ok := read[string](o, name, "a string", nil)
	if !ok {
		return 0, false
	}
	if e, ok = member[E](names, s); !ok {
		o.fail(name, fmt.Sprintf("'%s' is not one of %s", s, strings.Join(names, ", ")))
	}
	return e, ok
}

// inside is an object that is the value of a field; nil if it is absent.
func (o *object) inside(name string) *object {
	fields, ok := read[map[string]json.RawMessage](o, name, "an object", nil)
	if !ok {
		return nil
	}
	return &object{path: o.path + name + ".", fields: fields, err: o.err}
}

// each are the objects of a list.
func (o *object) each(name string) []*object {
	list, _ := read[[]json.RawMessage](o, name, "a list of objects", nil)
	var objects []*object
	for i, raw := range list {
		place := fmt.Sprintf("%s[%d]", name, i)
		var fields map[string]json.RawMessage
		if json.Unmarshal(raw, &fields) != nil || fields == nil {
			o.fail(place, "expected an object")
			return nil
		}
		objects = append(objects, &object{path: o.path + place + ".", fields: fields, err: o.err})
	}
	return objects
}
