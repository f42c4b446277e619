package pin_test

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestReadme keeps the README true: its Go code is code of example_test.go, which runs, and its
// commands are targets of the Makefile.
func TestReadme(t *testing.T) {
	readme, examples, makefile := read(t, "README.md"), read(t, "example_test.go"), read(t, "Makefile")
	if lines := strings.Count(readme, "\n"); lines > 200 {
		t.Errorf("README.md has %d lines, want at most 200", lines)
	}
	blocks := regexp.MustCompile("(?s)```(\\w+)\n(.*?)```").FindAllStringSubmatch(readme, -1)
	seen := map[string]int{}
	for _, block := range blocks {
		seen[block[1]]++
		switch block[1] {
		case "go":
			if !strings.Contains(examples, block[2]) {
				t.Errorf("README.md has Go code that example_test.go has not:\n%s", block[2])
			}
		case "sh":
			for line := range strings.Lines(block[2]) {
				command, _, _ := strings.Cut(line, "#")
				target, isMake := strings.CutPrefix(strings.TrimSpace(command), "make ")
				if !isMake || !strings.Contains(makefile, "\n"+target+":") {
					t.Errorf("README.md has the command %q, which is no target of the Makefile", command)
				}
			}
		default:
			t.Errorf("README.md has a block of %q that nothing checks", block[1])
		}
	}
	if seen["go"] == 0 || seen["sh"] == 0 {
		t.Errorf("found %v in README.md, want blocks of go and of sh", seen)
	}
	prose := regexp.MustCompile("(?s)```.*?```").ReplaceAllString(readme, "")
	for _, link := range regexp.MustCompile(`\]\(([^)]*)\)`).FindAllStringSubmatch(prose, -1) {
		if strings.HasPrefix(link[1], "https://") {
			continue
		}
		if _, err := os.Stat(link[1]); err != nil {
			t.Errorf("README.md links to %s: %v", link[1], err)
		}
	}
}

func read(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
