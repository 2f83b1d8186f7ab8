#!/usr/bin/env bash
# cutrace top and cutrace serve on a real GPU, with a small PyTorch training loop. Needs PyTorch; takes about two minutes.
# Every check prints a line that begins with PASS or FAIL.
set -u
cd "$(dirname "$0")/../.."
cutrace=${CUTRACE:-target/release/cutrace}
cutrace=$(realpath "$cutrace")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python=${PYTHON:-python3}
verdict() { if [ "$1" = 0 ]; then echo "PASS $2"; else echo "FAIL $2"; fi; }

cat > "$work/train.py" <<'P'
import sys, time, torch
torch.manual_seed(0)
model = torch.nn.Sequential(*[torch.nn.Linear(1024, 1024) for _ in range(8)]).cuda()
best = torch.optim.SGD(model.parameters(), lr=1e-3)
data = torch.randn(256, 1024, device="cuda")
steps = int(sys.argv[1])
for step in range(steps):
    if step == 50:
        torch.cuda.synchronize(); began = time.perf_counter()
    best.zero_grad()
    loss = model(data).square().mean()
    loss.backward()
    best.step()
    if step % 10 == 0:
        print("step", step, loss.item(), flush=True)
torch.cuda.synchronize()
print(f"seconds a step {(time.perf_counter() - began) / (steps - 50):.6f}")
P

echo "== top --batch"
"$cutrace" top --batch 0 --interval 2 --ascii "$python" "$work/train.py" 3000 > "$work/top.txt" 2> "$work/top.err"
verdict $? "top: the program ends with 0"
tail -24 "$work/top.txt"
grep -q "GPU 0 " "$work/top.txt"; verdict $? "top: the GPU's times are there"
grep -Eq "step +[0-9.]+ (ms|us)  median" "$work/top.txt"; verdict $? "top: steps were found"
grep -q "dropped 0 " <(tail -24 "$work/top.txt"); verdict $? "top: nothing was dropped"
grep "seconds a step" "$work/top.err"

echo "== serve"
"$cutrace" serve --metrics 127.0.0.1:19464 "$python" "$work/train.py" 6000 > "$work/serve.out" 2> "$work/serve.err" &
server=$!
"$python" - "$work" <<'P'
import re, sys, time, urllib.request
def scrape():
    try:
        return urllib.request.urlopen("http://127.0.0.1:19464/metrics", timeout=5).read().decode()
    except OSError:
        return None
def total(text, name):
    return sum(float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if re.match(name + r"[{ ]", line))
last, until = None, time.time() + 180
while time.time() < until:
    text = scrape()
    if text is None and last is not None:
        break
    last = text or last
    time.sleep(0.5)
if last is None:
    sys.exit("FAIL serve: nobody answers")
open(sys.argv[1] + "/metrics.txt", "w").write(last)
launches, runs = total(last, "cutrace_kernel_launches_total"), total(last, "cutrace_kernel_runs_total")
busy, steps = total(last, "cutrace_gpu_busy_seconds_total"), total(last, "cutrace_step_duration_seconds_count")
mean = total(last, "cutrace_step_duration_seconds_sum") / max(steps, 1)
print(f"launches {launches:.0f}  GPU runs {runs:.0f}  GPU busy {busy:.3f} s  steps {steps:.0f}  mean step {mean * 1e3:.3f} ms")
def verdict(good, words): print(("PASS " if good else "FAIL ") + words)
verdict(launches > 50_000, "serve: launches are counted")
verdict(busy > 0.1, "serve: GPU time is counted")
verdict(abs(runs - launches) < 0.2 * launches, "serve: kernels ran about as often as they were launched (copies and memsets run too)")
verdict(4_000 < steps <= 6_000, "serve: 6000 steps, most of them found")
verdict(total(last, "cutrace_dropped_events_total") == 0, "serve: nothing was dropped")
P
wait "$server"; verdict $? "serve: the program ends with 0"
grep "seconds a step" "$work/serve.out"
"$python" "$work/train.py" 3000 | grep "seconds a step" | sed 's/^/without cutrace: /'
