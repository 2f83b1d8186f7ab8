/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * A call of a user-space function: its beginning and its return become records. Before this is
 * included, SLEEPABLE says whether the programs may wait for pages, and KEEP(), if there is one, is where
 * the kernel keeps 8 bytes of a call from its beginning until its return. */
#ifndef CUTRACE_CALLS_H
#define CUTRACE_CALLS_H

#include <linux/bpf.h>
#include <asm/ptrace.h>
#include <bpf/bpf_helpers.h>

#include "user.h"
#include "steps.h"
#include "aggregate.h"
#include "sample.h"

/* The words of calls that have out-parameters, until they return. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, struct call_key);
	__type(value, struct saved_words);
} saved SEC(".maps");

#ifndef KEEP
/* When calls began that are measured at their return. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, struct call_key);
	__type(value, __u64);
} started SEC(".maps");
#endif

/* Beginnings of calls that may turn out to be too short, until they return. The tracer looks here for
 * those that have taken long enough. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, struct call_key);
	__type(value, struct held);
} held SEC(".maps");

/* What they are before they are written. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct held);
} blank SEC(".maps");

/* Calls whose beginnings were left out, so that their returns are, too. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, struct call_key);
	__type(value, __u8);
} left_out SEC(".maps");

/* How many of these there are: mostly none, and nothing has to be looked up. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} left_out_count SEC(".maps");

static __always_inline void leave_out(const struct call_key *key)
{
	__u32 zero = 0;
	__u8 one = 1;
	__u64 *number = bpf_map_lookup_elem(&left_out_count, &zero);

	if (number && !bpf_map_update_elem(&left_out, key, &one, BPF_ANY))
		__sync_fetch_and_add(number, 1);
}

static __always_inline int was_left_out(const struct call_key *key)
{
	__u32 zero = 0;
	__u64 *number = bpf_map_lookup_elem(&left_out_count, &zero);

	if (!number || !*number || bpf_map_delete_elem(&left_out, key))
		return 0;
	__sync_fetch_and_add(number, -1);
	return 1;
}

#define TAKEN 0
#define LEFT_OUT 1

/* Fills in a beginning with a body of `size` bytes. LEFT_OUT: a condition does not hold. */
static __always_inline int fill_beginning(struct record *record, const __u32 size,
					  const struct spec *spec, __u64 cookie, __u64 now, __u64 id,
					  __u16 kind, const struct words *words)
{
	char *body;

	fill_head(record, now, id, kind);
	record->function = (__u32)cookie;
	record->key = words->stack;
	record->words = spec->words;
	if (spec->caller)
		READ(&record->result, 8, words->stack);
	body = (char *)(record + 1);
	__builtin_memcpy(body, words->at, 24);
	if (size >= BODY_1 && spec->words > 3)
		__builtin_memcpy(body + 24, words->at + 3, 24);
	if (size >= BODY_2 && spec->words > 6)
		__builtin_memcpy(body + 48, words->at + 6, 48);
	if (size >= BODY_3 && spec->words > 12)
		__builtin_memcpy(body + 96, words->at + 12, 32);
	if (spec->enter_steps)
		take_steps(record, size, spec, 0, spec->enter_steps, words);
	if (spec->conditions && !is_meant(body, size, spec)) {
		count(COUNT_UNWANTED, 1);
		return LEFT_OUT;
	}
	return TAKEN;
}

/* Writes a beginning. */
static __always_inline int begin_sized(const __u32 size, const struct spec *spec, __u64 cookie,
				       __u64 now, __u64 id, const struct words *words)
{
	struct record *record = bpf_ringbuf_reserve(&ring, sizeof(*record) + size, 0);
	__u16 kind = spec->flags & SPEC_INSTANT ? KIND_INSTANT : KIND_ENTER;

	if (!record) {
		count(COUNT_LOST, 1);
		return LEFT_OUT;
	}
	if (fill_beginning(record, size, spec, cookie, now, id, kind, words) == LEFT_OUT) {
		bpf_ringbuf_discard(record, BPF_RB_NO_WAKEUP);
		return LEFT_OUT;
	}
	bpf_ringbuf_submit(record, BPF_RB_NO_WAKEUP);
	return TAKEN;
}

