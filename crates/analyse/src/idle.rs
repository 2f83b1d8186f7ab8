//! When the GPU had nothing to do, and what the host did meanwhile.
//!
//! Where the trace has GPU times, work is what the GPU ran. Otherwise it is taken from the calls:
//! from the one that gives a stream work to the one that waits for that stream. The GPU may have
//! been done long before, so what is called idle then is certainly idle, and more may be.

use crate::{
    Longest, Role, SymbolId, Symbols, Wall,
    gpu::GpuStep,
    host::{HostSweep, HostTime, Spent},
    passed::IdlePassed,
    pending::Pending,
};
use event::{Event, Name};
use serde::{Deserialize, Serialize};

/// When the GPU was idle, and why.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Idle {
    pub basis: Basis,
    pub wall_ns: u64,
    /// All GPUs together: idle means that none worked.
    #[serde(flatten)]
    pub all: IdleTime,
    /// Each GPU by itself; also those that never had work, where the trace names them.
    pub devices: Vec<DeviceIdle>,
    /// The longest gaps, of all GPUs together.
    pub gaps: Vec<Gap>,
    /// All gaps by their length.
    pub histogram: Vec<GapBucket>,
    /// Time another workload could have had: idle time between works, in gaps worth having, over all GPUs.
    pub opportunity_ns: u64,
    /// What makes a gap worth having: shorter ones are lost to switching.
    pub opportunity_min_gap_ns: u64,
}

/// What is known of the GPU's work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Basis {
    /// When the GPU worked was measured.
    GpuTimes,
    /// When the GPU may have worked follows from the calls: idle is a lower bound.
    #[default]
    Launches,
}

impl Basis {
    pub fn as_str(self) -> &'static str {
        match self {
            Basis::GpuTimes => "gpu_times",
            Basis::Launches => "launches",
        }
    }
}

/// Busy and idle time: the two add up to the wall time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct IdleTime {
    pub busy_ns: u64,
    pub idle_ns: u64,
    /// `busy_ns` of the wall time.
    pub busy_share: f64,
    /// Before the first work, between works, and after the last.
    pub leading_ns: u64,
    pub between_ns: u64,
    pub trailing_ns: u64,
    /// Gaps between works.
    pub gap_count: u64,
    pub longest_gap_ns: u64,
    /// Idle time in gaps between works that are worth having.
    pub worth_having_ns: u64,
    /// What the host did in all idle time.
    pub host: HostTime,
    /// The same between works.
    pub between_host: HostTime,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DeviceIdle {
    pub device: Option<u32>,
    #[serde(flatten)]
    pub time: IdleTime,
}

/// A stretch in which no GPU worked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Gap {
    pub place: GapPlace,
    pub start_ns: u64,
    pub end_ns: u64,
    pub length_ns: u64,
    /// The work before it and the work after it; on the basis of launches, the calls.
    pub before: Option<GapNeighbour>,
    pub after: Option<GapNeighbour>,
    pub host: HostTime,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GapNeighbour {
    pub op_id: u64,
    pub name: Name,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GapPlace {
    /// Before the first work.
    Leading,
    Between,
    /// After the last work.
    Trailing,
}

/// Gaps of some lengths.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct GapBucket {
    /// Shorter than this, and not shorter than the bucket before; None: any longer.
    pub below_ns: Option<u64>,
    pub count: u64,
    pub total_ns: u64,
}

/// Switching to another process's work costs the GPU about as much.
const WORTH_HAVING: u64 = 100_000;
const MOST_GAPS: usize = 100;
const MOST_DEVICES: usize = 256;
/// Decades from 1 µs to 1 s; anything longer is in the last bucket.
const BUCKETS: usize = 8;

/// Follows one or all GPUs.
#[derive(Clone)]
struct Track {
    active: u64,
    /// Since when there is nothing to do, and what the host had spent by then.
    idle_since: Option<(u64, Spent)>,
    /// The first work: when, and what.
    first: Option<(u64, Spent, Work)>,
    last: Option<Work>,
    sums: IdleTime,
    buckets: [(u64, u64); BUCKETS],
    gaps: Longest<RawGap>,
    /// When nobody watched, last.
    unknown: (u64, u64),
}

type Work = (u64, SymbolId);

