package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
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

// Ctrl-C in the middle of a download ends the go command too. The proxy here never answers.
func TestInterruptedDownload(t *testing.T) {
	check(t)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	proxy := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		cancel()
		<-r.Context().Done()
	}))
	defer proxy.Close()
	t.Setenv("MNIST_DIR", "")
	t.Setenv("GOMODCACHE", t.TempDir())
	t.Setenv("GOPROXY", proxy.URL)
	err := run(ctx, nil, io.Discard, io.Discard)
	if err == nil || err.Error() != "interrupted while looking for the MNIST files" || status(err) != 130 {
		t.Errorf("error %v with status %d, want that it was interrupted, with 130", err, status(err))
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

// ownFiles is where the environment says that MNIST is, for what is measured on it when asked to.
var ownFiles = os.Getenv("MNIST_DIR")

// TestMain keeps the tests away from files that the environment names: each test says where its own are.
func TestMain(m *testing.M) {
	os.Unsetenv("MNIST_DIR")
	os.Exit(m.Run())
}
