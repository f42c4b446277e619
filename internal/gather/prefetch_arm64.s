#include "textflag.h"

// Into the second-level cache: prefetched into the first, lines of memory hold up those that copies wait for.

// func prefetch(base *byte, size, reach int, indices *int, n int)
TEXT ·prefetch(SB), NOSPLIT, $0-40
	MOVD base+0(FP), R0
	MOVD size+8(FP), R1
	MOVD reach+16(FP), R2
	MOVD indices+24(FP), R3
	MOVD n+32(FP), R4

row:
	MOVD.P 8(R3), R5
	MADD   R1, R0, R5, R5
	ADD    R2, R5, R6
	AND    $~63, R5

line:
	PRFM (R5), PLDL2KEEP
	ADD  $64, R5
	CMP  R6, R5
	BLO  line
	SUB  $1, R4
	CBNZ R4, row
	RET
