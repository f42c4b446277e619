// Package dataloader feeds a training loop with batches: samples of a [Dataset], read in parallel ahead
// of the loop, straight into page-locked memory, and copied to a device in the background where one is
// given.
//
//	loader, err := dataloader.New(set, dataloader.Config{BatchSize: 64, Shuffle: true, Seed: 1})
//	...
//	defer loader.Close()
//	for range epochs {
//		for batch, err := range loader.Batches(ctx) {
//			if err != nil {
//				return err
//			}
//			if err := gorgonia.Let(x, batch.Host(0)); err != nil {
//				return err
//			}
//			...
//		}
//	}
//
// It is PyTorch's DataLoader, with goroutines for processes:
//
//	Dataset.__getitem__, __getitems__    Dataset.Read, BatchReader.ReadBatch
//	Sampler, BatchSampler                Sampler, BatchSampler
//	TensorDataset                        FromTensors
//	IterableDataset                      FromStream
//	Subset, random_split                 Subset, RandomSplit, RandomSplitFractions
//	ConcatDataset, StackDataset          Concat, Zip
//	transform                            Map, MapInPlace
//	MultiNodeWeightedSampler             Interleave
//	SequentialSampler, RandomSampler     Sequential, Random, RandomWithReplacement
//	SubsetRandomSampler                  SubsetRandom, FromIndices
//	WeightedRandomSampler                Weighted
//	BatchSampler(sampler, ...)           Batched
//	(none: batches of similar length)    Bucketed
//	DistributedSampler                   Config.Rank, Config.WorldSize, FromEnv
//	shuffle, generator                   Config.Shuffle, Config.Seed
//	drop_last                            Config.LastBatch
//	num_workers, prefetch_factor         Config.Workers, Config.Prefetch
//	pin_memory, .to(non_blocking=True)   always; Config.Stream
//	in_order                             Config.Unordered
//	collate_fn                           none: a Read writes into the batch itself
//	pad_sequence                         Field.Pad, Ragged, WithLengths, WithMask
//	strings in a batch                   Row.SetMeta, Batch.Meta
//	persistent_workers                   always, and they read the next epoch ahead; Config.SingleEpoch
//	StatefulDataLoader.state_dict        Loader.State, Loader.Restore
//
// Data sets of files are in packages of their own, which read them where they are, check them, and say in errors which
// file, and what in it, is wrong:
//
//	dataloader/idx            IDX, the format of MNIST; .gz
//	dataloader/npy            NumPy's .npy and .npz, mapped into memory
//	dataloader/tokens         windows of a file of tokens, as nanoGPT's get_batch
//	dataloader/imagefolder    images, a folder a class, with resizing and crops: torchvision's ImageFolder
//	dataloader/tarshard       tar files of samples, as WebDataset's; .tar.gz, .tar.zst
//	dataloader/csvfile        CSV
//
// # Order
//
// Which samples a batch has, and what [Row.Rand] gives each of them, are functions of the seed, the epoch
// and the sample alone: the same for one worker and for sixteen, on another machine, and after
// [Loader.Restore]. Epochs advance by themselves, each with its own order. A shuffle computes each
// place of an order by itself (a Feistel network), and so needs no memory that grows with the data
// set, and any batch can be read without those before it.
//
// # Ownership
//
// A batch is the Loader's, and valid until the next turn of the loop; [Batch.Keep] makes it the caller's
// until [Batch.Release]. The memory is used again: at most Config.Prefetch batches and the one in the
// loop's hands are in memory at once, besides kept ones. It is given back by [Loader.Close].
// A batch on the device is overwritten only after the work that used it; a host tensor of a batch only
// after its turn, and after the copies that read it, those included that the loop's body has started with package
// asynccopy: while they run the Loader takes other memory in its place.
//
// Tensors of batches are ordinary ones with the standard engine of package tensor. They never share
// memory with the data set, so that what a graph does to its inputs does not reach it.
//
// # Concurrency
//
// A Loader's methods may be called from any goroutine, but one loop runs at a time. Workers are
// goroutines: a Dataset and samplers are called from several at once. A large batch is read by several
// of them together.
//
// A loop that waits for its batch keeps its core busy for 20 µs before it sleeps; for 200 µs if its waits are usually shorter
// than that and there are fewer workers than cores, since a worker that has to wake it takes longer than one that need not.
//
// While the last batches of an epoch are consumed workers read the first of the next one, as many as fit in
// the memory that there is anyway, so that only the first loop begins with a wait. When a loop is over they
// finish that and end: no goroutine is left, but for a Read that does not return though its context is
// done, see [Config.Timeout]. What was read ahead is dropped if the next loop is over something else, by
// SetEpoch, Restore or a break. So Read may be called for samples that no loop gets to see, and before
// what a program does between two loops: see [Config.SingleEpoch].
//
// # Is data the limit
//
// [Loader.Stats] as text says so, and what would help:
//
//	48000 samples in 2.1s (22857/s, 150.7 MB), waiting 61% of it: reading is the limit; 2 workers, 4 batches ahead: more Workers, a ReadBatch, or a cheaper Read would help
//
// Under runtime/trace (go test -trace, net/http/pprof) reads, copies and waits are regions named dataloader.Read,
// dataloader.Copy and dataloader.Wait; where the stream's device has a trace ([asynccopy.WithTrace]) they are in that
// too.
//
// # Errors
//
// A Read that fails is reported in its batch's place, as a [*SampleError], or its sample is left out, see
// [Config.OnError]; a panic in it is raised again in the loop, as a [*PanicError] with the worker's
// stack. A reader says of its errors whether they pass, by a [*RetryError], and that they are no fault of the sample's, by a
// [*FatalError]. A loop that goes on after an error gets the next batch. See [Loader.Batches] for errors that end it.
//
// # Platforms
//
// All that Go runs on. Without a device the memory of batches is locked with mlock where the system
// allows, and ordinary where not; the package works in the same way.
package dataloader