#define NO_ROOM 2

/* Holds a beginning back. */
static __always_inline int begin_held(const struct spec *spec, __u64 cookie, __u64 now, __u64 id,
				      const struct words *words)
{
	struct call_key key = {
		.stack = words->stack, .thread = (__u32)id, .function = (__u32)cookie
	};
	__u32 zero = 0;
	struct held *nothing = bpf_map_lookup_elem(&blank, &zero), *beginning;

	if (!nothing || bpf_map_update_elem(&held, &key, nothing, BPF_ANY))
		return NO_ROOM;
	beginning = bpf_map_lookup_elem(&held, &key);
	if (!beginning)
		return NO_ROOM;
	if (fill_beginning(&beginning->head, BODY_5, spec, cookie, now, id, 0, words) == LEFT_OUT) {
		bpf_map_delete_elem(&held, &key);
		return LEFT_OUT;
	}
	*(volatile __u16 *)&beginning->head.kind = KIND_ENTER;
	return TAKEN;
}

static __always_inline int tell_held(const __u32 size, const struct held *beginning)
{
	struct record *record = bpf_ringbuf_reserve(&ring, sizeof(*record) + size, 0);

	if (!record) {
		count(COUNT_LOST, 1);
		return LEFT_OUT;
	}
	bpf_probe_read_kernel(record, sizeof(*record) + size, beginning);
	bpf_ringbuf_submit(record, BPF_RB_NO_WAKEUP);
	return TAKEN;
}

/* A call returns whose beginning may have been held back. LEFT_OUT: it was too short. */
static __always_inline int release_held(const struct settings *set, const struct spec *spec,
					const struct call_key *key, __u64 now)
{
	struct held *beginning = bpf_map_lookup_elem(&held, key);
	int done;

	if (!beginning)
		return TAKEN;
	if (now - beginning->head.time < set->shortest) {
		count(COUNT_SHORT, 1);
		done = LEFT_OUT;
	} else {
		switch (spec->enter_class) {
		case 0:
			done = tell_held(BODY_0, beginning);
			break;
		case 1:
			done = tell_held(BODY_1, beginning);
			break;
		case 2:
			done = tell_held(BODY_2, beginning);
			break;
		case 3:
			done = tell_held(BODY_3, beginning);
			break;
		case 4:
			done = tell_held(BODY_4, beginning);
			break;
		default:
			done = tell_held(BODY_5, beginning);
		}
	}
	bpf_map_delete_elem(&held, key);
	return done;
}

static __always_inline int end_sized(const __u32 size, const struct spec *spec, __u64 cookie,
				     __u64 now, __u64 id, const struct words *words)
{
	struct record *record = bpf_ringbuf_reserve(&ring, sizeof(*record) + size, 0);

	if (!record) {
		count(COUNT_LOST_ENDS, 1);
		return LEFT_OUT;
	}
	fill_head(record, now, id, KIND_RETURN);
	record->function = (__u32)cookie;
	record->key = words->stack;
	record->result = words->result;
	if (size && spec)
		take_steps(record, size, spec, spec->enter_steps, spec->return_steps, words);
	bpf_ringbuf_submit(record, BPF_RB_NO_WAKEUP);
	return TAKEN;
}

/* A return of which all that is read is one output: most calls that have any. */
static __always_inline int end_with_output(const struct spec *spec, __u64 cookie, __u64 now, __u64 id,
					   const struct words *words, __u64 from)
{
	const struct step *step = &spec->steps[spec->enter_steps & (MOST_STEPS - 1)];
	struct record *record = bpf_ringbuf_reserve(&ring, sizeof(*record) + 8, 0);
	char *body;

	if (!record) {
		count(COUNT_LOST_ENDS, 1);
		return LEFT_OUT;
	}
	fill_head(record, now, id, KIND_RETURN);
	record->function = (__u32)cookie;
	record->key = words->stack;
	record->result = words->result;
	body = (char *)(record + 1);
	*(__u64 *)body = 0;
	if (from) {
		from += step->offset;
		if ((step->length == 8 ? READ(body, 8, from) : READ(body, 4, from)) < 0) {
			record->flags = FLAG_FAULT;
			count(COUNT_FAULTS, 1);
		}
	}
	bpf_ringbuf_submit(record, BPF_RB_NO_WAKEUP);
	return TAKEN;
}

