//go:build linux && (amd64 || arm64)

package cuda

// This file tests how devices are made to reach each other's memory.

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/pintensor/pin/internal/leak"
)

func TestShare(t *testing.T) {
	const notPermitted = 800
	for name, c := range map[string]struct {
		peers   int32
		enabled int // what cuCtxEnablePeerAccess returns
		missing string
		direct  bool
		fails   bool
		calls   string
	}{
		"can":             {peers: 1, direct: true, calls: "CanAccessPeer EnablePeerAccess SetAccess"},
		"can, done":       {peers: 1, enabled: peerAlreadyEnabled, direct: true, calls: "CanAccessPeer EnablePeerAccess SetAccess"},
		"can't":           {peers: 0, calls: "CanAccessPeer"},
		"may not":         {peers: 1, enabled: notPermitted, fails: true, calls: "CanAccessPeer EnablePeerAccess"},
		"no pool":         {peers: 1, missing: "cuMemPoolCreate", direct: true, calls: "CanAccessPeer EnablePeerAccess"},
		"only the memory": {peers: 1, missing: "cuMemPoolSetAccess", calls: "CanAccessPeer"}, // not the pool's
	} {
		t.Run(name, func(t *testing.T) {
			leak.Check(t)
			l := newFake(t)
			l.peers = c.peers
			if c.missing != "" {
				l.missing = []string{c.missing}
			}
			l.fail["cuCtxEnablePeerAccess"] = c.enabled
			_, d := openFake(t, l, 0)
			l.took()
			direct, err := d.Share(fakeContext + 1)
			if direct != c.direct || c.fails != (err != nil) || err != nil && !strings.Contains(err.Error(), "cuCtxEnablePeerAccess") {
				t.Errorf("Share: %v, %v", direct, err)
			}
			var calls []string
			for _, call := range l.took() {
				for _, part := range []string{"CanAccessPeer", "EnablePeerAccess", "SetAccess"} {
					if strings.Contains(call, part) {
						calls = append(calls, part)
					}
				}
				if strings.Contains(call, "CanAccessPeer") && !strings.HasSuffix(call, " 1 0]") || // can device 1 reach device 0
					strings.Contains(call, "EnablePeer") && call != fmt.Sprintf("cuCtxEnablePeerAccess[%x 0]", fakeContext) ||
					strings.Contains(call, "SetAccess") && (!strings.HasPrefix(call, fmt.Sprintf("cuMemPoolSetAccess[%x ", d.pool)) || !strings.HasSuffix(call, " 1]")) {
					t.Errorf("made the call %s", call)
				}
			}
			if got := strings.Join(calls, " "); got != c.calls {
				t.Errorf("made the calls %q, want %q", got, c.calls)
			}
			if want := [3]int32{1, 1, 3}; slices.Contains(calls, "SetAccess") && l.access != want {
				t.Errorf("asked for the access %v, want %v", l.access, want)
			}
			if direct, err := d.Share(d.Peer()); !direct || err != nil || len(l.took()) != 0 {
				t.Errorf("Share with itself: %v, %v", direct, err)
			}
			if err := d.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}
