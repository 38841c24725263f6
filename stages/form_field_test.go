package stages

import (
	"bytes"
	"io"
	"mime/multipart"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// crlf puts the line ends of a form in the place of the readable ones.
func crlf(s string) string { return strings.ReplaceAll(s, "\n", "\r\n") }

const (
	modelPart = "--b\nContent-Disposition: form-data; name=\"model\"\n\n"
	filePart  = "--b\nContent-Disposition: form-data; name=\"file\"; filename=\"a.wav\"\nContent-Type: audio/wav\n\nRIFF\n"
)

// DECISIONS.md 40, http-dataplane.md section 2.5
func TestAFieldIsFoundInTheFirstBytesOfAForm(t *testing.T) {
	const missing = "missing"
	tests := []struct{ name, form, want string }{
		{"the first of the parts", modelPart + "m1\n" + filePart + "--b--\n", "m1"},
		{"behind the file", filePart + modelPart + "m1\n--b--\n", "m1"},
		{"behind a preamble", "what old mail readers show\n" + modelPart + "m1\n--b--", "m1"},
		{"more is to come", modelPart + "m1\n--b\nContent-Dispo", "m1"},
		{"the last of two", modelPart + "m1\n" + modelPart + "m2\n--b--", "m2"},
		{"with other headers", "--b\nX: y\ncontent-disposition:form-data ; name=model\n\nm1\n--b--", "m1"},
		{"with space behind the delimiter", strings.Replace(modelPart, "--b", "--b \t", 1) + "m1\n--b--", "m1"},
		{"an empty one", modelPart + "\n--b--", ""},
		{"an empty one without a line break of its own", modelPart + "--b--", ""},
		{"what only begins like a delimiter", modelPart + "m1\n--bb\n--b--", "m1\r\n--bb"},
		{"a part without a head", "--b\n\nx\n" + modelPart + "m1\n--b--", "m1"},

		{"a value that is cut", modelPart + "m1", missing},
		{"a delimiter that is cut", modelPart + "m1\n--", missing},
		{"a delimiter that may go on", modelPart + "m1\n--b", missing},
		{"a head that is cut", "--b\nContent-Disposition: form-data; name=\"model\"\n", missing},
		{"another field", strings.Replace(modelPart, "model", "prompt", 1) + "m1\n--b--", missing},
		{"a file of that name", "--b\nContent-Disposition: form-data; name=\"model\"; filename=\"model\"\n\nm1\n--b--", missing},
		{"another disposition", strings.Replace(modelPart, "form-data", "attachment", 1) + "m1\n--b--", missing},
		{"behind the end", filePart + "--b--\n" + modelPart + "m1\n--b--", missing},
		{"another boundary", strings.ReplaceAll(modelPart+"m1\n--b--", "--b", "--c"), missing},
		{"in the file", "--b\nContent-Disposition: form-data; name=\"file\"; filename=\"a\"\n\nname=\"model\"\n\nm1\n--b--", missing},
		{"nothing", "", missing},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			form := []byte(crlf(tt.form))
			value, found := formField(form, "b", "model")
			require.Equal(t, tt.want != missing, found)
			if found {
				require.Equal(t, tt.want, string(value.of(form)))
			}
		})
	}
}

// Where the standard library finds exactly one field of the name in a whole form, so does this; whatever the bytes are, it stays within
// them.
func FuzzFormField(f *testing.F) {
	for _, seed := range []string{modelPart + "m1\n--b--\n", filePart + modelPart + "m1\n--b--", "--b\n\n--b--", "--b--", "x\n--b\n\n\n--b \n"} {
		f.Add([]byte(crlf(seed)))
	}
	f.Fuzz(func(t *testing.T, form []byte) {
		value, found := formField(form, "b", "model")
		if found {
			require.LessOrEqual(t, value.start, value.end)
			require.LessOrEqual(t, int(value.end), len(form))
			require.False(t, bytes.Contains(value.of(form), []byte("\r\n--b\r")))
		}
		if bare(form) {
			return // it takes line ends that no client sends
		}
		want, unique := standardField(form)
		if unique {
			require.True(t, found)
			require.Equal(t, want, string(value.of(form)))
		}
	})
}

// bare tells whether a form has line ends that are not CRLF.
func bare(form []byte) bool {
	return bytes.Count(form, []byte("\n")) != bytes.Count(form, []byte("\r\n"))
}

// standardField is what the standard library makes of a whole form.
func standardField(form []byte) (value string, unique bool) {
	parts := multipart.NewReader(bytes.NewReader(form), "b")
	seen := 0
	for {
		part, err := parts.NextRawPart()
		if err == io.EOF {
			return value, seen == 1
		}
		if err != nil {
			return "", false
		}
		content, err := io.ReadAll(part)
		if err != nil {
			return "", false
		}
		if part.FormName() == "model" && part.FileName() == "" && len(part.Header.Values("Content-Disposition")) == 1 {
			value, seen = string(content), seen+1
		}
	}
}
