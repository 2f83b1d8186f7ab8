// Runs every case of a conformance module and writes its results.
// usage: run MODULE.ptx INPUTS.bin OUTPUTS.bin
//
// Each kernel case_NNNN runs with one block of 256 threads and gets two pointers: the operand
// columns, and its own 4096 bytes of zeroed results. Results are written in the order in which the
// kernels stand in the module. libcuda is found at run time, so the same program runs on hardware
// and on softgpu.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { AREA = 4096, THREADS = 256 };

typedef int CUresult;
typedef int CUdevice;
typedef void *CUcontext;
typedef void *CUmodule;
typedef void *CUfunction;
typedef void *CUstream;
typedef unsigned long long CUdeviceptr;

static void *library;
static CUresult (*error_name)(CUresult, const char **);

static void *symbol(const char *name) {
    void *found = dlsym(library, name);
    if (!found) {
        fprintf(stderr, "libcuda has no %s\n", name);
        exit(1);
    }
    return found;
}

static void check(CUresult result, const char *what) {
    if (result == 0) return;
    const char *name = "?";
    error_name(result, &name);
    fprintf(stderr, "%s: %d %s\n", what, result, name);
    exit(1);
}

static char *read_file(const char *path, size_t *size) {
    FILE *f = fopen(path, "rb");
    if (!f) {
        perror(path);
        exit(1);
    }
    fseek(f, 0, SEEK_END);
    *size = ftell(f);
    rewind(f);
    char *data = malloc(*size + 1);
    if (!data || fread(data, 1, *size, f) != *size) {
        fprintf(stderr, "%s: cannot be read\n", path);
        exit(1);
    }
    data[*size] = 0;
    fclose(f);
    return data;
}

int main(int argc, char **argv) {
    if (argc != 4) {
        fprintf(stderr, "usage: run MODULE.ptx INPUTS.bin OUTPUTS.bin\n");
        return 2;
    }
    library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
    if (!library) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    error_name = symbol("cuGetErrorName");
    CUresult (*init)(unsigned) = symbol("cuInit");
    CUresult (*get_device)(CUdevice *, int) = symbol("cuDeviceGet");
    CUresult (*retain)(CUcontext *, CUdevice) = symbol("cuDevicePrimaryCtxRetain");
    CUresult (*set_current)(CUcontext) = symbol("cuCtxSetCurrent");
    CUresult (*load)(CUmodule *, const void *) = symbol("cuModuleLoadData");
    CUresult (*get_function)(CUfunction *, CUmodule, const char *) = symbol("cuModuleGetFunction");
    CUresult (*allocate)(CUdeviceptr *, size_t) = symbol("cuMemAlloc_v2");
    CUresult (*to_device)(CUdeviceptr, const void *, size_t) = symbol("cuMemcpyHtoD_v2");
    CUresult (*to_host)(void *, CUdeviceptr, size_t) = symbol("cuMemcpyDtoH_v2");
    CUresult (*fill)(CUdeviceptr, unsigned char, size_t) = symbol("cuMemsetD8_v2");
    CUresult (*synchronize)(void) = symbol("cuCtxSynchronize");
    CUresult (*launch)(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CUstream,
                       void **, void **) = symbol("cuLaunchKernel");

    size_t module_size, inputs_size;
    char *text = read_file(argv[1], &module_size);
    char *inputs = read_file(argv[2], &inputs_size);
    static const char entry[] = ".visible .entry case_";
    size_t cases = 0;
    for (char *at = text; (at = strstr(at, entry)); at += sizeof entry - 1) cases++;

    CUdevice device;
    CUcontext context;
    CUmodule module;
    check(init(0), "cuInit");
    check(get_device(&device, 0), "cuDeviceGet");
    check(retain(&context, device), "cuDevicePrimaryCtxRetain");
    check(set_current(context), "cuCtxSetCurrent");
    check(load(&module, text), argv[1]);
    CUdeviceptr operands, results;
    check(allocate(&operands, inputs_size), "cuMemAlloc");
    check(allocate(&results, cases * AREA), "cuMemAlloc");
    check(to_device(operands, inputs, inputs_size), "cuMemcpyHtoD");
    check(fill(results, 0, cases * AREA), "cuMemsetD8");

    size_t done = 0;
    for (char *at = text; (at = strstr(at, entry)); done++) {
        at += strlen(".visible .entry ");
        char name[32] = "";
        size_t length = strcspn(at, "(");
        if (length >= sizeof name) length = sizeof name - 1;
        memcpy(name, at, length);
        CUfunction function;
        check(get_function(&function, module, name), name);
        CUdeviceptr area = results + done * AREA;
        void *parameters[] = {&operands, &area};
        check(launch(function, 1, 1, 1, THREADS, 1, 1, 0, 0, parameters, 0), name);
        // One case that fails is told from the next.
        check(synchronize(), name);
    }
    char *answers = malloc(cases * AREA + 1);
    check(to_host(answers, results, cases * AREA), "cuMemcpyDtoH");
    FILE *out = fopen(argv[3], "wb");
    if (!out || fwrite(answers, 1, cases * AREA, out) != cases * AREA || fclose(out)) {
        perror(argv[3]);
        return 1;
    }
    printf("%zu\n", done);
    return 0;
}
