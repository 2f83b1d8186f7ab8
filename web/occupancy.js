// How many blocks of a kernel a multiprocessor holds at once, and what keeps it from holding more.

const occupancy = (() => {
  const WARP = 32;
  // What multiprocessors hold, by compute capability, where the trace does not say: threads, blocks, registers, shared memory.
  // From the table of technical specifications in NVIDIA's CUDA programming guide.
  const KNOWN = {
    '7.0': [2048, 32, 65536, 96], '7.2': [2048, 32, 65536, 96], '7.5': [1024, 16, 65536, 64],
    '8.0': [2048, 32, 65536, 164], '8.6': [1536, 16, 65536, 100], '8.7': [1536, 16, 65536, 164], '8.9': [1536, 24, 65536, 100],
    '9.0': [2048, 32, 65536, 228], '10.0': [2048, 32, 65536, 228], '12.0': [1536, 24, 65536, 100],
  };

  // What the trace recorded of a device, the rest by its compute capability. Null: not enough is known.
  function limitsOf(timeline, device) {
    const said = timeline.limits?.[device ?? 0];
    if (!said) return null;
    const known = KNOWN[`${said.major}.${said.minor}`] ?? [];
    const limits = {
      threads: said.threads ?? known[0],
      blocks: said.blocks ?? known[1],
      registers: said.registers ?? known[2],
      shared: said.shared ?? (known[3] == null ? undefined : known[3] * 1024),
      reserved: said.reserved_shared ?? (said.major >= 8 ? 1024 : 0),
      multiprocessors: said.multiprocessors,
    };
    return limits.threads > 0 && limits.blocks > 0 ? limits : null;
  }

  const up = (value, unit) => Math.ceil(value / unit) * unit;

  // launch: { block, registers, fixed, dynamic }. What is not known of it limits nothing, and `partly` says so.
  function of(launch, limits) {
    if (!launch || !limits) return null;
    const threads = launch.block.reduce((product, side) => product * side, 1);
    if (!(threads > 0) || threads > 1024) return null;
    const warps = Math.ceil(threads / WARP);
    const most = Math.floor(limits.threads / WARP);
    const by = [['threads', Math.floor(most / warps)], ['blocks', limits.blocks]];
    // Registers are given out a warp at a time, 256 together.
    if (launch.registers > 0 && limits.registers > 0) {
      by.push(['registers', Math.floor(Math.floor(limits.registers / up(launch.registers * WARP, 256)) / warps)]);
    }
    const shared = (launch.fixed ?? 0) + (launch.dynamic ?? 0);
    if (limits.shared > 0 && shared + limits.reserved > 0) by.push(['shared memory', Math.floor(limits.shared / up(shared + limits.reserved, 128))]);
    const blocks = Math.min(...by.map(([, count]) => count));
    if (!(blocks > 0)) return null;
    return {
      blocks,
      share: Math.min(1, (blocks * warps) / most),
      limit: by.filter(([, count]) => count === blocks).map(([name]) => name),
      partly: launch.registers == null,
      multiprocessors: limits.multiprocessors,
      waves: limits.multiprocessors > 0 && launch.grid ? launch.grid.reduce((product, side) => product * side, 1) / (blocks * limits.multiprocessors) : null,
    };
  }

  function words(found) {
    if (!found) return null;
    const share = `${found.partly ? 'at most ' : ''}${format.share(found.share)}`;
    return `${share}: ${format.plural(found.blocks, 'block', 'blocks')} per SM, limited by ${found.limit.join(' and ')}`;
  }

  return { limitsOf, of, words };
})();
