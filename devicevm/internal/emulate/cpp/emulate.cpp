// Exports the kernels to the tests by name. kernels.inc, made by the test from the names in the PTX, has a line
// KERNEL(name) for each.
#include "kernels.cu"

#define KERNEL(name) {#name, [](void **args) { call(name, args); }},
static const struct {
  const char *name;
  void (*run)(void **);
} kernels[] = {
#include "kernels.inc"
};

// emulate runs a kernel. It returns -1 if there is none of that name.
extern "C" int emulate(const char *name, const u32 *grid, u32 threads, void **args) {
  for (auto &k : kernels)
    if (strcmp(k.name, name) == 0) return run(k.run, grid, threads, args);
  return -1;
}

// size is how large C++ finds a struct, for the test that Go finds the same.
extern "C" int size(const char *name) {
#define SIZE(type) if (strcmp(name, #type) == 0) return sizeof(type)
  SIZE(Operand);
  SIZE(Expression);
  SIZE(Stage);
  SIZE(Sequence);
  SIZE(Product);
  SIZE(View);
  SIZE(Window);
  SIZE(PoolDiff);
  SIZE(Settings);
  SIZE(Parameters);
  SIZE(Run);
  return -1;
}
