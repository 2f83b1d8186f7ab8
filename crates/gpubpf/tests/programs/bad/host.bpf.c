// Programs of the host only.
#include "../probe.h"

SEC("uprobe/malloc")
int on_malloc(void *ctx) { return 0; }