#[derive(Clone)]
struct RawGap {
    place: GapPlace,
    start: u64,
    end: u64,
    before: Option<Work>,
    after: Option<Work>,
    host: HostTime,
}

impl Track {
    fn new(gaps: usize) -> Self {
        Track {
            active: 0,
            idle_since: None,
            first: None,
            last: None,
            sums: IdleTime::default(),
            buckets: [(0, 0); BUCKETS],
            gaps: Longest::new(gaps),
            unknown: (0, 0),
        }
    }

    fn begin(&mut self, at: u64, work: Work, host: &mut HostSweep) {
        if self.active == 0 {
            self.work_comes(at, work, host);
        }
        self.active += 1;
    }

    fn end(&mut self, at: u64, work: Work, host: &mut HostSweep) {
        if self.active == 0 {
            return;
        }
        self.active -= 1;
        if self.active == 0 {
            self.work_goes(at, work, host);
        }
    }

    /// Work that is told only when it is over.
    fn whole(&mut self, start: u64, end: u64, work: Work, host: &mut HostSweep) {
        if self.active == 0 {
            self.work_comes(start, work, host);
            self.work_goes(end, work, host);
        }
    }

    fn work_comes(&mut self, at: u64, work: Work, host: &mut HostSweep) {
        match self.idle_since {
            None => self.first = Some((at, host.spent_at(at), work)),
            Some((since, before)) if at > since => {
                let spent = host.spent_at(at);
                let host = spent.since(&before);
                self.idle_since = Some((at, spent));
                self.gap(RawGap {
                    place: GapPlace::Between,
                    start: since,
                    end: at,
                    before: self.last,
                    after: Some(work),
                    host,
                });
            }
            Some(_) => {}
        }
    }

    fn work_goes(&mut self, at: u64, work: Work, host: &mut HostSweep) {
        // Never before what was called idle ended: no moment is idle twice.
        let counted = self.idle_since.map_or(0, |(since, _)| since);
        let begun = self.first.map_or(0, |(first, ..)| first);
        let at = at.max(counted).max(begun);
        // Work of a window may end behind it.
        let (since, until) = self.unknown;
        let at = if at >= since { at.max(until) } else { at };
        self.idle_since = Some((at, host.spent_at(at)));
        self.last = Some(work);
    }

    /// Recording begins again: what was idle before it stopped was, of the rest nobody knows.
    fn not_watched(&mut self, since: u64, until: u64, host: &mut HostSweep) {
        self.unknown = (since, until);
        if let Some((idle, before)) = self.idle_since
            && self.active == 0
        {
            if idle < since {
                let spent = host.spent_at(since);
                let host = spent.since(&before);
                self.gap(RawGap {
                    place: GapPlace::Between,
                    start: idle,
                    end: since,
                    before: self.last,
                    after: None,
                    host,
                });
            }
            self.idle_since = Some((idle.max(until), host.spent_at(until)));
        }
    }

    fn gap(&mut self, gap: RawGap) {
        let length = gap.end.saturating_sub(gap.start);
        let sums = &mut self.sums;
        match gap.place {
            GapPlace::Leading => sums.leading_ns = length,
            GapPlace::Trailing => sums.trailing_ns = length,
            GapPlace::Between => {
                sums.between_ns = sums.between_ns.saturating_add(length);
                sums.between_host.merge(&gap.host);
                sums.gap_count += 1;
                if length >= WORTH_HAVING {
                    sums.worth_having_ns = sums.worth_having_ns.saturating_add(length);
                }
            }
        }
        sums.idle_ns = sums.idle_ns.saturating_add(length);
        sums.longest_gap_ns = sums.longest_gap_ns.max(length);
        sums.host.merge(&gap.host);
        let bucket = &mut self.buckets[bucket_of(length)];
        bucket.0 += 1;
        bucket.1 = bucket.1.saturating_add(length);
        if self.gaps.wants(length) {
            self.gaps.add(length, gap);
        }
    }

