/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * System calls on the driver's files, each by its own tracepoint, on kernels without BTF. */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include "syscalls_body.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

SEC("tracepoint/syscalls/sys_enter_ioctl")
int enter_ioctl(struct entered *ctx)
{
	return begin_ioctl(ctx);
}

SEC("tracepoint/syscalls/sys_exit_ioctl")
int exit_ioctl(struct left *ctx)
{
	return end_system(ctx);
}

SEC("tracepoint/syscalls/sys_enter_mmap")
int enter_mmap(struct entered *ctx)
{
	return begin_mmap(ctx);
}

SEC("tracepoint/syscalls/sys_exit_mmap")
int exit_mmap(struct left *ctx)
{
	return end_system(ctx);
}

SEC("tracepoint/syscalls/sys_enter_close")
int enter_close(struct entered *ctx)
{
	return begin_close(ctx);
}

SEC("tracepoint/syscalls/sys_exit_close")
int exit_close(struct left *ctx)
{
	return end_system(ctx);
}

SEC("tracepoint/syscalls/sys_enter_openat")
int enter_openat(struct entered *ctx)
{
	return begin_openat(ctx);
}

SEC("tracepoint/syscalls/sys_exit_openat")
int exit_openat(struct left *ctx)
{
	return end_openat(ctx);
}
