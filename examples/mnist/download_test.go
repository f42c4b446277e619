package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
)

func TestLocate(t *testing.T) {
	check(t)
	t.Setenv("MNIST_DIR", "of the environment")
	for flag, want := range map[string]string{"of the flag": "of the flag", "": "of the environment"} {
		if got, err := locate(context.Background(), flag); got != want || err != nil {
			t.Errorf("locate(%q) = %q, %v, want %q", flag, got, err, want)
		}
	}
}

// Without the go command the user must learn what else can be done.
func TestLocateWithoutGo(t *testing.T) {
	check(t)
	t.Setenv("MNIST_DIR", "")
	t.Setenv("PATH", t.TempDir())
	_, err := locate(context.Background(), "")
	if !errors.Is(err, exec.ErrNotFound) || !strings.Contains(err.Error(), "-data or MNIST_DIR") {
		t.Errorf("error %v, want exec.ErrNotFound and what to do", err)
	}
}

// An unreachable proxy and an empty cache stand for a machine without a network.
func TestLocateWithoutNetwork(t *testing.T) {
	check(t)
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("no go command")
	}
	t.Setenv("MNIST_DIR", "")
	t.Setenv("GOMODCACHE", t.TempDir())
	t.Setenv("GOPROXY", "off")
	_, err := locate(context.Background(), "")
	if err == nil || !strings.Contains(err.Error(), dataModule) || !strings.Contains(err.Error(), "GOPROXY=off") {
		t.Errorf("error %v, want the module's name and go's own reason", err)
	}
}

func TestLocateCanceled(t *testing.T) {
	check(t)
	t.Setenv("MNIST_DIR", "")
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := locate(ctx, ""); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want context.Canceled", err)
	}
}

func TestParseDownload(t *testing.T) {
	check(t)
	for output, want := range map[string]string{
		`{"Dir": "/cache/m", "Sum": "` + dataSum + `"}`: "/cache/m <nil>",
		`{"Dir": "/cache/m", "Sum": "h1:other"}`:        ` checksum "h1:other", expected "` + dataSum + `"`,
		`{"Error": "no such host"}`:                     " no such host",
		`{"Sum": "` + dataSum + `"}`:                    " its output names no folder",
		`go: unknown subcommand`:                        " its output: invalid character 'g' looking for beginning of value",
		``:                                              " its output: unexpected end of JSON input",
	} {
		dir, err := parseDownload([]byte(output))
		if got := fmt.Sprint(dir, " ", err); got != want {
			t.Errorf("parseDownload(%s) = %q, want %q", output, got, want)
		}
	}
}

// TestMain keeps the tests away from files that the environment names: each test says where its own are.
func TestMain(m *testing.M) {
	os.Unsetenv("MNIST_DIR")
	os.Exit(m.Run())
}
