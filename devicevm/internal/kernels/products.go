package kernels

// This file says which kernels multiply matrices, and what they take.

// Product is a product of matrices C = A B, either transposed, in batches, and what its elements then go through. C is
// contiguous: that of a whole batch is what Then has results of. Flags are 0 or 1.
type Product struct {
	BatchA, BatchB         uint64  // elements from one matrix of the batch to the next; 0: it is one for all
	M, N, K                uint32  // C is M x N, A M x K, B K x N, after transposition
	RowA, RowB             uint32  // elements from one row to the next
	TransposeA, TransposeB uint32  // flags
	VectorsA, VectorsB     uint32  // flags: each row begins at a multiple of 16 bytes
	Images                 uint32  // not 1: so many products, BatchA and BatchB apart, are added up to one; the batch is 1 then
	Depth                  uint32  // K, or the Images, are summed in parts, each of Depth (of K a multiple of 4) but the last
	PlacesA                uint32  // a flag, see Places
	Splits, Tiles, Across  Divisor // those parts; tiles of a C, and of a row of it
	Places                 Divisor // not by 0: columns are (image, place), and C is (image, M, place); with PlacesA rows, or K if A is not transposed, is, and images of A are BatchA apart
	Then                   Expression
}

// ProductKernel is a kernel of products. A block computes a tile of Rows x Columns of one C, or a part of its sum over k: there
// are batch * tiles * splits blocks, in that order. Its parameters are
//
//	a, b      addresses
//	partial   of room for Rows * Columns elements for each block, where there is more than one part
//	arrived   of a 32-bit counter for each tile of each C, where there is more than one part: 0 before, and 0 again after
//	a [Product], by value
type ProductKernel struct {
	Name          string
	Rows, Columns uint32
	Chunk         uint32 // of k that a block takes at a time
	Plain         bool   // it takes no parts, and nothing then but a result
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

// Divide sets how a kernel divides the product: among tiles, and in parts of depth. It returns how many tiles a batch of
// results has.
func (p *Product) Divide(k ProductKernel, batch, depth uint32) (tiles uint32) {
	up := func(n, by uint32) uint32 { return (n + by - 1) / by }
	deep := p.K
	if p.Images > 1 {
		deep = p.Images
	}
	across := up(p.N, k.Columns)
	tiles = across * up(p.M, k.Rows)
	p.Across, p.Tiles, p.Splits, p.Depth = NewDivisor(across), NewDivisor(tiles), NewDivisor(up(deep, depth)), depth
	return batch * tiles
}
