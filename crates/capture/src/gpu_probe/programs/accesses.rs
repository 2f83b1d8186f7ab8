//! What `gpu mem` found: each access with what it did, and where its threads went.

use crate::gpu_probe::MapDump;
use event::probed::{CACHE_LINE_BYTES as LINE_BYTES, CacheLine, MemoryAccess, MemoryOwner};
use event::{Arg, Value};
use std::collections::BTreeMap;

/// Accesses that are distinguished; those beyond are not counted.
pub const SITES: u32 = 4096;
/// Places for lines of 128 bytes, a power of two: 16 MB of device memory.
pub const LINES: u32 = 1 << 20;

/// Bytes of an entry of each map.
pub const SUMS_BYTES: u32 = 32;
pub const SITE_BYTES: u32 = 16;
pub const LINE_ENTRY_BYTES: u32 = 16;

/// The maps, in their order.
const SUMS: usize = 0;
const KINDS_OF: usize = 1;
const TABLE: usize = 2;

const SPACES: [&str; 5] = ["generic", "global", "shared", "local", "const"];
const KINDS: [&str; 6] = [
    "load",
    "store",
    "atomic",
    "reduction",
    "copy from",
    "copy to",
];
const SHARED: u32 = 2;

/// (in shared memory, address) → threads.
type Lines = BTreeMap<(bool, u64), u64>;

/// Lines of an access that are told, and owners.
const MOST_TOLD: usize = 8;

/// All accesses, by context and number; one in `one_of` was counted. `owner` knows what a process has in the line at an address, and where
/// that begins.
pub fn accesses(
    dumps: &[MapDump],
    one_of: u32,
    owner: impl Fn(u32, u64) -> Option<(MemoryOwner, u64)>,
) -> Vec<MemoryAccess> {
    let mut all = Vec::new();
    for sums in dumps.iter().filter(|dump| dump.map == Some(SUMS)) {
        let (pid, context) = (sums.pid, sums.context);
        let other = |map: usize| {
            let found = dumps
                .iter()
                .find(|dump| (dump.pid, dump.context, dump.map) == (pid, context, Some(map)));
            found.map_or(&[][..], MapDump::bytes)
        };
        let maps = [sums.bytes(), other(KINDS_OF), other(TABLE)];
        all.extend(of_context(pid, context, one_of, maps, &owner));
    }
    all
}

fn of_context(
    pid: u32,
    context: u32,
    one_of: u32,
    [sums, kinds, table]: [&[u8]; 3],
    owner: &impl Fn(u32, u64) -> Option<(MemoryOwner, u64)>,
) -> Vec<MemoryAccess> {
    let mut lines = by_access(table);
    let times = |counted: u64| counted.saturating_mul(one_of.into());
    let mut all = Vec::new();
    for (number, value) in (0..).zip(sums.chunks_exact(SUMS_BYTES as usize)) {
        let requests = word(value, 0);
        if requests == 0 {
            continue;
        }
        let kind = kinds
            .chunks_exact(SITE_BYTES as usize)
            .nth(number as usize)
            .unwrap_or(&[]);
        let name = |names: &[&'static str], at: usize| {
            let found = names.get(half(kind, at) as usize);
            found.copied().unwrap_or("?")
        };
        let mut access = MemoryAccess {
            pid,
            context,
            number,
            line: half(kind, 0),
            kind: name(&KINDS, 4),
            space: name(&SPACES, 8),
            size: half(kind, 12),
            one_of,
            error_ppm: error_ppm(requests, one_of),
            requests: times(requests),
            threads: times(word(value, 8)),
            bytes: times(word(value, 16)),
            parts: times(word(value, 24)),
            is_shared: half(kind, 8) == SHARED,
            lines: 0,
            least: 0,
            most: 0,
            untold: 0,
            hot: Vec::new(),
            owners: Vec::new(),
        };
        // Of local memory only the thread itself knows where it is.
        if access.space != "local" {
            locate(
                &mut access,
                lines.remove(&number).unwrap_or_default(),
                owner,
            );
        }
        all.push(access);
    }
    all
}

