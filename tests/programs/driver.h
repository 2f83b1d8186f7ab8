// What the driver-API programs share: the check of a CUresult and the kernels' PTX.
#pragma once
#include "check.h"
#include <cuda.h>

#define EXPECT_RESULT(call, expected) \
    do { \
        CUresult status_ = (call); \
        const char *name_ = "an unknown error"; \
        cuGetErrorName(status_, &name_); \
        EXPECT(status_ == (expected), "%s gave %s (%d), not %s", #call, name_, int(status_), #expected); \
    } while (0)
#define CU(call) EXPECT_RESULT(call, CUDA_SUCCESS)

// Text, with the zero that ends it.
extern "C" const char driver_kernels_ptx[];
asm(".section .rodata\n"
    ".global driver_kernels_ptx\n"
    "driver_kernels_ptx: .incbin \"driver_kernels.ptx\"\n"
    ".byte 0\n"
    ".text\n");
