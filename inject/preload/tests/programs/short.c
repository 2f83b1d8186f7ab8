// Functions too short for a jump, one right behind the other, under CUDA's names; cuGetProcAddress_v2
// finds them as the driver's does.
#include <string.h>

__asm__(".text\n"
        ".globl cuDriverGetVersion, cuCtxSynchronize, cuInit\n"
        ".type cuDriverGetVersion, @function\n.type cuCtxSynchronize, @function\n.type cuInit, @function\n"
        "cuInit: xor %eax, %eax\n ret\n.size cuInit, 3\n"
        "cuDriverGetVersion: xor %eax, %eax\n ret\n.size cuDriverGetVersion, 3\n"
        "cuCtxSynchronize: xor %eax, %eax\n ret\n.size cuCtxSynchronize, 3\n");
unsigned cuInit(unsigned), cuDriverGetVersion(int *), cuCtxSynchronize(void);

unsigned cuGetProcAddress_v2(const char *name, void **found, int version, unsigned long flags, int *status) {
    *found = strcmp(name, "cuInit") == 0             ? (void *)cuInit
             : strcmp(name, "cuCtxSynchronize") == 0 ? (void *)cuCtxSynchronize
                                                     : 0;
    (void)version, (void)flags, (void)status;
    return *found ? 0 : 500;
}

