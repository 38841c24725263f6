package stages

// The walkers go once through JSON that has been checked. They hand out positions of values; who gets one reads the value, or
// skips it, and returns the position behind it. So nothing is read twice, however deep the reader looks.

// eachElement calls visit with the position of each element of the array at i, and returns the position behind the array. A value
// that is not an array is skipped.
func eachElement(b []byte, i int, visit func(i int) (end int)) (end int) {
	if b[i] != '[' {
		return skipFast(b, i)
	}
	i = skipSpace(b, i+1)
	for b[i] != ']' {
		i = skipSpace(b, visit(i))
		if b[i] == ',' {
			i = skipSpace(b, i+1)
		}
	}
	return i + 1
}

// eachMember calls visit with the key and the position of the value of each member of the object at i, and returns the position
// behind the object. The key is what stands between its quotes. A value that is not an object is skipped.
func eachMember(b []byte, i int, visit func(key []byte, i int) (end int)) (end int) {
	if b[i] != '{' {
		return skipFast(b, i)
	}
	i = skipSpace(b, i+1)
	for b[i] != '}' {
		keyEnd := skipString(b, i+1)
		value := skipSpace(b, skipColon(b, keyEnd))
		i = skipSpace(b, visit(b[i+1:keyEnd-1], value))
		if b[i] == ',' {
			i = skipSpace(b, i+1)
		}
	}
	return i + 1
}

// memberOf is the value of the member of an object that has been checked, the last one of that name; nil if there is none, it is
// null, or the value is not an object. name has no escapes, and neither has a key that it is found under.
func memberOf(object []byte, name string) (value []byte) {
	if len(object) == 0 {
		return nil
	}
	eachMember(object, 0, func(key []byte, i int) int {
		end := skipFast(object, i)
		if string(key) == name {
			value = object[i:end]
		}
		return end
	})
	if string(value) == "null" {
		return nil
	}
	return value
}

// anyElement tells whether some element of an array that has been checked satisfies f; false if it is not an array.
func anyElement(array []byte, f func(element []byte) bool) (found bool) {
	if len(array) == 0 {
		return false
	}
	eachElement(array, 0, func(i int) int {
		end := skipFast(array, i)
		found = found || f(array[i:end])
		return end
	})
	return found
}

// isEmpty tells whether an array or object that has been checked has nothing in it.
func isEmpty(container []byte) bool { return skipSpace(container, 1) == len(container)-1 }
