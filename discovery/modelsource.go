package discovery

import (
	"errors"
	"fmt"
	"strings"
)

// ModelSource is where a pod says which model its workers serve. The zero one is nowhere: what the engine says counts.
type ModelSource struct {
	kind modelSourceKind
	key  string // of the label or annotation
}

type modelSourceKind uint8

const (
	fromEngine modelSourceKind = iota
	fromNamespace
	fromLabel
	fromAnnotation
)

// ParseModelSource reads `namespace` (in any case), `label:<key>` or `annotation:<key>`; "" is the zero source.
func ParseModelSource(text string) (ModelSource, error) {
	if text == "" {
		return ModelSource{}, nil
	}
	if strings.EqualFold(text, "namespace") {
		return ModelSource{kind: fromNamespace}, nil
	}
	if key, ok := strings.CutPrefix(text, "label:"); ok {
		if key == "" {
			return ModelSource{}, errors.New("label: requires a key name")
		}
		return ModelSource{kind: fromLabel, key: key}, nil
	}
	if key, ok := strings.CutPrefix(text, "annotation:"); ok {
		if key == "" {
			return ModelSource{}, errors.New("annotation: requires a key name")
		}
		return ModelSource{kind: fromAnnotation, key: key}, nil
	}
	//lint:ignore ST1005 people are shown the sentence as it is
	return ModelSource{}, fmt.Errorf("Invalid model-id-from value '%s'. Expected: namespace, label:<key>, or annotation:<key>", text)
}

// of is the model that the pod names; "" if it names none.
func (m ModelSource) of(p *pod) string {
	switch m.kind {
	case fromNamespace:
		return p.namespace
	case fromLabel:
		return p.labels[m.key]
	case fromAnnotation:
		return p.annotations[m.key]
	}
	return ""
}
