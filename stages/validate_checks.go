package stages

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/smg-go/smg/pipeline"
)

func missing(id field) *pipeline.Error {
	return badRequest("missing_required_parameter", id.String(), fmt.Sprintf("Missing required parameter: '%s'.", id))
}

func wrongType(id field, want string) *pipeline.Error {
	return badRequest("invalid_type", id.String(), fmt.Sprintf("'%s' must be %s.", id, want))
}

func invalidValue(id field, must string) *pipeline.Error {
	return badRequest("invalid_value", id.String(), fmt.Sprintf("'%s' must %s.", id, must))
}

func isString(r *rule, value []byte) *pipeline.Error {
	if value[0] != '"' {
		return wrongType(r.field, "a string")
	}
	return nil
}

// notBlank is about strings alone: what else the field may hold is the engine's business.
func notBlank(r *rule, value []byte) *pipeline.Error {
	if s, ok := stringOf(value); ok && strings.TrimSpace(s) == "" {
		return invalidValue(r.field, "not be blank")
	}
	return nil
}

func nonBlankString(r *rule, value []byte) *pipeline.Error {
	if err := isString(r, value); err != nil {
		return err
	}
	return notBlank(r, value)
}

func stringOrNumber(r *rule, value []byte) *pipeline.Error {
	if value[0] != '"' && !isNumber(value) {
		return wrongType(r.field, "a string or a number")
	}
	return nil
}

func boolean(r *rule, value []byte) *pipeline.Error {
	if value[0] != 't' && value[0] != 'f' {
		return wrongType(r.field, "true or false")
	}
	return nil
}

func isArray(r *rule, value []byte) *pipeline.Error {
	if value[0] != '[' {
		return wrongType(r.field, "an array")
	}
	return nil
}

func nonEmptyArray(r *rule, value []byte) *pipeline.Error {
	if err := isArray(r, value); err != nil {
		return err
	}
	if isEmpty(value) {
		return badRequest("empty_array", r.field.String(), fmt.Sprintf("'%s' must have at least one element.", r.field))
	}
	return nil
}

// notEmptyList is about arrays alone, like notBlank.
func notEmptyList(r *rule, value []byte) *pipeline.Error {
	if value[0] == '[' && isEmpty(value) {
		return invalidValue(r.field, "have at least one element")
	}
	return nil
}

func arrayOfStrings(r *rule, value []byte) *pipeline.Error {
	notString := func(element []byte) bool { return element[0] != '"' }
	if value[0] != '[' || anyElement(value, notString) {
		return wrongType(r.field, "an array of strings")
	}
	return nil
}

func promptShape(r *rule, value []byte) *pipeline.Error {
	switch {
	case value[0] != '"' && value[0] != '[':
		return wrongType(r.field, "a string or an array")
	case value[0] == '[' && isEmpty(value):
		return badRequest("prompt_empty", r.field.String(), "'prompt' must not be an empty array.")
	}
	return nil
}

func responsesInput(r *rule, value []byte) *pipeline.Error {
	switch {
	case value[0] != '"' && value[0] != '[':
		return wrongType(r.field, "a string or an array")
	case value[0] == '"' && len(value) == 2:
		return badRequest("input_text_empty", r.field.String(), "'input' must not be an empty string.")
	case value[0] == '[' && isEmpty(value):
		return badRequest("input_items_empty", r.field.String(), "'input' must not be an empty array.")
	}
	return nil
}

// stopSequences takes a string, or an array of at most r.max; none of them may be empty.
func stopSequences(r *rule, value []byte) *pipeline.Error {
	if value[0] == '"' {
		return stopSequence(r, value)
	}
	if value[0] != '[' {
		return wrongType(r.field, "a string or an array of strings")
	}
	var err *pipeline.Error
	count := 0
	eachElement(value, 0, func(i int) int {
		end := skipFast(value, i)
		count++
		if err == nil {
			err = stopSequence(r, value[i:end])
		}
		return end
	})
	if count > int(r.max) {
		return badRequest("array_above_max_length", r.field.String(),
			fmt.Sprintf("'%s' must have at most %s elements.", r.field, plain(r.max)))
	}
	return err
}

func stopSequence(r *rule, value []byte) *pipeline.Error {
	if value[0] != '"' {
		return wrongType(r.field, "a string or an array of strings")
	}
	if len(value) == 2 {
		return badRequest("string_below_min_length", r.field.String(), fmt.Sprintf("'%s' must not hold an empty string.", r.field))
	}
	return nil
}

// integer takes whole numbers from r.min to r.max, also if they are written as 1.0 or 1E1.
func integer(r *rule, value []byte) *pipeline.Error {
	v, ok := wholeNumber(value)
	switch {
	case !ok:
		return wrongType(r.field, "an integer")
	case v < r.min:
		return badRequest("integer_below_min_value", r.field.String(), fmt.Sprintf("'%s' must be at least %s.", r.field, plain(r.min)))
	case v > r.max:
		return badRequest("integer_above_max_value", r.field.String(), fmt.Sprintf("'%s' must be at most %s.", r.field, plain(r.max)))
	}
	return nil
}

func integerOrMinusOne(r *rule, value []byte) *pipeline.Error {
	err := integer(r, value)
	if err == nil {
		return nil
	}
	if v, _ := wholeNumber(value); v == -1 {
		return nil
	}
	if err.Code == "integer_below_min_value" {
		err.Message = fmt.Sprintf("'%s' must be -1 or at least %s.", r.field, plain(r.min))
	}
	return err
}

// decimal takes numbers from r.min to r.max.
func decimal(r *rule, value []byte) *pipeline.Error {
	v, ok := numberOf(value)
	switch {
	case !ok:
		return wrongType(r.field, "a number")
	case v < r.min:
		return badRequest("decimal_below_min_value", r.field.String(), fmt.Sprintf("'%s' must be at least %s.", r.field, plain(r.min)))
	case v > r.max:
		return badRequest("decimal_above_max_value", r.field.String(), fmt.Sprintf("'%s' must be at most %s.", r.field, plain(r.max)))
	}
	return nil
}

// decimalAbove takes numbers above r.min, up to r.max.
func decimalAbove(r *rule, value []byte) *pipeline.Error {
	if v, ok := numberOf(value); ok && v == r.min {
		return badRequest("decimal_below_min_value", r.field.String(), fmt.Sprintf("'%s' must be above %s.", r.field, plain(r.min)))
	}
	return decimal(r, value)
}

// plain is a bound as a person writes it.
func plain(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

func isNumber(value []byte) bool {
	return len(value) > 0 && (value[0] == '-' || '0' <= value[0] && value[0] <= '9')
}

// numberOf is the value of a number that has been checked; one that is too large for a float64 is an infinity.
func numberOf(value []byte) (v float64, ok bool) {
	if !isNumber(value) {
		return 0, false
	}
	if n, length := leadingUint32(value); length == len(value) {
		return float64(n), true
	}
	v, _ = strconv.ParseFloat(string(value), 64)
	return v, true
}

// wholeNumber is numberOf for those without a fraction.
func wholeNumber(value []byte) (v float64, ok bool) {
	v, ok = numberOf(value)
	return v, ok && (v == float64(int64(v)) || v > 1<<53 || v < -1<<53)
}
