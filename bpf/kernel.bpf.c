/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * Functions of the kernel and of the driver, and tracepoints: each by a probe's description, as calls
 * of libraries are. One program for each way of attaching. */
#include <linux/bpf.h>
#include <asm/ptrace.h>
#include <bpf/bpf_helpers.h>

/* Arguments of kernel functions point to either side; these helpers tell by the address which. */
#define READ(to, bytes, from) bpf_probe_read(to, bytes, (const void *)(from))
#define READ_TEXT(to, bytes, from) bpf_probe_read_str(to, bytes, (const void *)(from))
/* Nothing here has counted pieces, and there are two lengths of records: the less there is to verify,
 * the sooner the program under watch can begin. */
#define ONLY_TEXTS
#include "hooked.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* What is known only when the programs are loaded. */
struct constants {
	__u64 cookie;	  /* of a program that is loaded for one function only */
	__u64 off_cookie; /* of time that threads spend off the processors */
	/* Where sched_switch tells of the thread that comes next, and why this one goes. */
	__u32 next_thread;
	__u32 last_state;
};
const volatile struct constants constants;

#define LEFT_OUT_STATES 0x3c /* stopped, traced, dead, zombie */
#define DEEPEST 60

/* Calls of one function that are under way in one thread: a bit for each, set if it was recorded. */
struct calls {
	__u64 recorded;
	__u64 depth;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, struct call_key);
	__type(value, struct calls);
} under_way SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, struct call_key);
	__type(value, struct saved_words);
} saved SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, struct call_key);
	__type(value, struct started);
} started_calls SEC(".maps");

/* Processes of traced threads that are off the processors. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, __u32);
	__type(value, __u32);
} off SEC(".maps");

/* All processors have a thread 0. */
static __always_inline __u32 thread_of(__u64 id)
{
	return (__u32)id ? (__u32)id : 0x80000000 | bpf_get_smp_processor_id();
}

static __always_inline int write_end(const __u32 size, const struct spec *spec, __u64 cookie,
				     __u64 now, __u64 id, const struct words *words)
{
	struct record *record = bpf_ringbuf_reserve(&ring, sizeof(*record) + size, 0);

	if (!record) {
		count(COUNT_LOST_ENDS, 1);
		return 0;
	}
	fill_head(record, now, id, KIND_RETURN);
	record->function = (__u32)cookie;
	record->key = (__u64)bpf_get_smp_processor_id();
	record->result = words->result;
	if (size)
		take_steps(record, size, spec, spec->enter_steps, spec->return_steps, words);
	bpf_ringbuf_submit(record, BPF_RB_NO_WAKEUP);
	return 0;
}

/* A function has begun whose calls are aggregated. */
static __always_inline int begin_aggregate(__u64 cookie, const struct spec *spec, __u64 now, __u64 id,
					   struct words *words)
{
	struct call_key key = { .stack = (__u32)cookie, .thread = thread_of(id) };
	struct started first = {}, *calls;

	if (!take_measure(spec, cookie, now, id, words) || !waits_for_return(spec))
		return 0;
	calls = bpf_map_lookup_elem(&started_calls, &key);
	if (calls) {
		__u64 depth = calls->depth++;

		if (depth < MOST_NESTED)
			calls->times[depth] = now;
		return 0;
	}
	first.depth = 1;
	first.times[0] = now;
	if (bpf_map_update_elem(&started_calls, &key, &first, BPF_ANY))
		count(COUNT_UNSAVED, 1);
	return 0;
}

static __always_inline int end_aggregate(__u64 cookie, const struct spec *spec, __u64 now, __u64 id,
					 __u64 result)
{
	struct call_key key = { .stack = (__u32)cookie, .thread = thread_of(id) };
	struct started *found = bpf_map_lookup_elem(&started_calls, &key);
	__u64 depth, began = 0;

	/* It began before we were there, or is of no interest. */
	if (!found)
		return 0;
	depth = --found->depth;
	if (depth < MOST_NESTED)
		began = found->times[depth];
	if (!depth)
		bpf_map_delete_elem(&started_calls, &key);
	if (depth >= MOST_NESTED) {
		count(COUNT_UNSAVED, 1);
		return 0;
	}
	aggregate(spec, cookie, spec->measure == MEASURE_DURATION ? now - began : result);
	return 0;
}

/* A function has begun. */
static __always_inline int begin(void *ctx, __u64 cookie, const struct spec *spec,
				 struct words *words)
{
	__u64 now = bpf_ktime_get_ns(), id = bpf_get_current_pid_tgid();
	struct settings *set = wanted_by(spec, id, now);
	struct call_key key = { .stack = (__u32)cookie, .thread = thread_of(id) };
	struct calls first = {}, *calls;
	int instant = spec->flags & (SPEC_NO_RETURN | SPEC_INSTANT), written = 0;

