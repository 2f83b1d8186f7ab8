// A driver whose launches take as long as a real one's, nearly always the same, and use the caches as one does.
static int places[1 << 18];

int cuInit(unsigned flags) { return flags != 0; }
int cuDevicePrimaryCtxRetain(void **context, int device) { return *context = places, device; }
int cuCtxSetCurrent(void *context) { return context == 0; }
int cuModuleLoadData(void **module, const void *image) { return *module = places, image == 0; }
int cuModuleGetFunction(void **function, void *module, const char *name) { return *function = module, name == 0; }
int cuCtxSynchronize(void) { return 0; }

int cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                   unsigned shared, void *stream, void **params, void **extra) {
    static unsigned random = 1;
    unsigned here = random;
    volatile int *all = places;
    for (int i = 0; i < 1600; i++) {
        here = here * 1664525u + 1013904223u;
        all[here >> 14] += i;
    }
    random = here;
    return function == 0;
}
