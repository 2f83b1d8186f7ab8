"""Small training loops, each with one fault, for planted.sh.

planted.py NAME          runs item, norm, optimizer, loader, leak or none
planted.py check NAME    a report (JSON on standard input): whether the fault comes first, with its module or line
planted.py line NAME     where the fault is, as cutrace should say it
"""
import json
import sys

STEPS = 40
# What the first finding is called, and what its title has to say besides the line.
EXPECTED = {
    "item": ("item-in-loop", ".item()"),
    "norm": ("small-kernels-in-module", "Model.layers.*.norm"),
    "optimizer": ("unfused-optimizer", "kernels"),
    "loader": ("slow-data-loading", "DataLoader"),
    "leak": ("tensor-leak", "Model.layers.1.remember"),
}


def build(torch, fault):
    nn = torch.nn

    class SmallKernelNorm(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(width))

        def forward(self, x):
            mean = x.mean(-1, keepdim=True)
            centred = x - mean
            variance = (centred * centred).mean(-1, keepdim=True)
            scaled = centred / torch.sqrt(variance + 1e-5)
            return scaled * self.weight + 0.0

    class Remember(nn.Module):
        def __init__(self):
            super().__init__()
            self.kept = []

        def forward(self, x):
            copied = x.detach() * 1.0
            if fault == "leak":
                self.kept.append(copied)
            return x

    class Block(nn.Module):
        def __init__(self, width, number):
            super().__init__()
            self.norm = SmallKernelNorm(width) if fault == "norm" else nn.LayerNorm(width)
            self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)
            self.remember = Remember() if number == 1 else nn.Identity()

        def forward(self, x):
            y = self.norm(x)  # HERE norm
            x = x + self.down(torch.nn.functional.gelu(self.up(y)))
            return self.remember(x)

    class Model(nn.Module):
        def __init__(self, width, layers):
            super().__init__()
            self.layers = nn.ModuleList(Block(width, number) for number in range(layers))
            self.head = nn.Linear(width, 16)

        def forward(self, x):
            for layer in self.layers:
                x = layer(x)
            return self.head(x)

    # Small enough that the host has to hurry; the item's is large enough that there is something to wait for.
    width, layers, batch = {"item": (1024, 8, 4096), "norm": (256, 12, 512), "optimizer": (128, 24, 64)}.get(fault, (512, 4, 1024))
    return Model(width, layers), width, batch


def train(fault):
    import time
    import torch
    torch.manual_seed(1)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model, width, batch = build(torch, fault)
    model = model.to(device)
    if device == "cpu":
        batch = 16
    options = {"foreach": False} if fault == "optimizer" else {"fused": True} if device == "cuda" else {}
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, **options)

    class Data(torch.utils.data.Dataset):
        def __len__(self):
            return STEPS

        def __getitem__(self, number):
            if fault == "loader":
                time.sleep(0.02)
            generator = torch.Generator().manual_seed(number)
            return torch.randn(batch, width, generator=generator), torch.randint(0, 16, (batch,), generator=generator)

    if fault == "loader":
        batches = torch.utils.data.DataLoader(Data(), batch_size=None)
    else:
        fixed = [each.to(device) for each in Data()[0]]
        batches = [fixed] * STEPS
    total = torch.zeros((), device=device)
    seen = 0.0
    for x, y in batches:  # HERE loader
        x, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()  # HERE optimizer
        if fault == "item":
            seen += loss.item()  # HERE item
        else:
            total += loss.detach()
    print("done", fault, seen or total.item())


def line(fault):
    with open(__file__) as file:
        for number, text in enumerate(file, 1):
            if text.rstrip().endswith("# HERE " + fault):
                return f"planted.py:{number}"
    return ""


def check(fault):
    report = json.load(sys.stdin)
    findings = report.get("findings", [])
    found = [(each["id"], each["severity"], each["title"]) for each in findings]
    if fault == "none":
        wrong = [each for each in found if each[0] in {id for id, _ in EXPECTED.values()}]
        print("none:", "ok" if not wrong else f"WRONG {wrong}")
        return len(wrong)
    id, words = EXPECTED[fault]
    first = found[0] if found else ("", "", "nothing was found")
    right = first[0] == id and words in first[2] and line(fault) in first[2]
    print(f"{fault}: {'ok' if right else 'WRONG'}: {first[2]}")
    if not right:
        for each in found[1:5]:
            print("   then", *each)
        print("   wanted", id, words, line(fault))
    return not right


if __name__ == "__main__":
    if sys.argv[1] == "check":
        sys.exit(check(sys.argv[2]))
    elif sys.argv[1] == "line":
        print(line(sys.argv[2]))
    else:
        train(sys.argv[1])
