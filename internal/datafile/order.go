package datafile

// Byte order.

import (
	"encoding/binary"
	"math/bits"
	"unsafe"
)

// BigEndian says whether this machine's numbers have their highest byte first.
var BigEndian = binary.NativeEndian.Uint16([]byte{0, 1}) == 1

// Swap reverses the bytes of each number of size bytes in p: 2, 4 or 8. p must be aligned for such numbers.
func Swap(p []byte, size int) {
	first := unsafe.Pointer(unsafe.SliceData(p))
	switch size {
	case 2:
		words := unsafe.Slice((*uint16)(first), len(p)/2)
		for i, x := range words {
			words[i] = bits.ReverseBytes16(x)
		}
	case 4:
		words := unsafe.Slice((*uint32)(first), len(p)/4)
		for i, x := range words {
			words[i] = bits.ReverseBytes32(x)
		}
	case 8:
		words := unsafe.Slice((*uint64)(first), len(p)/8)
		for i, x := range words {
			words[i] = bits.ReverseBytes64(x)
		}
	}
}