	if (!set || spec->flags & SPEC_AT_RETURN)
		return 0;
	if (spec->aggregate)
		return begin_aggregate(cookie, spec, now, id, words);
	if (is_crowded(set)) {
		count(instant ? COUNT_LOST_INSTANT : COUNT_LOST, 1);
	} else {
		if (spec->flags & SPEC_STACK)
			tell_stack(ctx, now, id);
		written = write_by_class(spec, cookie, now, id,
					 instant ? KIND_INSTANT : KIND_ENTER, words);
	}
	if (instant)
		return 0;
	calls = bpf_map_lookup_elem(&under_way, &key);
	if (!calls) {
		/* Nothing has to be remembered of a call whose return is of no interest. */
		if (!written)
			return 0;
		first.recorded = 1;
		first.depth = 1;
		if (bpf_map_update_elem(&under_way, &key, &first, BPF_ANY))
			count(COUNT_UNSAVED, 1);
	} else {
		calls->recorded = calls->recorded << 1 | written;
		calls->depth++;
	}
	if (written && spec->return_steps) {
		key.stack |= (calls ? calls->depth : 1) << 32;
		if (bpf_map_update_elem(&saved, &key, words->at, BPF_ANY))
			count(COUNT_UNSAVED, 1);
	}
	return 0;
}

/* It has returned. */
static __always_inline int end(void *ctx, __u64 cookie, const struct spec *spec, __u64 result)
{
	__u64 now = bpf_ktime_get_ns(), id = bpf_get_current_pid_tgid();
	struct call_key key = { .stack = (__u32)cookie, .thread = thread_of(id) };
	struct words words;
	struct saved_words *kept;
	struct settings *set;
	struct calls *calls;
	__u64 recorded, depth;
	__u32 zero = 0;

	if (spec->flags & SPEC_AT_RETURN) {
		set = wanted_by(spec, id, now);
		if (!set)
			return 0;
		if (spec->aggregate) {
			__builtin_memset(&words, 0, sizeof(words));
			words.at[0] = result;
			words.result = result;
			if (!spec->conditions ||
			    write_by_class(spec, cookie, now, id, KIND_INSTANT, &words))
				aggregate(spec, cookie, result);
			return 0;
		}
		if (is_crowded(set)) {
			count(COUNT_LOST_INSTANT, 1);
			return 0;
		}
		if (spec->flags & SPEC_STACK)
			tell_stack(ctx, now, id);
		__builtin_memset(&words, 0, sizeof(words));
		words.at[0] = result;
		words.result = result;
		write_by_class(spec, cookie, now, id, KIND_INSTANT, &words);
		return 0;
	}
	if (spec->aggregate)
		return end_aggregate(cookie, spec, now, id, result);
	calls = bpf_map_lookup_elem(&under_way, &key);
	if (!calls)
		/* It began before we were there, or is of no interest. */
		return 0;
	recorded = calls->recorded & 1;
	depth = calls->depth;
	calls->recorded >>= 1;
	calls->depth--;
	if (depth <= 1 || depth > DEEPEST)
		bpf_map_delete_elem(&under_way, &key);
	if (!recorded)
		return 0;
	set = bpf_map_lookup_elem(&settings, &zero);
	if (!set || set->disabled)
		return 0;
	words.result = result;
	words.stack = 0;
	if (!spec->return_steps)
		return write_end(0, spec, cookie, now, id, &words);
	key.stack |= depth << 32;
	kept = bpf_map_lookup_elem(&saved, &key);
	if (!kept)
		return write_end(0, spec, cookie, now, id, &words);
	__builtin_memcpy(words.at, kept, sizeof(words.at));
	bpf_map_delete_elem(&saved, &key);
	if (spec->return_class < 3)
		return write_end(BODY_2, spec, cookie, now, id, &words);
	return write_end(BODY_5, spec, cookie, now, id, &words);
}

static __always_inline int begin_by_registers(struct pt_regs *ctx, __u64 cookie)
{
	struct spec *spec = spec_of(cookie);
	struct words words;

	if (!spec)
		return 0;
	words.at[0] = ctx->rdi;
	words.at[1] = ctx->rsi;
	words.at[2] = ctx->rdx;
	words.at[3] = ctx->rcx;
	words.at[4] = ctx->r8;
	words.at[5] = ctx->r9;
	words.stack = ctx->rsp;
	words.result = 0;
	__builtin_memset(words.at + 6, 0, 80);
	/* Above the return address. */
	if (spec->words > 6)
		bpf_probe_read_kernel(words.at + 6, 48, (const void *)(ctx->rsp + 8));
	return begin(ctx, cookie, spec, &words);
}

