// A field read through CO-RE, which needs a kernel's types.
#include "../probe.h"

struct task_struct {
    int pid;
} __attribute__((preserve_access_index));

SEC("kprobe/kernel")
int cuda__core(struct task_struct *task) { return task->pid; }
