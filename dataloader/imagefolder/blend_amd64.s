#include "textflag.h"

// Sums are of 32 bits, as those in Go: 8 of a byte, 22 of a weight, and one for the sign. Half of what is shifted out is in them
// from the start, so that they are rounded.

DATA half<>+0(SB)/4, $0x00200000
GLOBL half<>(SB), RODATA|NOPTR, $4

// func blendPixels(dst, src *byte, step, left int, first, count *int, weights *int32, per, n int)
TEXT ·blendPixels(SB), NOSPLIT, $0-72
	MOVQ dst+0(FP), DI
	MOVQ src+8(FP), SI
	MOVQ step+16(FP), R8
	MOVQ left+24(FP), BX
	MOVQ first+32(FP), R9
	MOVQ count+40(FP), R10
	MOVQ weights+48(FP), R11
	MOVQ per+56(FP), R12
	MOVQ n+64(FP), R13
	SHLQ $2, R12
	VPBROADCASTD half<>(SB), X3

pixel:
	MOVQ    (R9), AX
	SUBQ    BX, AX
	IMULQ   R8, AX
	ADDQ    SI, AX
	MOVQ    R11, DX
	MOVQ    (R10), CX
	VMOVDQA X3, X0
	TESTQ   CX, CX
	JLE     summed

tap:
	VPMOVZXBD    (AX), X1
	VPBROADCASTD (DX), X2
	VPMULLD      X2, X1, X1
	VPADDD       X1, X0, X0
	ADDQ         R8, AX
	ADDQ         $4, DX
	DECQ         CX
	JNZ          tap

summed:
	VPSRAD       $22, X0, X0
	VPACKUSDW    X0, X0, X0
	VPACKUSWB    X0, X0, X0
	VMOVD        X0, AX
	MOVL         AX, (DI)
	ADDQ         $3, DI
	ADDQ         $8, R9
	ADDQ         $8, R10
	ADDQ         R12, R11
	DECQ         R13
	JNZ          pixel
	VZEROUPPER
	RET

// func stackColumns(dst, rows *byte, line int, weights *int32, count, n int)
TEXT ·stackColumns(SB), NOSPLIT, $0-48
	MOVQ dst+0(FP), DI
	MOVQ rows+8(FP), SI
	MOVQ line+16(FP), R8
	MOVQ weights+24(FP), R11
	MOVQ count+32(FP), R12
	MOVQ n+40(FP), R13
	VPBROADCASTD half<>(SB), Y5

columns:
	MOVQ    SI, AX
	MOVQ    R11, DX
	MOVQ    R12, CX
	VMOVDQA Y5, Y0
	VMOVDQA Y5, Y1

row:
	VPBROADCASTD (DX), Y4
	VPMOVZXBD    (AX), Y2
	VPMOVZXBD    8(AX), Y3
	VPMULLD      Y4, Y2, Y2
	VPMULLD      Y4, Y3, Y3
	VPADDD       Y2, Y0, Y0
	VPADDD       Y3, Y1, Y1
	ADDQ         R8, AX
	ADDQ         $4, DX
	DECQ         CX
	JNZ          row
	VPSRAD       $22, Y0, Y0
	VPSRAD       $22, Y1, Y1
	VPACKUSDW    Y1, Y0, Y0   // sums 0-3, 8-11, 4-7, 12-15
	VPERMQ       $0xd8, Y0, Y0
	VEXTRACTI128 $1, Y0, X1
	VPACKUSWB    X1, X0, X0
	VMOVDQU      X0, (DI)
	ADDQ         $16, SI
	ADDQ         $16, DI
	SUBQ         $16, R13
	JNZ          columns
	VZEROUPPER
	RET