    fn passed(&self, origin: u64, now: u64, host: &HostSweep) -> IdlePassed {
        let mut passed = IdlePassed {
            idle_ns: self.sums.idle_ns,
            gaps: self.sums.gap_count,
            worth_having_ns: self.sums.worth_having_ns,
            host: self.sums.host,
        };
        let mut more = |from: u64, to: u64, host: HostTime| {
            let length = to.saturating_sub(from);
            passed.idle_ns = passed.idle_ns.saturating_add(length);
            if length >= WORTH_HAVING {
                passed.worth_having_ns = passed.worth_having_ns.saturating_add(length);
            }
            passed.host.merge(&host);
        };
        match self.first {
            Some((at, spent, _)) => more(origin, at, spent.since(&Spent::default())),
            None => more(origin, now, host.spent_by(now).since(&Spent::default())),
        }
        if self.active == 0
            && let Some((since, before)) = self.idle_since
        {
            more(since, now, host.spent_by(now).since(&before));
        }
        passed
    }

    fn finish(&mut self, (wall, unknown): (Wall, u64), host: &mut HostSweep) {
        let spent_at_end = host.spent_at(wall.end);
        let whole = spent_at_end.since(&Spent::default());
        // Before the first record nothing was traced.
        let unseen = wall.length().saturating_sub(whole.total_ns());
        let from_start = |spent: Spent| {
            let mut time = spent.since(&Spent::default());
            time.untraced_ns = time.untraced_ns.saturating_add(unseen);
            time
        };
        match self.first {
            None if wall.length() > 0 => self.gap(RawGap {
                place: GapPlace::Leading,
                start: wall.start,
                end: wall.end,
                before: None,
                after: None,
                host: from_start(spent_at_end),
            }),
            Some((at, spent, work)) if at > wall.start => self.gap(RawGap {
                place: GapPlace::Leading,
                start: wall.start,
                end: at,
                before: None,
                after: Some(work),
                host: from_start(spent),
            }),
            _ => {}
        }
        if let Some((since, before)) = self.idle_since
            && self.active == 0
            && wall.end > since
        {
            self.gap(RawGap {
                place: GapPlace::Trailing,
                start: since,
                end: wall.end,
                before: self.last,
                after: None,
                host: spent_at_end.since(&before),
            });
        }
        let watched = wall.length().saturating_sub(unknown);
        self.sums.busy_ns = watched.saturating_sub(self.sums.idle_ns);
        self.sums.busy_share = match watched {
            0 => 0.0,
            watched => self.sums.busy_ns as f64 / watched as f64,
        };
    }
}

/// All GPUs together, and each.
struct Tracks {
    all: Track,
    /// Few: a search is as quick as any.
    devices: Vec<(Option<u32>, Track)>,
}

impl Default for Tracks {
    fn default() -> Self {
        Tracks {
            all: Track::new(MOST_GAPS),
            devices: Vec::new(),
        }
    }
}

impl Tracks {
    fn each(&mut self, device: Option<u32>, mut tell: impl FnMut(&mut Track)) {
        tell(&mut self.all);
        if let Some(track) = self.device(device) {
            tell(track);
        }
    }

    /// The track of a device; None if there are too many.
    fn device(&mut self, device: Option<u32>) -> Option<&mut Track> {
        let known = self.devices.iter().position(|(known, _)| *known == device);
        let place = match known {
            Some(place) => place,
            None if self.devices.len() >= MOST_DEVICES => return None,
            None => {
                self.devices.push((device, Track::new(0)));
                self.devices.len() - 1
            }
        };
        Some(&mut self.devices[place].1)
    }
}

#[derive(Default)]
pub(crate) struct IdleSweep {
    /// From GPU times; none as long as the trace has shown none.
    measured: Option<Tracks>,
    launched: Tracks,
    pending: Pending,
}

impl IdleSweep {
    /// GPU work.
    pub fn gpu(&mut self, event: &Event, symbol: SymbolId, step: GpuStep, host: &mut HostSweep) {
        let work = (event.id, symbol);
        let end = event.end().unwrap_or(event.start);
        let tracks = self.measured.get_or_insert_with(Tracks::default);
        tracks.each(event.device, |track| match step {
            GpuStep::Began => track.begin(event.start, work, host),
            GpuStep::Ended => track.end(end, work, host),
            GpuStep::Whole => track.whole(event.start, end, work, host),
            GpuStep::Nothing => {}
        });
    }

    /// A call begins that may give the GPU work.
    #[inline]
    pub fn begin(&mut self, event: &Event, symbol: SymbolId, role: Role, host: &mut HostSweep) {
        if self.measured.is_some() || !role.starts_work() {
            return;
        }
        let work = (event.id, symbol);
        if let Some(device) = self.pending.start(event) {
            self.launched
                .each(device, |track| track.begin(event.start, work, host));
        }
    }

