"""What people run, small: frameworks.py jax|cupy|eager|compile|graph|ddp|triton|long STEPS

Prints numbers that must be the same with and without a tracer.
"""
import os
import sys
import time


def jax_training():
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    import jax
    import jax.numpy as jnp

    assert jax.devices()[0].platform == "gpu", jax.devices()
    key = jax.random.PRNGKey(7)
    weights = jax.random.normal(key, (64, 8)) * 0.1
    inputs = jax.random.normal(jax.random.PRNGKey(8), (128, 64))
    target = jnp.sin(inputs @ jnp.ones((64, 8)))

    def loss(weights):
        return jnp.mean((jnp.tanh(inputs @ weights) - target) ** 2)

    step = jax.jit(lambda weights: weights - 0.1 * jax.grad(loss)(weights))
    for number in range(200):
        weights = step(weights)
        if number % 50 == 0:
            print(f"step {number} loss {float(loss(weights)):.4f}")
    print(f"loss {float(loss(weights)):.4f}")


def cupy_mix():
    import cupy

    add = cupy.RawKernel(r"""
        extern "C" __global__ void add(const float *a, const float *b, float *c, int n) {
            int i = blockIdx.x * blockDim.x + threadIdx.x;
            if (i < n) c[i] = a[i] + b[i];
        }""", "add")
    n = 1 << 16
    a, b, c = cupy.arange(n, dtype=cupy.float32), cupy.ones(n, dtype=cupy.float32), cupy.zeros(n, dtype=cupy.float32)
    for _ in range(20):
        add((n // 256,), (256,), (a, b, c, n))
    print(f"add {float(c.sum()):.6e}")
    print(f"fft {float(cupy.abs(cupy.fft.fft(a)).max()):.4e}")
    m = cupy.ones((256, 256), dtype=cupy.float32)
    print(f"matmul {float((m @ m).sum()):.6e}")


def torch_programs(what):
    import runpy

    sys.argv = ["torch_programs.py", what]
    runpy.run_path(os.path.join(os.path.dirname(os.path.abspath(__file__)), "torch_programs.py"), run_name="__main__")


def long_training(steps):
    import torch

    torch.manual_seed(7)
    net = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10)).cuda()
    x, target = torch.randn(32, 64).cuda(), torch.arange(32).cuda() % 10
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    began = time.monotonic()
    for step in range(steps):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(net(x), target)
        loss.backward()
        optimizer.step()
        if step % 1000 == 0:
            print(f"step {step} loss {loss.item():.12e}", flush=True)
    torch.cuda.synchronize()
    print(f"elapsed {time.monotonic() - began:.3f}", file=sys.stderr)


def rank(number, ranks, port):
    import torch
    import torch.distributed as dist

    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    dist.init_process_group("gloo", rank=number, world_size=ranks)
    torch.manual_seed(7)
    net = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(64, 10).cuda())
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    x = torch.randn(32, 64, generator=torch.Generator().manual_seed(number)).cuda()
    for _ in range(10):
        optimizer.zero_grad()
        loss = net(x).square().mean()
        loss.backward()
        optimizer.step()
    print(f"rank {number} loss {loss.item():.5f}", flush=True)
    dist.barrier()
    dist.destroy_process_group()


def ddp():
    import socket
    import subprocess

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    ranks = [subprocess.Popen([sys.executable, __file__, "rank", str(number), str(port)], stdout=subprocess.PIPE, text=True)
             for number in range(2)]
    for child in ranks:
        print(child.communicate()[0].strip())
        assert child.returncode == 0, child.returncode


def triton_kernel():
    import torch
    import triton
    import triton.language as tl

    @triton.jit
    def scaled_sum(x, y, out, n, BLOCK: tl.constexpr):
        at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        inside = at < n
        tl.store(out + at, 2 * tl.load(x + at, mask=inside) + tl.load(y + at, mask=inside), mask=inside)

    n = 1 << 16
    x, y = torch.arange(n, device="cuda", dtype=torch.float32), torch.ones(n, device="cuda")
    out = torch.empty_like(x)
    for _ in range(50):
        scaled_sum[(triton.cdiv(n, 1024),)](x, y, out, n, BLOCK=1024)
    print(f"triton {out.double().sum().item():.6e}")


if __name__ == "__main__":
    what = sys.argv[1]
    if what == "rank":
        rank(int(sys.argv[2]), 2, int(sys.argv[3]))
    elif what == "long":
        long_training(int(sys.argv[2]))
    else:
        {"jax": jax_training, "cupy": cupy_mix, "ddp": ddp, "triton": triton_kernel,
         "eager": lambda: torch_programs("train"), "compile": lambda: torch_programs("compile"),
         "graph": lambda: torch_programs("graph")}[what]()
