package main

import (
	"encoding"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"unicode"

	"github.com/alecthomas/kong"
)

// mappers make kong read values as smg does. They replace its own for all kinds that fields of the configuration have.
func mappers() []kong.Option {
	options := []kong.Option{
		kong.NamedMapper("multi", list{}),
		kong.NamedMapper("headers", list{headers: true}),
		kong.NamedMapper("numbers", list{commas: true}),
		kong.NamedMapper("names", list{commas: true}),
		kong.NamedMapper("keys", list{lines: true}),
	}
	for _, kind := range []reflect.Kind{reflect.String, reflect.Bool, reflect.Int, reflect.Int64, reflect.Float64, reflect.Ptr} {
		options = append(options, kong.KindMapper(kind, scalar{}))
	}
	return options
}

// scalar reads one value, also into a pointer, which is nil as long as nothing is given.
type scalar struct{}

var _ kong.BoolMapperExt = scalar{}

// IsBoolFromValue tells kong which flags take no value.
func (scalar) IsBoolFromValue(v reflect.Value) bool { return kindOf(v.Type()) == reflect.Bool }

// Decode takes one value from the command line, or what a source gives, and stores it.
func (s scalar) Decode(ctx *kong.DecodeContext, target reflect.Value) error {
	token, err := s.token(ctx.Scan, kindOf(target.Type()))
	if err != nil {
		return err
	}
	value, fromSource := token.Value.(given)
	if !fromSource {
		return store(target, token.String())
	}
	if value.list {
		return fmt.Errorf("takes one value, not a list (from %s)", value.from)
	}
	if err := store(target, value.texts[0]); err != nil {
		return fmt.Errorf("%w (from %s)", err, value.from)
	}
	return nil
}

// negative is what a number may look like although it begins like a flag.
var negative = regexp.MustCompile(`^-[0-9.]`)

// token takes the flag's value from the command line: nothing for a switch, unless it is written with "=".
func (scalar) token(scan *kong.Scanner, kind reflect.Kind) (kong.Token, error) {
	next := scan.Peek()
	switch {
	case next.Type == kong.FlagValueToken:
		return scan.Pop(), nil
	case kind == reflect.Bool:
		return kong.Token{Value: "true"}, nil
	case next.IsValue(), kind != reflect.String && next.Type == kong.UntypedToken && negative.MatchString(next.String()):
		return scan.Pop(), nil
	case next.IsEOL():
		return next, errors.New("needs a value")
	default:
		return next, fmt.Errorf("needs a value, and %s is a flag", next)
	}
}

// list reads all values up to the next flag into a slice. It is for flags that may be repeated as well: kong gives each
// occurrence the slice of those before, and an empty one to the first, so that values replace the default.
type list struct {
	headers bool // names of headers: in lower case, and an empty one is kept, to be refused later
	commas  bool // elements may also be separated by commas, which they cannot contain
	lines   bool // elements may have blanks: one text is taken apart at commas and line ends. An empty one is kept, as of headers
}

var _ kong.Mapper = list{}

// Decode takes the values that follow the flag, or what a source gives, and appends them.
func (l list) Decode(ctx *kong.DecodeContext, target reflect.Value) error {
	texts, from := l.texts(ctx)
	if l.commas {
		texts = words(strings.Join(texts, ","))
	}
	for _, text := range texts {
		text = strings.TrimSpace(text)
		if l.headers {
			text = strings.ToLower(text)
		}
		if text == "" && !l.headers && !l.lines {
			continue
		}
		element := reflect.New(target.Type().Elem()).Elem()
		if err := store(element, text); err != nil {
			if from != "" {
				err = fmt.Errorf("%w (from %s)", err, from)
			}
			return err
		}
		target.Set(reflect.Append(target, element))
	}
	return nil
}

func (l list) texts(ctx *kong.DecodeContext) (texts []string, from string) {
	if ctx.Scan.Peek().Type != kong.FlagValueToken {
		for ctx.Scan.Peek().IsValue() {
			texts = append(texts, ctx.Scan.Pop().String())
		}
		return texts, ""
	}
	token := ctx.Scan.Pop()
	value, ok := token.Value.(given)
	switch {
	case ok && value.list:
		return value.texts, value.from
	case ok:
		return l.apart(value.texts[0]), value.from
	case token.String() == ctx.Value.Default: // kong hands over the default of the tag like a value after "="
		return words(token.String()), ""
	default:
		return []string{token.String()}, ""
	}
}

// apart takes a list apart that had to be written as one text.
func (l list) apart(text string) []string {
	if l.lines {
		return strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == '\n' })
	}
	return words(text)
}

// words splits a list that had to be written as one text: at blanks and commas.
func words(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return r == ',' || unicode.IsSpace(r) })
}

// kindOf is the kind of a type, or of what it points to.
func kindOf(t reflect.Type) reflect.Kind {
	if t.Kind() == reflect.Ptr {
		return t.Elem().Kind()
	}
	return t.Kind()
}

// store reads text into target. Errors say what is wrong with the text, not for which flag; kong adds that.
func store(target reflect.Value, text string) error {
	if target.Kind() == reflect.Ptr {
		element := reflect.New(target.Type().Elem())
		target.Set(element)
		target = element.Elem()
	}
	if reader, ok := target.Addr().Interface().(encoding.TextUnmarshaler); ok {
		return reader.UnmarshalText([]byte(text))
	}
	switch target.Kind() {
	case reflect.String:
		target.SetString(text)
	case reflect.Bool:
		return storeBool(target, text)
	case reflect.Int, reflect.Int64:
		n, err := strconv.ParseInt(text, 10, target.Type().Bits())
		if err != nil {
			return fmt.Errorf("'%s' is not a whole number", text)
		}
		target.SetInt(n)
	case reflect.Float64:
		f, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return fmt.Errorf("'%s' is not a number", text)
		}
		target.SetFloat(f)
	default:
		return fmt.Errorf("a field of type %s cannot be read", target.Type())
	}
	return nil
}

func storeBool(target reflect.Value, text string) error {
	switch strings.ToLower(text) {
	case "1", "true", "yes", "on":
		target.SetBool(true)
	case "0", "false", "no", "off":
		target.SetBool(false)
	default:
		return fmt.Errorf("'%s' is not true or false", text)
	}
	return nil
}
