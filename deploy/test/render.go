// Renders the chart as `helm template` does, for a machine without Helm: the same template language (Go's text/template), and of Helm's
// functions those that the chart has.
//
//	go run render.go CHART VALUES.json RELEASE
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"text/template"
)

type object = map[string]any

func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// JSON is YAML; but a mapping is to stand below another key, so that its own keys are lines.
func toYaml(value any) string {
	mapping, is := value.(object)
	if !is || len(mapping) == 0 {
		text, err := json.Marshal(value)
		fail(err)
		return string(text)
	}
	lines := []string{}
	for key, value := range mapping {
		text, err := json.Marshal(value)
		fail(err)
		lines = append(lines, fmt.Sprintf("%q: %s", key, text))
	}
	sort.Strings(lines)
	return strings.Join(lines, "\n")
}

func number(value any) int {
	switch n := value.(type) {
	case int:
		return n
	case float64:
		return int(n)
	}
	panic(fmt.Sprintf("%v is no number", value))
}

func indent(spaces int, text string) string {
	pad := strings.Repeat(" ", spaces)
	return pad + strings.ReplaceAll(text, "\n", "\n"+pad)
}

func main() {
	chart, release := os.Args[1], os.Args[3]
	text, err := os.ReadFile(os.Args[2])
	fail(err)
	values := object{}
	fail(json.Unmarshal(text, &values))
	root := template.New("chart").Option("missingkey=error")
	root.Funcs(template.FuncMap{
		"toYaml":  toYaml,
		"quote":   func(value any) string { return fmt.Sprintf("%q", fmt.Sprint(value)) },
		"nindent": func(spaces int, text string) string { return "\n" + indent(spaces, text) },
		"add": func(values ...any) int {
			sum := 0
			for _, value := range values {
				sum += number(value)
			}
			return sum
		},
		"join": func(between string, list []any) string {
			parts := []string{}
			for _, part := range list {
				parts = append(parts, fmt.Sprint(part))
			}
			return strings.Join(parts, between)
		},
		"include": func(name string, data any) (string, error) {
			out := strings.Builder{}
			err := root.ExecuteTemplate(&out, name, data)
			return out.String(), err
		},
	})
	files, err := filepath.Glob(filepath.Join(chart, "templates", "*"))
	fail(err)
	for _, file := range files {
		text, err := os.ReadFile(file)
		fail(err)
		_, err = root.New(filepath.Base(file)).Parse(string(text))
		fail(err)
	}
	data := object{"Values": values, "Release": object{"Name": release, "Namespace": "speech"}}
	for _, file := range files {
		if strings.HasSuffix(file, ".yaml") {
			fmt.Println("---")
			fail(root.ExecuteTemplate(os.Stdout, filepath.Base(file), data))
		}
	}
}
