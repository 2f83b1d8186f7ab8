/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * System calls on the driver's files, with the structs that go in and come out, however they are
 * heard of. */
#ifndef CUTRACE_SYSCALLS_BODY_H
#define CUTRACE_SYSCALLS_BODY_H

#include "maps.h"
#include "syscalls.h"

/* Descriptors of the driver's files: process << 32 | descriptor. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, __u64);
	__type(value, __u32);
} files SEC(".maps");

/* Bytes of nvidia-uvm's structs, by request: its numbers do not tell. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 256);
	__type(key, __u32);
	__type(value, __u32);
} uvm_sizes SEC(".maps");

/* Calls under way, by thread. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, __u32);
	__type(value, struct system_call);
} under_way SEC(".maps");

/* What the kernel hands to programs of these tracepoints. */
struct entered {
	__u64 common;
	__s32 number;
	__s32 reserved; /* not even zero */
	__u64 args[6];
};

struct left {
	__u64 common;
	__s32 number;
	__s32 reserved; /* not even zero */
	__s64 result;
};

#define LETTER 0x4600
#define RM_CONTROL 0x2a
#define RM_ALLOC 0x2b
#define TRANSFER 0xd3
#define UVM_INITIALIZE 0x30000001
#define UVM_DEINITIALIZE 0x30000002

static __always_inline void read_into(char *to, __u32 bytes, __u32 most, __u64 from)
{
	if (!bytes)
		return;
	/* The verifier loses what it knew of the length where the compiler keeps it elsewhere. */
	asm volatile("" : "+r"(bytes));
	if (bytes > most)
		bytes = most;
	bpf_probe_read_user(to, bytes, (const void *)from);
}

#define FILL(name)                                                                                 \
	do {                                                                                       \
		struct name *record = bpf_ringbuf_reserve(&ring, sizeof(*record), 0);              \
		if (!record) {                                                                     \
			count(COUNT_LOST_SYSTEM, 1);                                               \
			return 1;                                                                  \
		}                                                                                  \
		fill_head(&record->head, time, id, kind);                                          \
		record->head.function = call->number;                                              \
		record->head.result = result;                                                      \
		record->call = *call;                                                              \
		read_into(record->argument, call->argument_bytes, sizeof(record->argument),        \
			  call->args[2]);                                                          \
		read_into(record->behind, call->behind_bytes, sizeof(record->behind),              \
			  call->behind);                                                           \
		bpf_ringbuf_submit(record, BPF_RB_NO_WAKEUP);                                      \
		return 0;                                                                          \
	} while (0)

/* 1: there was no room. */
static __always_inline int record_call(__u64 time, __u64 id, __u16 kind, __s64 result,
				       const struct system_call *call)
{
	if (!call->argument_bytes && !call->behind_bytes)
		FILL(system_record_0);
	if (call->argument_bytes <= SYSTEM_SHORT && call->behind_bytes <= SYSTEM_SHORT)
		FILL(system_record_1);
	if (call->argument_bytes <= SYSTEM_SHORT && call->behind_bytes <= SYSTEM_MEDIUM)
		FILL(system_record_2);
	FILL(system_record_3);
}

/* One by one: the verifier takes the context's own address only. And no more than the call has: the
 * kernel would not attach the program. */
static __always_inline void copy_args(struct system_call *call, const struct entered *ctx,
				      const __u32 number)
{
#define COPY_ARG(n)                                                                                \
	if (number > n)                                                                            \
		call->args[n] = *(volatile __u64 *)&ctx->args[n];
	COPY_ARG(0)
	COPY_ARG(1)
	COPY_ARG(2)
	COPY_ARG(3)
	COPY_ARG(4)
	COPY_ARG(5)
#undef COPY_ARG
}

static __always_inline __u64 file_key(__u64 id, __u32 descriptor)
{
	return (id >> 32 << 32) | descriptor;
}

static __always_inline int begin_system(__u64 now, __u64 id, struct system_call *call)
{
	__u32 thread = (__u32)id;

	if (!record_call(now, id, KIND_SYSCALL_ENTER, 0, call))
		bpf_map_update_elem(&under_way, &thread, call, BPF_ANY);
	return 0;
}

static __always_inline int end_system(const struct left *ctx)
{
	__u64 id = bpf_get_current_pid_tgid();
	__u32 thread = (__u32)id;
	struct system_call *found = bpf_map_lookup_elem(&under_way, &thread);
	struct system_call call;

	if (!found || found->number != ctx->number)
		return 0;
	call = *found;
	bpf_map_delete_elem(&under_way, &thread);
	record_call(bpf_ktime_get_ns(), id, KIND_SYSCALL_EXIT, ctx->result, &call);
	return 0;
}

