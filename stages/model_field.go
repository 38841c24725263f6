package stages

// replaceModel returns a body in which the model is canonical, and moves f along. Everything else stays byte for byte as it was,
// and so does a body that has no model or that model already. If the body names it several times, the last one, which counts, is
// replaced.
func replaceModel(body []byte, f *fieldSet, canonical string) []byte {
	if !f.has(fieldModel) || fieldEquals(body, f, fieldModel, canonical) {
		return body
	}
	old := f.spans[fieldModel]
	edited := make([]byte, 0, len(body)+len(canonical)+2)
	edited = append(edited, body[:old.start]...)
	edited = appendQuoted(edited, canonical)
	end := uint32(len(edited))
	edited = append(edited, body[old.end:]...)
	f.moveBehind(old.start, int(end)-int(old.end))
	f.spans[fieldModel].end = end
	return edited
}

// peekModel looks for the model in the first bytes of a body of which more is to come. found is false if there is none among the
// members that are complete in it; one that follows later may still name another.
func peekModel(first []byte) (model string, found bool) {
	i := skipSpace(first, 0)
	if i == len(first) || first[i] != '{' {
		return "", false
	}
	for {
		m, next := readMember(first, i+1)
		if next < 0 {
			return model, found
		}
		if id, known := fieldOf(m.key.of(first)); known && id == fieldModel {
			model, found = stringOf(m.value.of(first))
		}
		if i = skipSpace(first, next); i == len(first) || first[i] != ',' {
			return model, found
		}
	}
}