static __always_inline void read_words(struct words *words, const struct pt_regs *ctx, __u8 wanted)
{
	words->at[0] = ctx->rdi;
	words->at[1] = ctx->rsi;
	words->at[2] = ctx->rdx;
	words->at[3] = ctx->rcx;
	words->at[4] = ctx->r8;
	words->at[5] = ctx->r9;
	words->stack = ctx->rsp;
	words->result = 0;
	/* Above the return address; the caller has just written there. */
	if (wanted > 6)
		READ(words->at + 6, 80, ctx->rsp + 8);
	else
		__builtin_memset(words->at + 6, 0, 80);
}

/* Where a call comes from, ahead of its beginning. The return address is where it always is; what is
 * above it is found by frame pointers, as far as there are any. */
static __always_inline void tell_stack(struct pt_regs *ctx, __u64 now, __u64 id)
{
	struct record *record =
		bpf_ringbuf_reserve(&ring, sizeof(*record) + 8 * (1 + MOST_FRAMES), 0);
	char *body;
	long above;

	/* The call is shown without. */
	if (!record)
		return;
	fill_head(record, now, id, KIND_STACK);
	body = (char *)(record + 1);
	if (bpf_probe_read_user(body, 8, (const void *)ctx->rsp))
		*(__u64 *)body = 0;
	/* The first is the function itself. */
	above = bpf_get_stack(ctx, body + 8, 8 * MOST_FRAMES, BPF_F_USER_STACK | 1);
	record->result = above > 0 ? (__u64)above >> 3 : 0;
	bpf_ringbuf_submit(record, BPF_RB_NO_WAKEUP);
}

static __always_inline int begin_by_class(const struct spec *spec, __u64 cookie, __u64 now, __u64 id,
					  const struct words *words)
{
	switch (spec->enter_class) {
	case 0:
		return begin_sized(BODY_0, spec, cookie, now, id, words);
	case 1:
		return begin_sized(BODY_1, spec, cookie, now, id, words);
	case 2:
		return begin_sized(BODY_2, spec, cookie, now, id, words);
	case 3:
		return begin_sized(BODY_3, spec, cookie, now, id, words);
	case 4:
		return begin_sized(BODY_4, spec, cookie, now, id, words);
	default:
		return begin_sized(BODY_5, spec, cookie, now, id, words);
	}
}

/* What an aggregated call has in its arguments. LEFT_OUT: a condition does not hold. */
static __always_inline int measure(const struct spec *spec, __u64 cookie, __u64 now, __u64 id,
				   const struct words *words, __u64 *value)
{
	/* The ring is where there is room for a body; nobody gets to see this one. */
	struct record *record = bpf_ringbuf_reserve(&ring, sizeof(*record) + BODY_5, 0);
	int done;

	if (!record) {
		count(COUNT_LOST, 1);
		return LEFT_OUT;
	}
	done = fill_beginning(record, BODY_5, spec, cookie, now, id, KIND_INSTANT, words);
	*value = measured_in((char *)(record + 1), BODY_5, spec);
	bpf_ringbuf_discard(record, BPF_RB_NO_WAKEUP);
	return done;
}

/* An argument that comes in a register: most are measured by one of these. By way of the stack: the verifier
 * takes no reads of the context at a place that varies. */
