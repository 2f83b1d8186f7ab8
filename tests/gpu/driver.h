// libcuda found at run time, so that a program runs on hardware and on softgpu alike. What goes wrong is said,
// and ends the program.
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int CUresult;
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

static void open_driver(void) {
    library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
    if (!library) {
        fprintf(stderr, "%s\n", dlerror());
        exit(1);
    }
    error_name = symbol("cuGetErrorName");
}

// Makes the first device's primary context current.
static void enter_context(void) {
    CUresult (*init)(unsigned) = symbol("cuInit");
    CUresult (*get_device)(int *, int) = symbol("cuDeviceGet");
    CUresult (*retain)(void **, int) = symbol("cuDevicePrimaryCtxRetain");
    CUresult (*set_current)(void *) = symbol("cuCtxSetCurrent");
    int device;
    void *context;
    check(init(0), "cuInit");
    check(get_device(&device, 0), "cuDeviceGet");
    check(retain(&context, device), "cuDevicePrimaryCtxRetain");
    check(set_current(context), "cuCtxSetCurrent");
}

// A file's bytes, and a NUL behind them.
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

// The name of the module's next kernel case_…, from where the text is read on; 0: there is none.
static int next_case(char **text, char name[32]) {
    char *at = strstr(*text, ".visible .entry case_");
    if (!at) return 0;
    at += strlen(".visible .entry ");
    snprintf(name, 32, "%.*s", (int)strcspn(at, "("), at);
    *text = at;
    return 1;
}
