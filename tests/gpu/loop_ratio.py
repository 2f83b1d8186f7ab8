"""What tests/gpu/loop.sh has measured: each process, and the ratios of each way to the first.

loop_ratio.py FOLDER WAY…     FOLDER/WAY.ROUND: what tests/gpu/torch_linear.py wrote
"""
import pathlib
import statistics
import sys

folder, ways = pathlib.Path(sys.argv[1]), sys.argv[2:]


def part(values, share):
    return sorted(values)[int(share * (len(values) - 1))]


print("us an iteration: least, a tenth, median, nine tenths; waiting for the GPU at the end of a batch; us of a piece of Python")
least, all_batches, spins = {}, {}, {}
for way in ways:
    for path in sorted(folder.glob(f"{way}.*"), key=lambda path: int(path.suffix[1:])):
        rows = [list(map(float, line.split())) for line in path.read_text().splitlines()]
        done = [row[2] for row in rows]
        wait = statistics.median(row[2] - row[1] for row in rows)
        spun = [row[3] for row in rows]
        print(f"{path.name:10} {min(done):7.1f} {part(done, 0.1):7.1f} {statistics.median(done):7.1f} {part(done, 0.9):7.1f}"
              f"   wait {wait:6.1f}   python {min(spun):6.1f} {statistics.median(spun):6.1f}")
        least.setdefault(way, []).append(min(done))
        all_batches.setdefault(way, []).extend(done)
        # How fast the processor was just before a batch and just after it.
        spins.setdefault(way, []).extend(zip(done[1:], spun, spun[1:]))
first = ways[0]
quickest = min(min(before, after) for way in ways for _, before, after in spins[way])
fast = {way: [done for done, *around in spins[way] if max(around) < 1.3 * quickest] for way in ways}
for way in ways[1:]:
    print(f"{way} beside {first}: least {min(least[way]) / min(least[first]):.3f}, "
          f"tenth of all batches {part(all_batches[way], 0.1) / part(all_batches[first], 0.1):.3f}, "
          f"median of processes' leasts {statistics.median(least[way]) / statistics.median(least[first]):.3f}, "
          f"median of all batches {statistics.median(all_batches[way]) / statistics.median(all_batches[first]):.3f}")
    if fast[way] and fast[first]:
        print(f"  while the processor was fast ({len(fast[first])} and {len(fast[way])} batches): "
              f"median {statistics.median(fast[way]) / statistics.median(fast[first]):.3f}")
