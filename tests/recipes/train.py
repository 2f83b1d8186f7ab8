"""A training loop in plain Python that stands in for PyTorch's where that is not installed. It calls the driver as a small model
does: the loader takes 100 ms for a batch, the batch is copied to the GPU, six kernels run, and reading the loss waits for them.

train.py [STEPS]
"""
import ctypes
import sys
import time

from inference import KERNELS, do, handle

COUNT, BLOCK = 1024, 256


def batches(steps):
    """A loader without workers: the program waits while it decodes."""
    batch = (ctypes.c_float * COUNT)(*([1.0] * COUNT))
    for _ in range(steps):
        time.sleep(0.1)
        yield batch


def main():
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 30
    context, module, kernel, stream, weights, device = handle(), handle(), handle(), handle(), handle(), ctypes.c_int()
    do("cuInit", 0)
    do("cuDeviceGet", ctypes.byref(device), 0)
    do("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
    do("cuCtxSetCurrent", context)
    do("cuModuleLoadData", ctypes.byref(module), KERNELS)
    do("cuModuleGetFunction", ctypes.byref(kernel), module, b"linear")
    do("cuStreamCreate", ctypes.byref(stream), 1)
    size = ctypes.c_size_t(4 * COUNT)
    do("cuMemAlloc_v2", ctypes.byref(weights), size)
    loss = ctypes.c_float()
    for batch in batches(steps):
        do("cuMemcpyHtoD_v2", weights, batch, size)
        for factor in (2.0, 0.5, 4.0, 0.25, 8.0, 0.125):
            values = [weights, ctypes.c_float(factor), ctypes.c_uint32(COUNT)]
            parameters = (ctypes.c_void_p * 3)(*[ctypes.addressof(value) for value in values])
            do("cuLaunchKernel", kernel, COUNT // BLOCK, 1, 1, BLOCK, 1, 1, 0, stream, parameters, None)
        do("cuStreamSynchronize", stream)
        do("cuMemcpyDtoH_v2", ctypes.byref(loss), weights, ctypes.c_size_t(4))
    do("cuMemFree_v2", weights)
    print(f"{steps} steps, loss {loss.value:.1f}")


main()