static __always_inline __u64 register_word(const struct pt_regs *ctx, __u16 number)
{
	__u64 at[8];

	at[0] = ctx->rdi;
	at[1] = ctx->rsi;
	at[2] = ctx->rdx;
	at[3] = ctx->rcx;
	at[4] = ctx->r8;
	at[5] = ctx->r9;
	at[6] = 0;
	at[7] = 0;
	return at[number & 7];
}

/* A function has begun whose calls are aggregated. LEFT_OUT: its return is of no interest. */
static __always_inline int begin_aggregate(struct pt_regs *ctx, __u64 cookie, const struct spec *spec,
					   __u64 now, __u64 id)
{
	__u64 value = 0;

	if (!spec->conditions && spec->measure == MEASURE_WORD && spec->measured < 6) {
		value = register_word(ctx, spec->measured);
	} else if (spec->conditions || spec->measure >= MEASURE_WORD) {
		struct words words;

		read_words(&words, ctx, spec->words);
		value = word_of(&words, spec->measured);
		if ((spec->conditions || spec->measure == MEASURE_BODY) &&
		    measure(spec, cookie, now, id, &words, &value) == LEFT_OUT)
			return LEFT_OUT;
		if (spec->measure == MEASURE_WORD)
			value = word_of(&words, spec->measured);
	}
	if (waits_for_return(spec)) {
#ifdef KEEP
		*KEEP() = now;
#else
		struct call_key key = {
			.stack = ctx->rsp, .thread = (__u32)id, .function = (__u32)cookie
		};

		if (bpf_map_update_elem(&started, &key, &now, BPF_ANY))
			count(COUNT_UNSAVED, 1);
#endif
		return TAKEN;
	}
	aggregate(spec, cookie, value);
	return LEFT_OUT;
}

static __always_inline int end_aggregate(const struct pt_regs *ctx, __u64 cookie,
					 const struct spec *spec, __u64 now,
					 const struct call_key *key)
{
	__u64 began;
#ifdef KEEP
	began = *KEEP();
#else
	__u64 *found = bpf_map_lookup_elem(&started, key);

	/* It began before we were there, or is of no interest. */
	if (!found)
		return 0;
	began = *found;
	bpf_map_delete_elem(&started, key);
#endif
	aggregate(spec, cookie, spec->measure == MEASURE_DURATION ? now - began : ctx->rax);
	return 0;
}

/* A function has begun. LEFT_OUT: its return is of no interest; `marked` calls are remembered, for who
 * cannot keep the kernel from telling of their returns. */
static __always_inline int begin_call(struct pt_regs *ctx, __u64 cookie, const int marked)
{
	__u64 now = 0, id = bpf_get_current_pid_tgid();
	__u32 number = cookie >> 32;
	struct settings *set;
	struct words words;
	struct spec *spec;
	int done;

	spec = bpf_map_lookup_elem(&specs, &number);
	if (!spec)
		return LEFT_OUT;
	/* Most that is aggregated takes no clock, which is a good part of what it costs. */
	if (!spec->aggregate || spec->measure == MEASURE_DURATION)
		now = bpf_ktime_get_ns();
	set = wanted(id, now);
	if (!set)
		return LEFT_OUT;
	if (!now && set->until != ~0ull && bpf_ktime_get_ns() > set->until)
		return LEFT_OUT;
	if (spec->aggregate)
		return begin_aggregate(ctx, cookie, spec, now, id);
	if (!is_in_sample(set, spec, cookie)) {
		count(COUNT_UNSAMPLED, 1);
		done = LEFT_OUT;
	/* The rest of the ring is for the returns of calls that are under way. */
	} else if (is_crowded(set)) {
		count(COUNT_LOST, 1);
		done = LEFT_OUT;
	} else {
		read_words(&words, ctx, spec->words);
		if (spec->flags & SPEC_STACK)
			tell_stack(ctx, now, id);
		done = NO_ROOM;
		if (set->shortest && spec->flags & SPEC_SHORT_NOT)
			done = begin_held(spec, cookie, now, id, &words);
		/* One that cannot be held back is told of at once. */
		if (done == NO_ROOM)
			done = begin_by_class(spec, cookie, now, id, &words);
	}
	if (spec->flags & (SPEC_NO_RETURN | SPEC_INSTANT))
		return LEFT_OUT;
#ifdef KEEP
	if (done == TAKEN && spec->kept) {
		*KEEP() = words.at[(spec->kept - 1) & (MOST_WORDS - 1)];
		return done;
	}
#endif
	if (done == LEFT_OUT || spec->return_steps) {
		struct call_key key = {
			.stack = ctx->rsp, .thread = (__u32)id, .function = (__u32)cookie
		};

		if (done == LEFT_OUT) {
			if (marked)
				leave_out(&key);
		} else if (bpf_map_update_elem(&saved, &key, words.at, BPF_ANY)) {
			count(COUNT_UNSAVED, 1);
		}
	}
	return done;
}

