package dataloader

// What samples have besides numbers: names, file paths, whatever is not for the device.

// SetMeta attaches v to the sample, for [Batch.Meta]: a name, a text, a struct. It replaces what was attached
// before, by a set that this one is made of perhaps. It may be called in a Read or ReadBatch.
func (r Row) SetMeta(v any) {
	for r.b.origin.b != nil {
		r = r.b.origin.Row(r.k)
	}
	r.b.makeMeta()[r.k] = v
}

// Meta returns what is attached to the sample, or nil.
func (r Row) Meta() any {
	for r.b.origin.b != nil {
		r = r.b.origin.Row(r.k)
	}
	if meta := r.b.meta.Load(); meta != nil {
		return (*meta)[r.k]
	}
	return nil
}

// makeMeta makes room for what is attached to rows. Workers that fill one batch may get here at once.
func (b *buffer) makeMeta() []any {
	if meta := b.meta.Load(); meta != nil {
		return *meta
	}
	made := make([]any, len(b.indices))
	if b.meta.CompareAndSwap(nil, &made) {
		return made
	}
	return *b.meta.Load()
}

// takeMeta returns what is attached to the first n rows, nil if nothing is. It is whoever's that takes it: nothing
// of it is used again.
func (b *buffer) takeMeta(n int) []any {
	meta := b.meta.Load()
	if meta == nil {
		return nil
	}
	b.meta.Store(nil)
	return (*meta)[:n:n]
}

// dropMeta forgets what is attached to all rows.
func (b *buffer) dropMeta() {
	if b.meta.Load() != nil {
		b.meta.Store(nil)
	}
}

// moveMeta moves what is attached to row from to row to. Rows that fill a batch up have nothing.
func (b *buffer) moveMeta(to, from int) {
	if meta := b.meta.Load(); meta != nil && to < len(*meta) {
		(*meta)[to] = (*meta)[from]
	}
}

// forgetMeta forgets what is attached to row k: it is read again.
func (b *buffer) forgetMeta(k int) {
	if meta := b.meta.Load(); meta != nil {
		(*meta)[k] = nil
	}
}
