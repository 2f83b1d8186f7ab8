// Nothing, at the entry of every kernel.
#include "../probe.h"

SEC("kprobe/*")
int cuda__nothing(void *ctx) {
    return 0;
}
