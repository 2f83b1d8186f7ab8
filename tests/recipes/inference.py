"""A small 'inference' in plain Python, so that the recipes need no framework: for each request the input is copied to
the GPU, two layers run, and the result comes back. Python then has other things to do, and the GPU waits.

inference.py [REQUESTS [SECONDS BETWEEN THEM]]
"""
import ctypes
import sys
import time

KERNELS = b"""
.version 7.0
.target sm_52
.address_size 64
.visible .entry linear(.param .u64 data, .param .f32 weight, .param .u32 count)
{
    .reg .pred %p<2>; .reg .f32 %f<4>; .reg .b32 %r<6>; .reg .b64 %d<4>;
    ld.param.u64 %d1, [data];
    ld.param.f32 %f1, [weight];
    ld.param.u32 %r1, [count];
    mov.u32 %r2, %ctaid.x;
    mov.u32 %r3, %ntid.x;
    mov.u32 %r4, %tid.x;
    mad.lo.s32 %r5, %r2, %r3, %r4;
    setp.ge.u32 %p1, %r5, %r1;
    @%p1 bra DONE;
    cvta.to.global.u64 %d2, %d1;
    mul.wide.u32 %d3, %r5, 4;
    add.s64 %d2, %d2, %d3;
    ld.global.f32 %f2, [%d2];
    mul.f32 %f3, %f2, %f1;
    st.global.f32 [%d2], %f3;
DONE:
    ret;
}
"""
COUNT, BLOCK = 65536, 256
cuda = ctypes.CDLL("libcuda.so.1")


def do(name, *arguments):
    status = getattr(cuda, name)(*arguments)
    if status != 0:
        sys.exit(f"{name}: error {status}")


def handle():
    return ctypes.c_void_p()


def main():
    requests = int(sys.argv[1]) if len(sys.argv) > 1 else 8
    pause = float(sys.argv[2]) if len(sys.argv) > 2 else 0.005
    context, module, kernel, stream, memory, device = handle(), handle(), handle(), handle(), handle(), ctypes.c_int()
    do("cuInit", 0)
    do("cuDeviceGet", ctypes.byref(device), 0)
    do("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
    do("cuCtxSetCurrent", context)
    do("cuModuleLoadData", ctypes.byref(module), KERNELS)
    do("cuModuleGetFunction", ctypes.byref(kernel), module, b"linear")
    do("cuStreamCreate", ctypes.byref(stream), 1)
    size = ctypes.c_size_t(4 * COUNT)
    do("cuMemAlloc_v2", ctypes.byref(memory), size)
    batch = (ctypes.c_float * COUNT)(*([1.0] * COUNT))
    for _ in range(requests):
        do("cuMemcpyHtoD_v2", memory, batch, size)
        for weight in (2.0, 0.5):
            values = [memory, ctypes.c_float(weight), ctypes.c_uint32(COUNT)]
            parameters = (ctypes.c_void_p * 3)(*[ctypes.addressof(value) for value in values])
            do("cuLaunchKernel", kernel, COUNT // BLOCK, 1, 1, BLOCK, 1, 1, 0, stream, parameters, None)
        do("cuStreamSynchronize", stream)
        do("cuMemcpyDtoH_v2", batch, memory, size)
        time.sleep(pause)
    do("cuMemFree_v2", memory)
    print("right" if batch[COUNT - 1] == 1.0 else "wrong")


if __name__ == "__main__":
    main()
