/*
 * A library that stands where libcuda.so.1 would, for tests: it has no GPU and says what the
 * environment tells it to say. A kernel "runs" at its launch: it leaves what a block leaves that
 * used up its turns, and sets its stop word in the third slice.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef void *handle;

/* The parameter block of the one kernel. */
struct block {
    uint64_t turns;
    uint64_t heartbeats;
    uint64_t stop;
};

static int slices;
static int object;

static int told(const char *name, int otherwise)
{
    const char *word = getenv(name);
    return word ? atoi(word) : otherwise;
}

int cuDriverGetVersion(int *version)
{
    *version = told("STAND_IN_VERSION", 12030);
    return 0;
}

int cuInit(unsigned flags) { return flags ? 1 : told("STAND_IN_INIT", 0); }

int cuDeviceGetCount(int *count)
{
    *count = 1;
    return 0;
}

int cuDeviceGet(int *device, int ordinal)
{
    *device = 40 + ordinal;
    return 0;
}

int cuDeviceGetName(char *name, int bytes, int device)
{
    strncpy(name, device == 40 ? "Stand-in" : "wrong device", bytes);
    return 0;
}

int cuDeviceTotalMem_v2(size_t *bytes, int device)
{
    *bytes = device == 40 ? (size_t)3 << 30 : 0;
    return 0;
}

int cuDeviceGetAttribute(int *value, int attribute, int device)
{
    /* The major number of the compute capability; everything else is there, or 1. */
    *value = attribute == 75 ? 9 : device == 40;
    return 0;
}

int cuDevicePrimaryCtxRetain(handle *context, int device)
{
    *context = &object;
    return device == 40 ? 0 : 101;
}

int cuDevicePrimaryCtxRelease_v2(int device) { return device == 40 ? 0 : 101; }
int cuCtxSetCurrent(handle context) { return context == &object ? 0 : 201; }

int cuCtxGetStreamPriorityRange(int *least, int *greatest)
{
    *least = 0;
    *greatest = -5;
    return 0;
}

int cuModuleLoadDataEx(handle *module, const char *ptx, unsigned count, int *options, void **values)
{
    if (count != 2 || options[0] != 5 || options[1] != 6 || strncmp(ptx, ".version", 8))
        return 1;
    strncpy(values[0], "line 7: so it said", (size_t)values[1]);
    *module = &object;
    return told("STAND_IN_LOAD", 0);
}

int cuModuleUnload(handle module) { return module == &object ? 0 : 400; }

int cuModuleGetFunction(handle *function, handle module, const char *name)
{
    *function = &slices;
    return module == &object && !strcmp(name, "beat") ? 0 : 500;
}

int cuFuncGetAttribute(int *value, int attribute, handle function)
{
    *value = 10 + attribute;
    return function == &slices ? 0 : 400;
}

int cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, handle function, int threads,
                                                size_t shared)
{
    *blocks = threads == 64 && shared == 0 && function == &slices ? 8 : 0;
    return 0;
}

int cuMemAlloc_v2(uint64_t *address, size_t bytes)
{
    *address = (uint64_t)malloc(bytes);
    return *address ? 0 : 2;
}

int cuMemFree_v2(uint64_t address)
{
    free((void *)address);
    return 0;
}

int cuMemsetD8_v2(uint64_t address, unsigned char value, size_t bytes)
{
    memset((void *)address, value, bytes);
    return 0;
}

int cuMemcpyHtoD_v2(uint64_t to, const void *from, size_t bytes)
{
    memcpy((void *)to, from, bytes);
    return 0;
}

int cuMemcpyDtoH_v2(void *to, uint64_t from, size_t bytes)
{
    memcpy(to, (void *)from, bytes);
    return 0;
}

int cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t bytes, handle stream)
{
    memcpy((void *)to, (void *)from, bytes);
    return stream == &object ? 0 : 400;
}

int cuMemHostAlloc(void **address, size_t bytes, unsigned flags)
{
    *address = malloc(bytes);
    return flags != 3 ? 1 : *address ? 0 : 2;
}

int cuMemFreeHost(void *address)
{
    free(address);
    return 0;
}

int cuMemHostRegister_v2(void *address, size_t bytes, unsigned flags)
{
    return address && bytes && flags == 3 ? 0 : 1;
}

int cuMemHostUnregister(void *address) { return address ? 0 : 713; }

int cuMemHostGetDevicePointer_v2(uint64_t *device, void *host, unsigned flags)
{
    *device = (uint64_t)host;
    return flags;
}

int cuStreamCreateWithPriority(handle *stream, unsigned flags, int priority)
{
    *stream = &object;
    return flags == 1 && priority == -5 ? 0 : 1;
}

int cuStreamDestroy_v2(handle stream) { return stream == &object ? 0 : 400; }

int cuEventCreate(handle *event, unsigned flags)
{
    *event = &slices;
    return flags == 2 ? 0 : 1;
}

int cuEventDestroy_v2(handle event) { return event == &slices ? 0 : 400; }

int cuEventRecord(handle event, handle stream)
{
    return event == &slices && stream == &object ? 0 : 400;
}

#ifndef WITHOUT_QUERY
int cuEventQuery(handle event)
{
    static int looks;
    if (event != &slices)
        return 400;
    if (++looks % 2)
        return 600;
    return told("STAND_IN_QUERY", 0);
}
#endif

int cuLaunchKernel(handle function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                   unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared,
                   handle stream, void **parameters, void **extra)
{
    struct block *block = *(struct block **)parameters[0];
    unsigned flat = grid_y * grid_z * block_y * block_z;
    if (function != &slices || stream != &object || block_x != 64 || flat != 1 || shared || extra)
        return 1;
    for (unsigned i = 0; i < grid_x; i++) {
        volatile uint32_t *beat = (void *)(block->heartbeats + 128 * i);
        *beat = (uint32_t)block->turns - 1;
    }
    if (++slices == 3)
        *(volatile uint32_t *)block->stop = 1;
    return 0;
}
