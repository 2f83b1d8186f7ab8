// A variable of the kernel's.
#include "../probe.h"

extern const int kernel_version;

SEC("kprobe/kernel")
int cuda__external(void *ctx) { return kernel_version; }
