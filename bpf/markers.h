/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * Markers that programs are built with (usdt): moments, whose arguments are wherever the compiler had
 * them. Before this is included, SLEEPABLE says whether the programs may wait for pages. */
#ifndef CUTRACE_MARKERS_H
#define CUTRACE_MARKERS_H

#include <linux/bpf.h>
#include <asm/ptrace.h>
#include <bpf/bpf_helpers.h>
#include "user.h"
#define ONLY_TEXTS
#include "hooked.h"

#define REGISTERS (sizeof(struct pt_regs) / 8)

/* By the highest sixteen bits of a cookie. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 4096);
	__type(key, __u32);
	__type(value, struct site);
} sites SEC(".maps");

struct registers {
	__u64 at[REGISTERS];
};

static __always_inline __u64 register_of(const struct registers *registers, __u8 number)
{
	return number < REGISTERS ? registers->at[number] : 0;
}

/* The bits of a value that are meant. */
static __always_inline __u64 of_size(__u64 value, const struct operand *operand)
{
	switch (operand->size) {
	case 1:
		return operand->is_signed ? (__u64)(__s8)value : (__u8)value;
	case 2:
		return operand->is_signed ? (__u64)(__s16)value : (__u16)value;
	case 4:
		return operand->is_signed ? (__u64)(__s32)value : (__u32)value;
	}
	return value;
}

static __always_inline long read_sized(__u64 *value, __u8 size, __u64 from)
{
	switch (size) {
	case 1:
		return READ(value, 1, from);
	case 2:
		return READ(value, 2, from);
	case 4:
		return READ(value, 4, from);
	}
	return READ(value, 8, from);
}

/* A function of its own, verified once: in the loop its branches would multiply. */
__noinline __u64 value_of(const struct registers *registers, const struct operand *operand)
{
	__u64 value;

	if (!registers || !operand)
		return 0;
	value = operand->value;
	if (operand->kind == OPERAND_REGISTER) {
		value = register_of(registers, operand->base) >> (operand->shift & 63);
	} else if (operand->kind == OPERAND_MEMORY) {
		__u64 from = value + register_of(registers, operand->base) +
			     (register_of(registers, operand->index) << (operand->shift & 63));

		value = 0;
		if (read_sized(&value, operand->size, from) < 0)
			count(COUNT_FAULTS, 1);
	}
	return of_size(value, operand);
}

static __always_inline int mark(struct pt_regs *ctx)
{
	__u64 cookie = bpf_get_attach_cookie(ctx);
	__u64 now = bpf_ktime_get_ns(), id = bpf_get_current_pid_tgid();
	__u32 place = cookie >> 48;
	/* The description's number has sixteen bits here. */
	struct spec *spec = spec_of(cookie & 0xffffffffffffull);
	struct site *site = bpf_map_lookup_elem(&sites, &place);
	struct registers registers;
	struct settings *set;
	struct words words;

	if (!spec || !site)
		return 0;
	set = wanted_by(spec, id, now);
	if (!set)
		return 0;
	if (is_crowded(set)) {
		count(COUNT_LOST_INSTANT, 1);
		return 0;
	}
	__builtin_memset(&words, 0, sizeof(words));
	words.stack = ctx->rsp;
	bpf_probe_read_kernel(&registers, sizeof(registers), ctx);
KEEP_LOOP
	for (__u32 i = 0; i < MOST_OPERANDS; i++)
		words.at[i] = value_of(&registers, &site->at[i]);
	if (spec->aggregate) {
		take_measure(spec, cookie, now, id, &words);
		return 0;
	}
	if (spec->flags & SPEC_STACK)
		tell_stack(ctx, now, id);
	write_by_class(spec, cookie, now, id, KIND_INSTANT, &words);
	return 0;
}

#endif
