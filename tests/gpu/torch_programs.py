"""What people do with PyTorch, small: torch_programs.py inference|train|compile|graph|two|profiler

Prints numbers that must be the same with and without a tracer.
"""
import subprocess
import sys

import torch

torch.manual_seed(7)
torch.use_deterministic_algorithms(True)


def model():
    return torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10)).cuda()


def show(name, tensor):
    print(f"{name} {tensor.double().sum().item():.12e}")


def inference(steps=20):
    net, x = model().eval(), torch.randn(32, 64).cuda()
    with torch.no_grad():
        for _ in range(steps):
            y = net(x)
    show("inference", y)


def train():
    net, x = model(), torch.randn(32, 64).cuda()
    target = torch.arange(32).cuda() % 10
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(10):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(net(x), target)
        loss.backward()
        optimizer.step()
    show("loss", loss)


def compiled():
    @torch.compile
    def work(a, b):
        return torch.nn.functional.gelu(a * b + a).sum(dim=1)

    a, b = torch.randn(256, 256).cuda(), torch.randn(256, 256).cuda()
    for _ in range(5):
        y = work(a, b)
    show("compiled", y)


def graph():
    net, x = model().eval(), torch.randn(32, 64).cuda()
    with torch.no_grad():
        side = torch.cuda.Stream()
        with torch.cuda.stream(side):
            for _ in range(3):
                net(x)
        torch.cuda.current_stream().wait_stream(side)
        recorded = torch.cuda.CUDAGraph()
        with torch.cuda.graph(recorded):
            y = net(x)
        for _ in range(10):
            recorded.replay()
    torch.cuda.synchronize()
    show("graph", y)


def two():
    children = [subprocess.Popen([sys.executable, __file__, "inference"], stdout=subprocess.PIPE, text=True)
                for _ in range(2)]
    for child in children:
        print(child.communicate()[0].strip())
        assert child.returncode == 0


def profiler():
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU,
                                            torch.profiler.ProfilerActivity.CUDA]) as profile:
        inference(5)
    kernels = sum(event.count for event in profile.key_averages() if event.device_type.name == "CUDA")
    print(f"profiler saw {kernels} things on the GPU")


{"inference": inference, "train": train, "compile": compiled, "graph": graph, "two": two,
 "profiler": profiler}[sys.argv[1]]()
