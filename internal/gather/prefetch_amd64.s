#include "textflag.h"

// Into the second-level cache: prefetched into the first, lines of memory hold up those that copies wait for.

// func prefetch(base *byte, size, reach int, indices *int, n int)
TEXT ·prefetch(SB), NOSPLIT, $0-40
	MOVQ base+0(FP), SI
	MOVQ size+8(FP), BX
	MOVQ reach+16(FP), R8
	MOVQ indices+24(FP), DI
	MOVQ n+32(FP), CX

row:
	MOVQ  (DI), AX
	IMULQ BX, AX
	ADDQ  SI, AX
	LEAQ  (AX)(R8*1), DX
	ANDQ  $~63, AX

line:
	PREFETCHT1 (AX)
	ADDQ $64, AX
	CMPQ AX, DX
	JCS  line
	ADDQ $8, DI
	DECQ CX
	JNZ  row
	RET