    /// A call has returned after which work may be known to be done.
    #[inline]
    pub fn end(&mut self, event: &Event, symbol: SymbolId, role: Role, host: &mut HostSweep) {
        if self.measured.is_some() || role == Role::Other {
            return;
        }
        let work = (event.id, symbol);
        let end = event.end().unwrap_or(event.start);
        let launched = &mut self.launched;
        self.pending.done(event, role, |device| {
            launched.each(device, |track| track.end(end, work, host));
        });
    }

    /// What was idle so far; before the first work everything was, from `origin` on.
    pub fn passed(&self, origin: u64, now: u64, host: &HostSweep) -> IdlePassed {
        let tracks = self.measured.as_ref().unwrap_or(&self.launched);
        tracks.all.passed(origin, now, host)
    }

    /// Recording begins again after nobody has watched.
    pub fn not_watched(&mut self, since: u64, until: u64, host: &mut HostSweep) {
        for tracks in self.measured.iter_mut().chain([&mut self.launched]) {
            tracks.all.not_watched(since, until, host);
            for (_, track) in &mut tracks.devices {
                track.not_watched(since, until, host);
            }
        }
    }

    /// `unknown`: how much of the time nobody watched.
    pub fn finish(
        self,
        (wall, unknown): (Wall, u64),
        host: &mut HostSweep,
        symbols: &Symbols,
        known: impl Iterator<Item = u32>,
    ) -> Idle {
        let (basis, tracks) = match self.measured {
            Some(tracks) => (Basis::GpuTimes, tracks),
            None => (Basis::Launches, self.launched),
        };
        let mut tracks = tracks;
        tracks.all.finish((wall, unknown), host);
        if tracks.devices.iter().all(|(device, _)| device.is_some()) {
            for device in known.take(MOST_DEVICES) {
                tracks.device(Some(device));
            }
        }
        let Tracks { all, devices } = tracks;
        let mut devices: Vec<DeviceIdle> = devices
            .into_iter()
            .map(|(device, mut track)| {
                track.finish((wall, unknown), host);
                DeviceIdle {
                    device,
                    time: track.sums,
                }
            })
            .collect();
        devices.sort_by_key(|row| row.device);
        let alone = [all.sums.worth_having_ns];
        let opportunities: Vec<u64> = devices.iter().map(|row| row.time.worth_having_ns).collect();
        let opportunities = if devices.is_empty() {
            &alone[..]
        } else {
            &opportunities
        };
        Idle {
            basis,
            wall_ns: wall.length().saturating_sub(unknown),
            all: all.sums,
            opportunity_ns: opportunities
                .iter()
                .fold(0, |sum: u64, part| sum.saturating_add(*part)),
            devices,
            histogram: histogram(&all.buckets),
            gaps: all
                .gaps
                .into_sorted()
                .map(|gap| gap.shown(symbols))
                .collect(),
            opportunity_min_gap_ns: WORTH_HAVING,
        }
    }
}

impl RawGap {
    fn shown(self, symbols: &Symbols) -> Gap {
        let neighbour = |work: Option<Work>| {
            work.map(|(op_id, symbol)| GapNeighbour {
                op_id,
                name: symbols.name(symbol),
            })
        };
        Gap {
            place: self.place,
            start_ns: self.start,
            end_ns: self.end,
            length_ns: self.end.saturating_sub(self.start),
            before: neighbour(self.before),
            after: neighbour(self.after),
            host: self.host,
        }
    }
}

fn bucket_of(length: u64) -> usize {
    (0..BUCKETS - 1)
        .find(|&bucket| length < bucket_end(bucket))
        .unwrap_or(BUCKETS - 1)
}

fn bucket_end(bucket: usize) -> u64 {
    1_000 * 10u64.pow(bucket as u32)
}

fn histogram(buckets: &[(u64, u64); BUCKETS]) -> Vec<GapBucket> {
    (buckets.iter().enumerate())
        .map(|(bucket, &(count, total_ns))| GapBucket {
            below_ns: (bucket < BUCKETS - 1).then(|| bucket_end(bucket)),
            count,
            total_ns,
        })
        .collect()
}
