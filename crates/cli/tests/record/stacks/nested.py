import ctypes

cuda = ctypes.CDLL("libcuda.so.1")


def allocate(size):
    pointer = ctypes.c_uint64()
    return cuda.cuMemAlloc_v2(ctypes.byref(pointer), size)


class Model:
    def forward(self, sizes):
        return list(map(allocate, sizes))

    @staticmethod
    def generate():
        yield allocate(16)


def train():
    model = Model()
    model.forward([64])
    for _ in Model.generate():
        pass
    naïve = lambda: [allocate(size) for size in (3,)]
    return naïve()


cuda.cuInit(0)
context = ctypes.c_void_p()
cuda.cuCtxCreate_v2(ctypes.byref(context), 0, 0)
train()
# Another function where one was: numbers must not be mistaken.
for number in range(300):
    name = f"made_{number % 3}"
    scope = {"allocate": allocate}
    exec(f"def {name}():\n" + "\n" * number + "    return allocate(1)\n", scope)
    scope[name]()
    del scope
