/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * What the programs of a hooks file have in common, wherever they are attached: whether a hook is wanted
 * now, its stack, and its record. READ and READ_TEXT are defined before this is included. */
#ifndef CUTRACE_HOOKED_H
#define CUTRACE_HOOKED_H

#include "steps.h"
#include "aggregate.h"

#define FRAMES 32

static __always_inline struct settings *wanted_by(const struct spec *spec, __u64 id, __u64 now)
{
	__u32 zero = 0, process = id >> 32;
	struct settings *set;

	if (!(spec->flags & SPEC_EVERYWHERE))
		return wanted(id, now);
	set = bpf_map_lookup_elem(&settings, &zero);
	if (!set || set->disabled || now > set->until || process == set->own)
		return 0;
	return set;
}

/* Where it comes from: the kernel's frames, then the program's. */
static __always_inline void tell_stack(void *ctx, __u64 now, __u64 id)
{
	struct record *record = bpf_ringbuf_reserve(&ring, sizeof(*record) + 2 * 8 * FRAMES, 0);
	char *body;
	long kernel, user;

	if (!record) {
		count(COUNT_LOST_INSTANT, 1);
		return;
	}
	fill_head(record, now, id, KIND_STACK);
	body = (char *)(record + 1);
	kernel = bpf_get_stack(ctx, body, 8 * FRAMES, 0);
	user = bpf_get_stack(ctx, body + 8 * FRAMES, 8 * FRAMES, BPF_F_USER_STACK);
	record->key = kernel > 0 ? (__u64)kernel >> 3 : 0;
	record->result = user > 0 ? (__u64)user >> 3 : 0;
	bpf_ringbuf_submit(record, BPF_RB_NO_WAKEUP);
}

/* A record of what is known now; 0 if it was not to be, or could not. Of a call that is aggregated the record
 * is thrown away, and what is measured becomes its result. */
static __always_inline int write_sized(const __u32 size, const struct spec *spec, __u64 cookie,
				       __u64 now, __u64 id, __u16 kind, struct words *words)
{
	struct record *record = bpf_ringbuf_reserve(&ring, sizeof(*record) + size, 0);
	char *body;
	__u64 *to;

	if (!record) {
		count(kind == KIND_INSTANT ? COUNT_LOST_INSTANT : COUNT_LOST, 1);
		return 0;
	}
	fill_head(record, now, id, kind);
	record->function = (__u32)cookie;
	record->key = (__u64)bpf_get_smp_processor_id();
	record->result = words->result;
	record->words = spec->words;
	body = (char *)(record + 1);
	to = (__u64 *)body;
	__builtin_memcpy(to, words->at, 24);
	if (spec->words > 3)
		__builtin_memcpy(to + 3, words->at + 3, 24);
	if (spec->words > 6)
		__builtin_memcpy(to + 6, words->at + 6, 48);
	if (spec->enter_steps)
		take_steps(record, size, spec, 0, spec->enter_steps, words);
	if (spec->conditions && !is_meant(body, size, spec)) {
		count(COUNT_UNWANTED, 1);
		bpf_ringbuf_discard(record, BPF_RB_NO_WAKEUP);
		return 0;
	}
	if (spec->aggregate) {
		words->result = measured_in(body, size, spec);
		bpf_ringbuf_discard(record, BPF_RB_NO_WAKEUP);
		return 1;
	}
	bpf_ringbuf_submit(record, BPF_RB_NO_WAKEUP);
	return 1;
}

static __always_inline int write_by_class(const struct spec *spec, __u64 cookie, __u64 now, __u64 id,
					  __u16 kind, struct words *words)
{
	if (spec->enter_class < 3)
		return write_sized(BODY_2, spec, cookie, now, id, kind, words);
	return write_sized(BODY_5, spec, cookie, now, id, kind, words);
}

/* Something has happened that is aggregated. 0: a condition does not hold, or it could not be read. */
static __always_inline int take_measure(const struct spec *spec, __u64 cookie, __u64 now, __u64 id,
					struct words *words)
{
	__u64 word = word_of(words, spec->measured);

	if ((spec->conditions || spec->measure == MEASURE_BODY) &&
	    !write_by_class(spec, cookie, now, id, KIND_INSTANT, words))
		return 0;
	if (spec->measure == MEASURE_WORD)
		words->result = word;
	if (!waits_for_return(spec))
		aggregate(spec, cookie, words->result);
	return 1;
}

static __always_inline struct spec *spec_of(__u64 cookie)
{
	__u32 number = cookie >> 32;

	return bpf_map_lookup_elem(&specs, &number);
}

#endif
