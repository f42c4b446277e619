package driver

// This file has copies between devices.

// Peer stands for a device in calls on other devices of the same Driver. Zero is none.
type Peer uintptr

// PeerCopier copies from other devices of its Driver.
type PeerCopier interface {
	// Peer returns what stands for this device, as long as it is open.
	Peer() Peer

	// Share lets another device read and write this device's memory, also what is allocated later, and
	// reports whether the two can do that. It may be repeated, and costs nothing then but time.
	Share(with Peer) (direct bool, err error)

	// CopyPeer issues a copy of n bytes to this device's memory at dst from another's at src, on s, a stream
	// of this device, then records done on s unless done is zero. n may be zero. If the other device shares
	// its memory with this one, the copy doesn't go through the host.
	CopyPeer(dst, src DevicePtr, from Peer, n int64, s Stream, done Event) error
}
