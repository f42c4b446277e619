package kernels

// This file says which kernels multiply matrices.

// ProductKernel is a kernel of matrix products C = A B, either transposed, in batches. A block computes a tile of Rows x Columns
// of one C, or a part of its sum over k: there are batch * tiles * splits blocks, in that order. Its parameters are
//
//	a, b      addresses
//	partial   of room for Rows * Columns elements for each block, where splits > 1
//	arrived   of a 32-bit counter for each tile of each C, where splits > 1: 0 before, and 0 again after
//	m, n, k   C is m x n, A m x k, B k x n, after transposition
//	rowA, rowB, batchA, batchB  elements from one row, and from one matrix of the batch (0: it is one for all), to the next; C is contiguous
//	images    not 1: so many products, of matrices as far apart as those of a batch, are added up to one; the batch is 1 then
//	splits, depth  k (or the images) is summed in so many parts, each of depth (of k a multiple of 4) but the last
//	transposeA, transposeB, vectorsA, vectorsB  0 or 1; vectors: each row begins at a multiple of 16 bytes
//	places    a Divisor's three numbers: By not 0: the columns are (image, place), and C is (image, m, place); the batch is 1 then
//	placesA   1: the rows are, and A, which is transposed, is (image, k, place), batchA from image to image; places are a multiple of 4 then
//	an [Expression] of what is done with C, of which a Plain kernel only looks for its first result
type ProductKernel struct {
	Name          string
	Rows, Columns uint32
	Chunk         uint32 // of k that a block takes at a time
	Plain         bool   // it takes no expression, and no splits
}

// Products lists the kernels, from those for the smallest results on.
func Products(float64s bool) []ProductKernel {
	list := []ProductKernel{{Name: "product_tiny", Rows: 16, Columns: 16}, {Name: "product_small", Rows: 32, Columns: 32},
		{Name: "product_medium", Rows: 64, Columns: 64}, {Name: "product_large", Rows: 128, Columns: 128, Plain: true}}
	words := uint32(1)
	if float64s {
		list[3].Rows, list[3].Columns, words = 64, 64, 2
	}
	for i := range list {
		list[i].Chunk = 4096 / (list[i].Rows + list[i].Columns) / words
	}
	return list
}
