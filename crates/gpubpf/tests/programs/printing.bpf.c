// Formats as constants and on the stack; a kernel's parameters as context.
#include "probe.h"

struct parameters {
    float *a, *b, *c;
    int n;
};

SEC("kprobe/scale")
int cuda__print(struct parameters *ctx) {
    static const char format[] = "n=%d a=%lx\n";
    trace_printk(format, sizeof format, ctx->n, (u64)ctx->a);
    char built[] = "thread %u of %s";
    u64 x, y, z;
    thread_idx(&x, &y, &z);
    trace_printk(built, sizeof built, (u32)x, "scale");
    puts("done");
    if (x > 4) cuda_exit();
    return 0;
}
