// Package ownfile types the paths of the operator's files, so that the files that agents must not read or change are
// collected from the settings by type. A list of them would miss the next one.
package ownfile

import (
	"os"
	"reflect"
	"strings"
	"unicode"
)

type (
	// Secret is the path of a file or folder that agents must neither read nor change.
	Secret string
	// Config is the path of a file that configures or judges. Agents may read it and must not change it.
	Config string
)

// Read returns the content of the file.
func (c Config) Read() ([]byte, error) { return os.ReadFile(string(c)) }

// File is a file that a setting names.
type File struct {
	Path   string
	Secret bool
	// Setting is the flag that names the file, as in "--policy-file". Two members of one list have the same.
	Setting string
}

// Namer is a setting whose text is more than a path, or whose file names further files.
type Namer interface{ Files() []File }

// Collect returns the files that are named in v: the values of type Secret, Config and Namer in structs, lists and maps.
func Collect(v any) []File {
	c := collector{seen: make(map[uintptr]bool)}
	c.walk(reflect.ValueOf(v), "")
	return c.found
}

type collector struct {
	found []File
	seen  map[uintptr]bool // pointers
}

func (c *collector) walk(v reflect.Value, setting string) {
	if !v.IsValid() {
		return
	}
	if v.CanInterface() {
		if namer, ok := v.Interface().(Namer); ok {
			for _, file := range namer.Files() {
				file.Setting = setting
				c.add(file)
			}
			return
		}
	}
	switch v.Type() {
	case reflect.TypeFor[Secret](), reflect.TypeFor[Config]():
		c.add(File{Path: v.String(), Secret: v.Type() == reflect.TypeFor[Secret](), Setting: setting})
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() || c.seen[v.Pointer()] {
			return
		}
		c.seen[v.Pointer()] = true
		c.walk(v.Elem(), setting)
	case reflect.Interface:
		c.walk(v.Elem(), setting)
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			c.walk(v.Index(i), setting)
		}
	case reflect.Map:
		for _, key := range v.MapKeys() {
			c.walk(v.MapIndex(key), setting)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			field := v.Type().Field(i)
			name := setting
			if _, embedded := field.Tag.Lookup("embed"); name == "" && !embedded {
				name = flagName(field)
			}
			c.walk(v.Field(i), name)
		}
	default: // no path
	}
}

func (c *collector) add(file File) {
	if file.Path != "" {
		c.found = append(c.found, file)
	}
}

// flagName is the flag of a field, by kong's rule: its tag, else its words with hyphens.
func flagName(field reflect.StructField) string {
	if name := field.Tag.Get("name"); name != "" {
		return "--" + name
	}
	var b strings.Builder
	for i, r := range field.Name {
		if unicode.IsUpper(r) && i > 0 && !unicode.IsUpper(rune(field.Name[i-1])) {
			b.WriteByte('-')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return "--" + b.String()
}