/// The table of lines: for each access how many threads went to which, in shared memory or not.
fn by_access(table: &[u8]) -> BTreeMap<u32, Lines> {
    let mut all: BTreeMap<u32, Lines> = BTreeMap::new();
    for slot in table.chunks_exact(LINE_ENTRY_BYTES as usize) {
        let key = word(slot, 0);
        if key == 0 {
            continue;
        }
        let number = (key >> 51) as u32 & (SITES - 1);
        let shared = key >> 50 & 1 != 0;
        // Shared memory is counted by some of the multiprocessors each.
        let bits = if shared { 32 } else { 50 };
        let address = (key & ((1 << bits) - 1)) * LINE_BYTES;
        let lines = all.entry(number).or_default();
        *lines.entry((shared, address)).or_default() += word(slot, 8);
    }
    all
}

/// Says where its threads went.
fn locate(
    access: &mut MemoryAccess,
    lines: Lines,
    owner: impl Fn(u32, u64) -> Option<(MemoryOwner, u64)>,
) {
    let scaled = |threads: u64| threads.saturating_mul(access.one_of.into());
    let mut lines: Vec<_> = (lines.into_iter())
        .map(|(line, threads)| (line, scaled(threads)))
        .collect();
    lines.sort_by_key(|(_, threads)| std::cmp::Reverse(*threads));
    access.lines = lines.len() as u64;
    access.most = lines.first().map_or(0, |line| line.1);
    access.least = lines.last().map_or(0, |line| line.1);
    let told: u64 = lines.iter().map(|line| line.1).sum();
    access.untold = access.threads.saturating_sub(told);
    let mut owners: BTreeMap<MemoryOwner, u64> = BTreeMap::new();
    for (rank, ((shared, address), threads)) in lines.into_iter().enumerate() {
        let found = (!shared).then(|| owner(access.pid, address)).flatten();
        if let Some((owner, _)) = &found {
            *owners.entry(owner.clone()).or_default() += threads;
        }
        if rank < MOST_TOLD {
            access.hot.push(CacheLine {
                address,
                threads,
                owner: found.map(|(owner, start)| (owner, address.wrapping_sub(start) as i64)),
            });
        }
    }
    access.owners = owners.into_iter().collect();
    access
        .owners
        .sort_by_key(|(_, threads)| std::cmp::Reverse(*threads));
    access.owners.truncate(MOST_TOLD);
}

/// Every request had the same chance to be counted, whatever became of the others: what the number of those that were
/// may be off by, in 95 of 100 cases.
fn error_ppm(counted: u64, one_of: u32) -> u64 {
    let left_out = 1.0 - 1.0 / f64::from(one_of.max(1));
    (1.96e6 * (left_out / counted.max(1) as f64).sqrt()) as u64
}

/// The name of what `parts` are.
fn unit(access: &MemoryAccess) -> &'static str {
    if access.is_shared {
        "passes"
    } else {
        "sectors"
    }
}

/// As an event's details.
pub fn access_details(access: &MemoryAccess) -> Vec<Arg> {
    let mut fields = vec![
        Arg::new("access", access.number),
        Arg::new("line", access.line),
        Arg::new("space", access.space),
        Arg::new("kind", access.kind),
        Arg::new("size", access.size),
        Arg::new("requests", access.requests),
        Arg::new("threads", access.threads),
        Arg::new("bytes", access.bytes),
        Arg::new(unit(access), access.parts),
        Arg::new("lines", access.lines),
        Arg::new("untold", access.untold),
    ];
    if access.one_of > 1 {
        fields.push(Arg::new("one_of", access.one_of));
        fields.push(Arg::new("error_ppm", access.error_ppm));
    }
    let owner = |owner: &MemoryOwner| {
        let mut fields = vec![Arg::new("in", owner.name.as_str())];
        if owner.number > 0 {
            fields.push(Arg::new("allocation", owner.number));
        }
        fields.push(Arg::new("size", owner.bytes));
        fields.push(Arg::new("op_id", owner.op));
        fields
    };
    let hot = access.hot.iter().map(|line| {
        let mut fields = vec![
            Arg::new("address", Value::Pointer(line.address)),
            Arg::new("threads", line.threads),
        ];
        if let Some((found, offset)) = &line.owner {
            fields.extend(owner(found));
            fields.push(Arg::new("offset", *offset));
        }
        Value::Map(fields)
    });
    fields.push(Arg::new("hot", Value::List(hot.collect())));
    let owners = access.owners.iter().map(|(found, threads)| {
        let mut fields = owner(found);
        fields.push(Arg::new("threads", *threads));
        Value::Map(fields)
    });
    fields.push(Arg::new("memory", Value::List(owners.collect())));
    fields
}

