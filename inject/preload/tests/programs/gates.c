// A hundred calls of each kind, some of which fail; prints how many calls did not return what they should.
unsigned cuInit(unsigned);
unsigned cuMemAlloc_v2(unsigned long *, unsigned long);
unsigned cuLaunchKernel(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **);
unsigned cuCtxSynchronize(void);
unsigned cuDevicePrimaryCtxGetState(int, unsigned *, int *);
int printf(const char *, ...);

int main(void) {
    int wrong = 0;
    unsigned long pointer;
    cuInit(0);
    for (int i = 0; i < 100; i++) {
        unsigned flags = 0;
        int active = 0, device = i % 10 == 3;
        wrong += cuMemAlloc_v2(&pointer, 64) != 0;
        int shared = i % 10 == 5 ? 70 : 7;
        wrong += cuLaunchKernel(0, 1, 2, 3, 4, 5, 6, shared, (void *)0x88, 0, 0) != (shared == 70);
        wrong += cuCtxSynchronize() != 0;
        wrong += cuDevicePrimaryCtxGetState(device, &flags, &active) != (device ? 101 : 0);
        wrong += !device && (flags != 0x11 || active != 0x22);
    }
    printf("wrong %d\n", wrong);
    return 0;
}
