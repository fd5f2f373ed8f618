/* Stands in for cuRAND in tests of packaging/test-cuda: its numbers depend on the seed and on the code that the driver
 * takes from the first of its fatbins, which are in the file `fatbins`. */
#include <stddef.h>

int cuModuleLoadData(void **module, const void *data);
int cuModuleGetFunction(void **function, void *module, const char *name);
int cuFuncGetAttribute(int *value, int attribute, void *function);

__asm__(".section .nv_fatbin,\"a\"\n.balign 8\nfatbins: .incbin \"fatbins\"\n.previous");
extern const char fatbins[] __attribute__((visibility("hidden")));

static struct {
  int magic, version;
  const void *data, *rest;
} wrapper __attribute__((section(".nvFatBinSegment"))) = {0x466243b1, 1, fatbins, NULL};

static unsigned long long seed_of_generator;

int curandCreateGenerator(void **generator, int kind) {
  *generator = &seed_of_generator;
  return kind != 100;
}

int curandSetPseudoRandomGeneratorSeed(unsigned long long *generator, unsigned long long seed) {
  *generator = seed;
  return 0;
}

int curandGenerateUniform(unsigned long long *generator, float *numbers, size_t count) {
  void *module, *function;
  int binary;
  const void *volatile *data = &wrapper.data;
  if (cuModuleLoadData(&module, *data) || cuModuleGetFunction(&function, module, "kernel"))
    return 204;
  cuFuncGetAttribute(&binary, 6, function);
  for (size_t at = 0; at < count; at++)
    numbers[at] = (float)((*generator + at) % 1000 + binary);
  return 0;
}
