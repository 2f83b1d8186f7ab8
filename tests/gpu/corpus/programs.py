"""Programs people run, each with at most one thing wrong: programs.py NAME [profile FILE]

With `profile FILE`, torch.profiler's view of the same steps is written to FILE for comparison. REST seconds pass before those steps,
profiled or not, so that the GPU's clock is where it is in the other run; TURN names a file that is locked while the GPU is used,
so that several can be started at once.
"""
import fcntl
import os
import sys
import time

STEPS = int(os.environ.get("STEPS", "24"))
PROFILE = sys.argv[3] if len(sys.argv) > 3 and sys.argv[2] == "profile" else None


turn = None


def wait_for_turn(file):
    """Everything that needs no GPU is loaded first."""
    global turn
    import torch
    import torch._dynamo  # noqa: F401
    import torch.profiler  # noqa: F401

    turn = open(file, "w")
    fcntl.flock(turn, fcntl.LOCK_EX)


def loop(step, steps=STEPS, warm=5):
    """Runs the steps; prints how long one took, median and mean of those after the warm-up."""
    import torch

    times = []
    profiler = None
    for number in range(steps):
        if number == warm and PROFILE:
            from torch.profiler import ProfilerActivity, profile
            torch.cuda.synchronize()
            profiler = profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA])
            profiler.__enter__()
        if number == warm and "REST" in os.environ:
            torch.cuda.synchronize()
            time.sleep(float(os.environ["REST"]))
        began = time.perf_counter()
        step(number)
        times.append(time.perf_counter() - began)
    torch.cuda.synchronize()
    if profiler:
        profiler.__exit__(None, None, None)
    if turn:
        turn.close()
    if profiler:
        profiler.export_chrome_trace(PROFILE)
    times = sorted(times[warm:])
    print(f"step {times[len(times) // 2] * 1e3:.3f} ms, mean {sum(times) / len(times) * 1e3:.3f} ms, {steps} steps")


class Block:
    def __new__(cls, width, heads):
        import torch
        from torch import nn

        class Layer(nn.Module):
            def __init__(self):
                super().__init__()
                self.before, self.after = nn.LayerNorm(width), nn.LayerNorm(width)
                self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
                self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

            def forward(self, x):
                batch, length, _ = x.shape
                q, k, v = self.qkv(self.before(x)).view(batch, length, 3, heads, -1).permute(2, 0, 3, 1, 4)
                y = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
                x = x + self.out(y.transpose(1, 2).reshape(batch, length, width))
                return x + self.down(torch.nn.functional.gelu(self.up(self.after(x))))

        return Layer()


def gpt(layers=6, width=256, heads=8, words=1000):
    import torch
    from torch import nn

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(words, width)
            self.layers = nn.ModuleList(Block(width, heads) for _ in range(layers))
            self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words)

        def forward(self, tokens):
            x = self.embed(tokens)
            for layer in self.layers:
                x = layer(x)
            return self.head(self.norm(x))

    torch.manual_seed(7)
    return Model().cuda()