fn word(bytes: &[u8], at: usize) -> u64 {
    let part = bytes.get(at..).and_then(|bytes| bytes.first_chunk());
    part.map_or(0, |word| u64::from_le_bytes(*word))
}

fn half(bytes: &[u8], at: usize) -> u32 {
    let part = bytes.get(at..).and_then(|bytes| bytes.first_chunk());
    part.map_or(0, |word| u32::from_le_bytes(*word))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(numbers: &[u64]) -> Vec<u8> {
        numbers.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    /// A global load of 4 bytes in line 12, and 100 threads of it.
    fn one_access(table: &[u64]) -> MemoryAccess {
        let sums = words(&[4, 100, 400, 16]);
        let kinds: Vec<u8> = [12u32, 0, 1, 4]
            .iter()
            .flat_map(|word| word.to_le_bytes())
            .collect();
        let owner = |pid: u32, address: u64| {
            let owner = MemoryOwner {
                name: "cudaMalloc".into(),
                number: 2,
                bytes: 0x1000,
                op: 9,
                times: 1,
            };
            let inside = address < 0x9040 && address + LINE_BYTES > 0x8040;
            (pid == 5 && inside).then_some((owner, 0x8040))
        };
        let maps = [&sums[..], &kinds, &words(table)];
        let mut all = of_context(5, 0, 1, maps, &owner);
        assert_eq!(all.len(), 1);
        all.remove(0)
    }

    const KEY: u64 = 1 << 63;

    #[test]
    fn the_busiest_line_comes_first_and_what_had_no_room_is_counted() {
        let (near, far) = (KEY | 0x8080 >> 7, KEY | 0xf000 >> 7);
        let access = one_access(&[near, 20, 0, 0, far, 70]);
        assert_eq!((access.lines, access.least, access.most), (2, 20, 70));
        assert_eq!(access.untold, 10);
        let hot: Vec<_> = access.hot.iter().map(|line| line.address).collect();
        assert_eq!(hot, [0xf000, 0x8080]);
        assert_eq!(access.hot[0].owner, None);
        assert_eq!(
            access.hot[1].owner.as_ref().map(|found| found.1),
            Some(0x40)
        );
        assert_eq!(access.owners.len(), 1);
        assert_eq!(access.owners[0].1, 20);
    }

    #[test]
    fn memory_may_begin_within_a_line() {
        let access = one_access(&[KEY | 0x8000 >> 7, 100]);
        assert_eq!(
            access.hot[0].owner.as_ref().map(|found| found.1),
            Some(-0x40)
        );
        assert_eq!(access.untold, 0);
    }

    #[test]
    fn lines_of_other_accesses_and_of_shared_memory_are_apart() {
        let shared = KEY | 1 << 50 | 0x8080 >> 7;
        let access = one_access(&[KEY | 1 << 51 | 1, 50, shared, 40]);
        assert_eq!((access.lines, access.untold), (1, 60));
        assert_eq!(access.hot[0].owner, None);
    }

    #[test]
    fn a_line_of_shared_memory_is_one_whoever_counted_it() {
        let shared = |counter: u64| KEY | 1 << 50 | counter << 32 | 0x80 >> 7;
        let access = one_access(&[shared(0), 50, shared(31), 40]);
        assert_eq!((access.lines, access.untold), (1, 10));
        assert_eq!((access.hot[0].address, access.hot[0].threads), (0x80, 90));
    }

    #[test]
    fn samples_stand_for_the_whole() {
        let (sums, kinds) = (words(&[100, 3200, 12_800, 400]), [0; 16]);
        let table = words(&[KEY | 1, 3100]);
        let found = of_context(1, 0, 16, [&sums, &kinds, &table], &|_, _| None);
        let one = &found[0];
        assert_eq!(
            (one.requests, one.threads, one.bytes),
            (1600, 51_200, 204_800)
        );
        assert_eq!((one.parts, one.most, one.untold), (6400, 49_600, 1600));
        // 1.96 times the root of 15/16 of 1/100.
        assert_eq!(one.error_ppm, 189_776);
        assert_eq!(error_ppm(100, 1), 0);
    }

    #[test]
    fn what_is_cut_off_is_no_reason_to_stop() {
        let sums = words(&[4, 100, 400, 16, 7]);
        let found = of_context(1, 0, 1, [&sums, &[1, 2, 3], &[9; 7]], &|_, _| None);
        assert_eq!((found.len(), found[0].untold), (1, 100));
    }
}
