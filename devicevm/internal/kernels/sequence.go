package kernels

// This file has the arguments of the kernel that computes several steps.

import "slices"

// StageKind is what a stage of a [Sequence] computes.
type StageKind uint32

const (
	Express StageKind = iota // an expression, an element a thread
	Softmax
	LogSoftmax
	SoftmaxDiff // of Softmax's result and its gradient
	LogSoftmaxDiff
	SumRows // a number for each row
	MaxRows
)

// Stage computes rows of Width elements: of the results of an expression, of the operand of others. Together is how many
// rows a block takes at a time, 1, 8 or [Threads]: a row by a block, a warp or a thread; softmax's never by a thread. The
// others say which of the sequence's operands, instructions and results are the stage's: the first, and how many.
type Stage struct {
	Kind                            StageKind
	Rows, Width, Together           uint32
	Operand, Operands, Code, Length uint32
	Result                          uint32
	Wide                            uint32 // an expression's, if each block begins at a multiple of as many elements
}

// What a [Sequence] has room for.
const (
	MaxStages               = 8
	MaxSequenceOperands     = 20
	MaxSequenceResults      = 12
	MaxSequenceInstructions = 64
)

// Sequence is stages, one after the other, by one kernel. A block computes Each rows of all stages, see Divide. With
// several blocks all stages have the same rows, and none needs what another row's stages compute.
type Sequence struct {
	Stages, Each uint32
	Stage        [MaxStages]Stage
	Operand      [MaxSequenceOperands]Operand
	Result       [MaxSequenceResults]uint64
	Code         [MaxSequenceInstructions]uint32
}

// Add adds a stage that evaluates e, whose results are of stage's size, or computes what its Kind says of e's operands. It
// reports whether there was room.
func (s *Sequence) Add(stage Stage, e *Expression) bool {
	if s.Stages == MaxStages {
		return false
	}
	if s.Stages > 0 {
		last := s.Stage[s.Stages-1]
		stage.Operand, stage.Code = last.Operand+last.Operands, last.Code+last.Length
		stage.Result = last.Result + used(s.Result[last.Result:])
	}
	stage.Operands, stage.Length, stage.Wide = e.Operands, e.Length, e.Wide
	results := used(e.Result[:])
	if stage.Operand+e.Operands > MaxSequenceOperands || stage.Code+e.Length > MaxSequenceInstructions || stage.Result+results > MaxSequenceResults {
		return false
	}
	copy(s.Operand[stage.Operand:], e.Operand[:e.Operands])
	copy(s.Code[stage.Code:], e.Code[:e.Length])
	copy(s.Result[stage.Result:], e.Result[:results])
	s.Stage[s.Stages] = stage
	s.Stages++
	return true
}

// Divide says how many rows a block computes.
func (s *Sequence) Divide(each uint32) {
	s.Each = each
	for i := range s.Stage[:s.Stages] {
		if each < s.Stage[i].Rows && each*s.Stage[i].Width%wide != 0 {
			s.Stage[i].Wide = 0
		}
	}
}

// used is how many addresses there are before the first 0.
func used(results []uint64) uint32 {
	if n := slices.Index(results, 0); n >= 0 {
		return uint32(n)
	}
	return uint32(len(results))
}