def train(model, batch=8, length=128, loader=None):
    import torch

    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    source = iter(loader) if loader else None
    fixed = torch.randint(0, 1000, (batch, length + 1), device="cuda")

    def step(number):
        tokens = next(source).cuda(non_blocking=True) if source else fixed
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", torch.bfloat16):
            scores = model(tokens[:, :-1])
            loss = torch.nn.functional.cross_entropy(scores.flatten(0, 1), tokens[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        if number % 10 == 9:
            print(f"loss {loss.item():.3f}")

    return step


def eager():
    loop(train(gpt(layers=4)))


def compiled():
    import torch

    loop(train(torch.compile(gpt(layers=1))))


def big():
    """The GPU is the bottleneck: large matrix products, nothing in between."""
    import torch

    a = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)

    def step(_):
        b = a
        for _ in range(8):
            b = torch.nn.functional.gelu(b @ a) * 0.01
        torch.cuda.synchronize()

    loop(step)


def graphs():
    import torch

    model = gpt(layers=3).eval()
    tokens = torch.randint(0, 1000, (4, 64), device="cuda")
    with torch.no_grad(), torch.autocast("cuda", torch.bfloat16):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                model(tokens)
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            scores = model(tokens)

    def step(_):
        graph.replay()
        torch.cuda.synchronize()

    loop(step, 100)
    print(f"{scores.float().mean().item():.3f}")


def streams():
    """Two streams that work side by side."""
    import torch

    one, two = torch.cuda.Stream(), torch.cuda.Stream()
    a, b = (torch.randn(2048, 2048, device="cuda") for _ in range(2))

    def step(_):
        for stream, matrix in ((one, a), (two, b)):
            with torch.cuda.stream(stream):
                for _ in range(4):
                    matrix @ matrix
        torch.cuda.synchronize()

    loop(step, 60)


def loading():
    """DataLoader-bound: each batch takes longer to make than to train on."""
    import torch

    class Slow(torch.utils.data.Dataset):
        def __len__(self):
            return 100000

        def __getitem__(self, index):
            time.sleep(0.005)
            return torch.randint(0, 1000, (129,))

    loader = torch.utils.data.DataLoader(Slow(), batch_size=8, num_workers=0, pin_memory=True)
    loop(train(gpt(layers=2), loader=loader))


def decode():
    """Host-bound decoding: a token at a time, and .item() after each."""
    import torch

    model = gpt(layers=4).eval()
    tokens = torch.randint(0, 1000, (1, 16), device="cuda")

    def step(_):
        nonlocal tokens
        with torch.no_grad(), torch.autocast("cuda", torch.bfloat16):
            word = model(tokens[:, -16:])[:, -1].argmax(-1, keepdim=True)
        if word.item() < 0:
            raise SystemExit
        tokens = torch.cat((tokens, word), 1)

    loop(step, 50)


def leak():
    """Really leaking: each step keeps 24 MB that are never freed."""
    import torch

    model, kept = gpt(layers=1), []
    step = train(model)

    def leaking(number):
        step(number)
        kept.append(torch.zeros(6_000_000, device="cuda"))

    loop(leaking, 40)


def oom():
    import torch

    kept = []
    for number in range(1000):
        kept.append(torch.ones(2 << 30, device="cuda"))
        print(f"{(number + 1) * 8} GiB")


def illegal():
    """A kernel writes where nothing is."""
    import torch

    step = train(gpt(layers=1))
    for number in range(5):
        step(number)
    import triton
    import triton.language as tl

    @triton.jit
    def scribble(at, far, BLOCK: tl.constexpr):
        tl.store(at + far + tl.arange(0, BLOCK), tl.zeros((BLOCK,), tl.float32))

    x = torch.zeros(1024, device="cuda")
    scribble[(1,)](x, 1 << 40, BLOCK=1024)
    torch.cuda.synchronize()


def asserts():
    """An index out of range: PyTorch's kernel stops with a device-side assert."""
    import torch

    table = torch.randn(100, 64, device="cuda")
    for number in range(20):
        table[torch.randint(0, 100, (32,), device="cuda")].sum()
    print(table[torch.tensor([5, 1000], device="cuda")].sum().item())


def transfer():
    """Transfer-bound: pageable copies of 64 MB there and back each step."""
    import torch

    host = torch.randn(16 << 20)

    def step(_):
        x = host.to("cuda")
        (x * 2 + 1).to("cpu")

    loop(step)


def ddp():
    import socket
    import subprocess

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    ranks = [subprocess.Popen([sys.executable, __file__, "rank", str(number), port]) for number in range(2)]
    sys.exit(max(child.wait() for child in ranks))


def rank():
    import torch
    import torch.distributed as dist

    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=sys.argv[3])
    number = int(sys.argv[2])
    dist.init_process_group("gloo", rank=number, world_size=2)
    loop(train(torch.nn.parallel.DistributedDataParallel(gpt(layers=1)), batch=4))
    dist.destroy_process_group()


def jax_train():
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    import jax
    import jax.numpy as jnp

    weights = [jax.random.normal(jax.random.PRNGKey(n), (512, 512)) * 0.04 for n in range(4)]
    inputs = jax.random.normal(jax.random.PRNGKey(8), (256, 512))

    def loss(weights):
        x = inputs
        for w in weights:
            x = jnp.tanh(x @ w)
        return jnp.mean((x - 1) ** 2)

    step = jax.jit(lambda weights: [w - 0.1 * g for w, g in zip(weights, jax.grad(loss)(weights))])
    for number in range(120):
        weights = step(weights)
        if number % 40 == 39:
            print(f"loss {float(loss(weights)):.4f}")


def cupy_solver():
    import cupy

    n = 2048
    a = cupy.random.random((n, n), dtype=cupy.float32) + n * cupy.eye(n, dtype=cupy.float32)
    b, x = cupy.ones(n, dtype=cupy.float32), cupy.zeros(n, dtype=cupy.float32)
    diagonal = cupy.diag(a)
    for _ in range(200):
        x = (b - a @ x + diagonal * x) / diagonal
    print(f"residual {float(cupy.abs(a @ x - b).max()):.2e}")


def triton_sum():
    import torch
    import triton
    import triton.language as tl

    @triton.jit
    def scaled_sum(x, y, out, n, BLOCK: tl.constexpr):
        at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        inside = at < n
        tl.store(out + at, 2 * tl.load(x + at, mask=inside) + tl.load(y + at, mask=inside), mask=inside)

    n = 1 << 26
    x, y = torch.arange(n, device="cuda", dtype=torch.float32), torch.ones(n, device="cuda")
    out = torch.empty_like(x)
    for _ in range(300):
        scaled_sum[(triton.cdiv(n, 1024),)](x, y, out, n, BLOCK=1024)
    print(f"{out.double().sum().item():.6e}")


if __name__ == "__main__":
    if "TURN" in os.environ:
        wait_for_turn(os.environ["TURN"])
    {"eager": eager, "compile": compiled, "big": big, "graphs": graphs, "streams": streams, "loading": loading,
     "decode": decode, "leak": leak, "oom": oom, "illegal": illegal, "asserts": asserts, "transfer": transfer,
     "ddp": ddp, "rank": rank, "jax": jax_train, "cupy": cupy_solver, "triton": triton_sum}[sys.argv[1]]()
