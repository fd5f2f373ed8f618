/* Stands in for NVIDIA's driver in tests of packaging/test-cuda. It loads what a driver loads for the GPU of the compute
 * capability in STAND_IN_CAPABILITY, such as 86, by the headers of fatbins and cubins and by the text of PTX. It does not
 * read code: each module has every kernel. With STAND_IN_EXACT=1 it takes machine code only if that was built for exactly
 * this GPU, which a driver does not do. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { INVALID_IMAGE = 200, NO_BINARY = 209, NO_COMPILER = 223 };
enum { PTX = 1, CUBIN = 2, LATER_CUBIN = 16 };
enum { ARCHITECTURE = 0x100000, FAMILY = 0x200000 };

struct module {
  int binary, ptx;
};

static int capability(void) { return atoi(getenv("STAND_IN_CAPABILITY")); }

static int is_set(const char *name) {
  const char *value = getenv(name);
  return value && strcmp(value, "1") == 0;
}

static int runs_machine_code(int sm, uint64_t flags) {
  if (flags & ARCHITECTURE || is_set("STAND_IN_EXACT"))
    return sm == capability();
  return sm / 10 == capability() / 10 && sm <= capability();
}

static int compiles_ptx(int sm, uint64_t flags) {
  if (flags & ARCHITECTURE)
    return sm == capability();
  if (flags & FAMILY && sm / 10 != capability() / 10)
    return 0;
  return sm <= capability();
}

/* The number of `size` bytes at `at`. */
static uint64_t number(const unsigned char *at, int size) {
  uint64_t number = 0;
  memcpy(&number, at, size);
  return number;
}

static int choose(int cubin, int ptx, struct module *module) {
  if (cubin) {
    module->binary = module->ptx = cubin;
    return 0;
  }
  if (!ptx)
    return NO_BINARY;
  if (is_set("CUDA_DISABLE_PTX_JIT"))
    return NO_COMPILER;
  module->binary = capability();
  module->ptx = ptx;
  return 0;
}

static int load_fatbin(const unsigned char *data, struct module *module) {
  const unsigned char *entry = data + 16, *end = entry + number(data + 8, 8);
  int cubin = 0, ptx = 0;
  for (; entry < end; entry += number(entry + 4, 4) + number(entry + 8, 8)) {
    int kind = number(entry, 2), sm = number(entry + 28, 4);
    uint64_t flags = number(entry + 40, 8);
    if ((kind == CUBIN || kind == LATER_CUBIN) && sm > cubin && runs_machine_code(sm, flags))
      cubin = sm;
    if (kind == PTX && sm > ptx && compiles_ptx(sm, flags))
      ptx = sm;
  }
  return choose(cubin, ptx, module);
}

int cuModuleLoadData(struct module **loaded, const unsigned char *data) {
  struct module module;
  int code;
  if (number(data, 4) == 0xba55ed50) {
    code = load_fatbin(data, &module);
  } else if (memcmp(data, "\x7f" "ELF", 4) == 0) {
    /* The place of the architecture in e_flags depends on the version of the ABI. */
    int sm = data[8] >= 8 ? data[49] : data[48];
    code = choose(runs_machine_code(sm, 0) ? sm : 0, 0, &module);
  } else {
    const char *target = strstr((const char *)data, ".target sm_");
    if (!target)
      return INVALID_IMAGE;
    int sm = atoi(target + strlen(".target sm_"));
    code = choose(0, compiles_ptx(sm, 0) ? sm : 0, &module);
  }
  if (code)
    return code;
  *loaded = malloc(sizeof module);
  **loaded = module;
  return 0;
}

int cuModuleUnload(struct module *module) {
  free(module);
  return 0;
}

int cuModuleGetFunction(struct module **function, struct module *module, const char *name) {
  (void)name;
  *function = module;
  return 0;
}

int cuFuncGetAttribute(int *value, int attribute, struct module *function) {
  *value = attribute == 6 ? function->binary : function->ptx;
  return 0;
}

int cuInit(unsigned flags) { return flags; }

int cuDeviceGet(int *device, int ordinal) {
  *device = ordinal;
  return ordinal == 0 ? 0 : 101;
}

int cuDeviceGetName(char *name, int size, int device) {
  snprintf(name, size, "stand-in %d", device);
  return 0;
}

int cuDeviceGetAttribute(int *value, int attribute, int device) {
  (void)device;
  *value = attribute == 75 ? capability() / 10 : capability() % 10;
  return 0;
}

int cuDriverGetVersion(int *version) {
  *version = 12080;
  return 0;
}

int cuDevicePrimaryCtxRetain(void **context, int device) {
  (void)device;
  *context = context;
  return 0;
}

int cuCtxSetCurrent(void *context) { return context == NULL; }

int cuCtxSynchronize(void) { return 0; }

int cuMemAlloc_v2(void **address, size_t size) {
  *address = malloc(size);
  return *address == NULL;
}

int cuMemcpyHtoD_v2(void *device, const void *host, size_t size) {
  memcpy(device, host, size);
  return 0;
}

int cuMemcpyDtoH_v2(void *host, const void *device, size_t size) {
  memcpy(host, device, size);
  return 0;
}