static __always_inline int begin_ioctl(const struct entered *ctx)
{
	__u64 now = bpf_ktime_get_ns(), id = bpf_get_current_pid_tgid();
	__u32 request = ctx->args[1], bare = request;
	struct system_call call = {};
	__u64 key;

	if ((request & 0xff00) != LETTER && request >= 256 && request != UVM_INITIALIZE &&
	    request != UVM_DEINITIALIZE)
		return 0;
	if (!wanted(id, now))
		return 0;
	key = file_key(id, ctx->args[0]);
	/* Requests with the driver's letter may come by descriptors that others have opened. */
	if ((request & 0xff00) != LETTER && !bpf_map_lookup_elem(&files, &key))
		return 0;
	call.number = ctx->number;
	copy_args(&call, ctx, 3);
	if ((request & 0xff00) == LETTER) {
		call.argument_bytes = request >> 16 & 0x3fff;
	} else if (request < 256) {
		__u32 *bytes = bpf_map_lookup_elem(&uvm_sizes, &bare);

		call.argument_bytes = bytes ? *bytes : 0;
	} else {
		call.argument_bytes = 16;
	}
	if (call.argument_bytes > SYSTEM_LONG)
		call.argument_bytes = SYSTEM_LONG;
	if ((request & 0xff00) == LETTER && call.argument_bytes >= 16) {
		__u64 head[6] = {};
		__u8 which = request;

		bpf_probe_read_user(head, call.argument_bytes >= 48 ? 48 :
				    call.argument_bytes >= 32	    ? 32 : 16,
				    (const void *)ctx->args[2]);
		if (which == RM_CONTROL || (which == RM_ALLOC && call.argument_bytes < 48)) {
			call.behind = head[2];
			call.behind_bytes = (__u32)head[3];
		} else if (which == RM_ALLOC) {
			call.behind = head[2];
			call.behind_bytes = (__u32)head[4];
		} else if (which == TRANSFER) {
			call.behind = head[1];
			call.behind_bytes = head[0] >> 32;
		}
		if (!call.behind)
			call.behind_bytes = 0;
		if (call.behind_bytes > SYSTEM_LONG)
			call.behind_bytes = SYSTEM_LONG;
	}
	return begin_system(now, id, &call);
}

static __always_inline int begin_mmap(const struct entered *ctx)
{
	__u64 now = bpf_ktime_get_ns(), id = bpf_get_current_pid_tgid();
	__u64 key = file_key(id, ctx->args[4]);
	struct system_call call = {};

	if (!bpf_map_lookup_elem(&files, &key) || !wanted(id, now))
		return 0;
	call.number = ctx->number;
	copy_args(&call, ctx, 6);
	return begin_system(now, id, &call);
}

static __always_inline int begin_close(const struct entered *ctx)
{
	__u64 now = bpf_ktime_get_ns(), id = bpf_get_current_pid_tgid();
	__u64 key = file_key(id, ctx->args[0]);
	struct system_call call = {};

	if (!bpf_map_lookup_elem(&files, &key) || !wanted(id, now))
		return 0;
	bpf_map_delete_elem(&files, &key);
	call.number = ctx->number;
	call.args[0] = ctx->args[0];
	return begin_system(now, id, &call);
}

static __always_inline int begin_openat(const struct entered *ctx)
{
	__u64 now = bpf_ktime_get_ns(), id = bpf_get_current_pid_tgid();
	struct system_call call = {};
	__u32 thread = (__u32)id;

	/* The driver's files are opened for reading and writing. */
	if ((ctx->args[2] & 3) != 2 || !wanted(id, now))
		return 0;
	call.number = ctx->number;
	call.began = now;
	copy_args(&call, ctx, 4);
	bpf_map_update_elem(&under_way, &thread, &call, BPF_ANY);
	return 0;
}

/* The name is read here: the kernel has just read it, so it is in memory. */
static __always_inline int end_openat(const struct left *ctx)
{
	__u64 id = bpf_get_current_pid_tgid();
	__u32 thread = (__u32)id, one = 1;
	struct system_call *found = bpf_map_lookup_elem(&under_way, &thread);
	struct system_open *record;
	struct system_call call;
	int is_drivers = 0;

	if (!found || found->number != ctx->number)
		return 0;
	call = *found;
	bpf_map_delete_elem(&under_way, &thread);
	record = bpf_ringbuf_reserve(&ring, sizeof(*record), 0);
	if (!record) {
		count(COUNT_LOST_SYSTEM, 1);
		return 0;
	}
	fill_head(&record->head, call.began, id, KIND_SYSCALL_ENTER);
	record->head.function = call.number;
	record->head.result = ctx->result;
	record->call = call;
	record->ended = bpf_ktime_get_ns();
	__builtin_memset(record->path, 0, sizeof(record->path));
	bpf_probe_read_user_str(record->path, sizeof(record->path), (const void *)call.args[1]);
	for (int i = 0; i < sizeof(record->path) - 8; i++) {
		if (!record->path[i])
			break;
		if (record->path[i] == '/' && record->path[i + 1] == 'n' &&
		    record->path[i + 2] == 'v' && record->path[i + 3] == 'i' &&
		    record->path[i + 4] == 'd' && record->path[i + 5] == 'i' &&
		    record->path[i + 6] == 'a') {
			is_drivers = 1;
			break;
		}
	}
	if (!is_drivers) {
		bpf_ringbuf_discard(record, BPF_RB_NO_WAKEUP);
		return 0;
	}
	if (ctx->result >= 0) {
		__u64 key = file_key(id, ctx->result);

		bpf_map_update_elem(&files, &key, &one, BPF_ANY);
	}
	bpf_ringbuf_submit(record, BPF_RB_NO_WAKEUP);
	return 0;
}

#endif
