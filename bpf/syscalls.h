/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * Records of system calls. crates/capture/src/ebpf/system.rs reads them. */
#ifndef CUTRACE_SYSCALLS_H
#define CUTRACE_SYSCALLS_H

#include "record.h"

/* Most bytes of an ioctl's struct, and of what it points to. */
#define SYSTEM_SHORT 256
#define SYSTEM_MEDIUM 4096
#define SYSTEM_LONG 16384

struct system_call {
	__u64 args[6];
	__u64 behind; /* what the struct points to */
	__u64 began;
	__u32 number;
	__u32 argument_bytes;
	__u32 behind_bytes;
	__u32 reserved;
};

struct system_record_0 {
	struct record head;
	struct system_call call;
	char argument[8];
	char behind[8];
};

struct system_record_1 {
	struct record head;
	struct system_call call;
	char argument[SYSTEM_SHORT];
	char behind[SYSTEM_SHORT];
};

struct system_record_2 {
	struct record head;
	struct system_call call;
	char argument[SYSTEM_SHORT];
	char behind[SYSTEM_MEDIUM];
};

struct system_record_3 {
	struct record head;
	struct system_call call;
	char argument[SYSTEM_LONG];
	char behind[SYSTEM_LONG];
};

/* An open tells all at its end: its name is known only then. */
struct system_open {
	struct record head;
	struct system_call call;
	__u64 ended;
	char path[256];
};

#endif