static __always_inline int end_by_class(const struct spec *spec, __u64 cookie, __u64 now, __u64 id,
					const struct words *words)
{
	switch (spec->return_class) {
	case 0:
		return end_sized(BODY_0, spec, cookie, now, id, words);
	case 1:
		return end_sized(BODY_1, spec, cookie, now, id, words);
	case 2:
		return end_sized(BODY_2, spec, cookie, now, id, words);
	case 3:
		return end_sized(BODY_3, spec, cookie, now, id, words);
	case 4:
		return end_sized(BODY_4, spec, cookie, now, id, words);
	default:
		return end_sized(BODY_5, spec, cookie, now, id, words);
	}
}

static __always_inline int end_call(const struct pt_regs *ctx, __u64 cookie, const int marked)
{
	__u64 now = bpf_ktime_get_ns(), id = bpf_get_current_pid_tgid();
	__u32 number = cookie >> 32, zero = 0;
	/* The return address has been taken off. */
	struct call_key key = {
		.stack = ctx->rsp - 8, .thread = (__u32)id, .function = (__u32)cookie
	};
	__u32 process = id >> 32;
	struct words words;
	struct spec *spec;
	struct saved_words *kept;

	struct settings *set = bpf_map_lookup_elem(&settings, &zero);
	if (!set || set->disabled)
		return 0;
	/* Sessions hear only of returns whose beginnings were taken. */
	if (marked && (!is_traced(set, process) || was_left_out(&key)))
		return 0;
	spec = bpf_map_lookup_elem(&specs, &number);
	if (!spec)
		return 0;
	if (spec->aggregate)
		return end_aggregate(ctx, cookie, spec, now, &key);
	if (spec->flags & (SPEC_NO_RETURN | SPEC_INSTANT))
		return 0;
	if (set->shortest && spec->flags & SPEC_SHORT_NOT &&
	    release_held(set, spec, &key, now) == LEFT_OUT) {
		if (spec->return_steps)
			bpf_map_delete_elem(&saved, &key);
		return 0;
	}
	words.stack = key.stack;
	words.result = ctx->rax;
	if (!spec->return_steps)
		return end_sized(0, 0, cookie, now, id, &words);
#ifdef KEEP
	if (spec->kept) {
		__u64 word = *KEEP();

		if (spec->flags & SPEC_ONE_OUTPUT)
			return end_with_output(spec, cookie, now, id, &words, word);
		/* No step goes by any other. */
		for (int i = 0; i < MOST_WORDS; i++)
			words.at[i] = word;
		return end_by_class(spec, cookie, now, id, &words);
	}
#endif
	kept = bpf_map_lookup_elem(&saved, &key);
	if (!kept)
		/* It began before we were there: there is nothing to end. */
		return end_sized(0, 0, cookie, now, id, &words);
	__builtin_memcpy(words.at, kept, sizeof(words.at));
	bpf_map_delete_elem(&saved, &key);
	if (spec->flags & SPEC_ONE_OUTPUT)
		return end_with_output(spec, cookie, now, id, &words,
				       words.at[(spec->kept - 1) & (MOST_WORDS - 1)]);
	return end_by_class(spec, cookie, now, id, &words);
}

#endif
