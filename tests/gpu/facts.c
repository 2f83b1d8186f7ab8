// Prints what a real driver answers to questions softgpu must answer alike: device attributes and
// limits, error names and strings, and which symbol cuGetProcAddress gives for a name and version.
// usage: facts EXPORTS   (EXPORTS: one exported cu* name a line)
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int CUresult;
typedef int CUdevice;
typedef void *CUcontext;
static void *lib;
static void *sym(const char *name) {
    void *p = dlsym(lib, name);
    if (!p) { fprintf(stderr, "no %s\n", name); exit(1); }
    return p;
}

int main(int argc, char **argv) {
    lib = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
    if (!lib) { fprintf(stderr, "%s\n", dlerror()); return 1; }
    CUresult (*init)(unsigned) = sym("cuInit");
    CUresult (*attribute)(int *, int, CUdevice) = sym("cuDeviceGetAttribute");
    CUresult (*name)(char *, int, CUdevice) = sym("cuDeviceGetName");
    CUresult (*total)(size_t *, CUdevice) = sym("cuDeviceTotalMem_v2");
    CUresult (*version)(int *) = sym("cuDriverGetVersion");
    CUresult (*error_name)(CUresult, const char **) = sym("cuGetErrorName");
    CUresult (*error_string)(CUresult, const char **) = sym("cuGetErrorString");
    CUresult (*proc)(const char *, void **, int, unsigned long long, int *) = sym("cuGetProcAddress_v2");
    CUresult (*retain)(CUcontext *, CUdevice) = sym("cuDevicePrimaryCtxRetain");
    CUresult (*set)(CUcontext) = sym("cuCtxSetCurrent");
    CUresult (*limit)(size_t *, int) = sym("cuCtxGetLimit");
    CUresult (*priorities)(int *, int *) = sym("cuCtxGetStreamPriorityRange");
    CUresult (*api)(CUcontext, unsigned *) = sym("cuCtxGetApiVersion");

    printf("init %d\n", init(0));
    int v = 0; version(&v); printf("driver_version %d\n", v);
    char text[256] = ""; name(text, sizeof text, 0); printf("device_name %s\n", text);
    size_t bytes = 0; total(&bytes, 0); printf("total_mem %zu\n", bytes);
    for (int i = 0; i < 200; i++) {
        int value = -1; CUresult r = attribute(&value, i, 0);
        printf("attribute %d %d %d\n", i, r, value);
    }
    CUcontext context = 0; retain(&context, 0); set(context);
    unsigned a = 0; api(context, &a); printf("api_version %u\n", a);
    int least = 0, greatest = 0; priorities(&least, &greatest); printf("priorities %d %d\n", least, greatest);
    for (int i = 0; i < 12; i++) { size_t s = 0; CUresult r = limit(&s, i); printf("limit %d %d %zu\n", i, r, s); }
    for (int i = 0; i < 1200; i++) {
        const char *n = 0, *s = 0;
        if (error_name(i, &n) == 0 && n) { error_string(i, &s); printf("error %d %s %s\n", i, n, s ? s : ""); }
    }
    FILE *f = argc > 1 ? fopen(argv[1], "r") : 0;
    char line[256], last[256] = "";
    while (f && fgets(line, sizeof line, f)) {
        line[strcspn(line, "\n")] = 0;
        // The base name: without _ptds, _ptsz and _vN, in that order.
        char *cut = strstr(line, "_ptds"); if (!cut) cut = strstr(line, "_ptsz"); if (cut) *cut = 0;
        size_t n = strlen(line);
        if (n > 3 && line[n - 2] == 'v' && line[n - 3] == '_') line[n - 3] = 0;
        if (!strcmp(line, last)) continue;
        strcpy(last, line);
        for (int flags = 0; flags <= 2; flags++) {
            char previous[256] = "";
            for (int ver = 2000; ver <= 13010; ver += 10) {
                int minor = ver % 1000;
                if (minor > 90) continue;
                void *p = 0; int status = -1; CUresult r = proc(line, &p, ver, flags, &status);
                Dl_info info = {0}; const char *found = "-";
                if (p && dladdr(p, &info) && info.dli_sname && info.dli_saddr == p) found = info.dli_sname;
                char answer[256]; snprintf(answer, sizeof answer, "%d %d %s", r, status, p ? found : "null");
                if (strcmp(answer, previous)) { printf("proc %s %d %d %s\n", line, flags, ver, answer); strcpy(previous, answer); }
            }
        }
    }
    return 0;
}
