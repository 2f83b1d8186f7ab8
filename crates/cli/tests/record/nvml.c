/* Stands in for libnvidia-ml: two GPUs whose numbers are known, of which the second offers little. */
static int samples;
int nvmlInit_v2(void) { return 0; }
int nvmlShutdown(void) { return 0; }
int nvmlDeviceGetCount_v2(unsigned *count) { *count = 2; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device) { *device = (void *)(index + 1ul); return 0; }
int nvmlDeviceGetUtilizationRates(void *device, unsigned rates[2]) {
    if (device != (void *)1) return 3; /* NVML_ERROR_NOT_SUPPORTED */
    rates[0] = 40 + samples++ % 10;
    rates[1] = 7;
    return 0;
}
int nvmlDeviceGetMemoryInfo(void *device, unsigned long long memory[3]) {
    memory[0] = 1000;
    memory[1] = 400;
    memory[2] = 600 * (unsigned long)device;
    return 0;
}
int nvmlDeviceGetPowerUsage(void *device, unsigned *power) {
    if (device != (void *)1) return 3;
    *power = 123456;
    return 0;
}
int nvmlDeviceGetClockInfo(void *device, unsigned which, unsigned *clock) {
    if (device != (void *)1) return 3;
    *clock = 1000 + which;
    return 0;
}
int nvmlDeviceGetCurrentClocksEventReasons(void *device, unsigned long long *bits) {
    if (device != (void *)1) return 3;
    *bits = 0x40;
    return 0;
}
int nvmlDeviceGetMaxClockInfo(void *device, unsigned which, unsigned *clock) {
    if (device != (void *)1) return 3;
    *clock = 1980 + which;
    return 0;
}
int nvmlDeviceGetTotalEccErrors(void *device, unsigned kind, unsigned counter, unsigned long long *count) {
    if (device != (void *)1 || counter != 0) return 3;
    *count = kind == 0 ? 5 : 1;
    return 0;
}
