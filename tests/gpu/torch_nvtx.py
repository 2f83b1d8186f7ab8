"""A few training steps in NVTX ranges of PyTorch's: ten steps of forward, backward and update."""
import torch

model = torch.nn.Sequential(*[torch.nn.Linear(1024, 1024) for _ in range(4)]).cuda()
optimiser = torch.optim.SGD(model.parameters(), lr=0.01)
data = torch.randn(256, 1024, device="cuda")
for step in range(10):
    with torch.cuda.nvtx.range(f"step {step}"):
        torch.cuda.nvtx.range_push("forward")
        loss = model(data).square().mean()
        torch.cuda.nvtx.range_pop()
        with torch.cuda.nvtx.range("backward"):
            loss.backward()
        torch.cuda.nvtx.mark("before the update")
        optimiser.step()
        optimiser.zero_grad()
torch.cuda.synchronize()
print("loss", float(loss))