static __always_inline int end_by_registers(struct pt_regs *ctx, __u64 cookie)
{
	struct spec *spec = spec_of(cookie);

	return spec ? end(ctx, cookie, spec, ctx->rax) : 0;
}

SEC("kprobe")
int kprobe_enter(struct pt_regs *ctx)
{
	return begin_by_registers(ctx, bpf_get_attach_cookie(ctx));
}

SEC("kretprobe")
int kprobe_return(struct pt_regs *ctx)
{
	return end_by_registers(ctx, bpf_get_attach_cookie(ctx));
}

SEC("kprobe.multi")
int multi_enter(struct pt_regs *ctx)
{
	return begin_by_registers(ctx, bpf_get_attach_cookie(ctx));
}

SEC("kretprobe.multi")
int multi_return(struct pt_regs *ctx)
{
	return end_by_registers(ctx, bpf_get_attach_cookie(ctx));
}

SEC("fentry")
int fentry_enter(__u64 *ctx)
{
	struct spec *spec = spec_of(constants.cookie);
	struct words words;

	if (!spec)
		return 0;
	__builtin_memset(&words, 0, sizeof(words));
	/* Those it does not have stay 0. */
#define ARGUMENT(n) bpf_get_func_arg(ctx, n, &words.at[n])
	ARGUMENT(0);
	ARGUMENT(1);
	ARGUMENT(2);
	ARGUMENT(3);
	ARGUMENT(4);
	ARGUMENT(5);
	ARGUMENT(6);
	ARGUMENT(7);
	ARGUMENT(8);
	ARGUMENT(9);
	ARGUMENT(10);
	ARGUMENT(11);
#undef ARGUMENT
	return begin(ctx, constants.cookie, spec, &words);
}

SEC("fexit")
int fexit_return(__u64 *ctx)
{
	struct spec *spec = spec_of(constants.cookie);
	__u64 result = 0;

	if (!spec)
		return 0;
	bpf_get_func_ret(ctx, &result);
	return end(ctx, constants.cookie, spec, result);
}

/* The words of a tracepoint: where its record is. */
SEC("tracepoint")
int point(void *ctx)
{
	__u64 cookie = bpf_get_attach_cookie(ctx);
	struct spec *spec = spec_of(cookie);
	struct words words;

	if (!spec)
		return 0;
	__builtin_memset(&words, 0, sizeof(words));
	words.at[0] = (__u64)ctx;
	return begin(ctx, cookie, spec, &words);
}

static __always_inline void tell_switch(__u64 now, __u64 id, __u16 kind, __u64 state)
{
	struct record *record = bpf_ringbuf_reserve(&ring, sizeof(*record), 0);

	if (!record) {
		count(kind == KIND_ENTER ? COUNT_LOST : COUNT_LOST_ENDS, 1);
		return;
	}
	fill_head(record, now, id, kind);
	record->function = (__u32)constants.off_cookie;
	record->result = state;
	record->key = (__u64)bpf_get_smp_processor_id();
	bpf_ringbuf_submit(record, BPF_RB_NO_WAKEUP);
}

/* A traced thread leaves the processor, and comes back. */
SEC("tracepoint/sched/sched_switch")
int switched(void *ctx)
{
	__u64 now = bpf_ktime_get_ns(), id = bpf_get_current_pid_tgid();
	__u32 thread = (__u32)id, process = id >> 32, next = 0, *owner;
	struct settings *set = wanted(id, now);
	__u64 state = 0;

	bpf_probe_read_kernel(&state, 8, (char *)ctx + constants.last_state);
	/* One that has ended does not come back; one that is stopped is held by a debugger, maybe by our own
	 * ptrace, whose records would begin inside. */
	if (set && thread && !(state & LEFT_OUT_STATES) && !is_crowded(set) &&
	    !bpf_map_update_elem(&off, &thread, &process, BPF_ANY))
		tell_switch(now, id, KIND_ENTER, state);
	if (bpf_probe_read_kernel(&next, 4, (char *)ctx + constants.next_thread))
		return 0;
	owner = bpf_map_lookup_elem(&off, &next);
	if (owner) {
		tell_switch(now, (__u64)*owner << 32 | next, KIND_RETURN, 0);
		bpf_map_delete_elem(&off, &next);
	}
	return 0;
}
