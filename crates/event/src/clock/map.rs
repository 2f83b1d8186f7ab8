//! The one map from a source's clock to the host's.
//!
//! A map is a line of straight pieces that never goes down, so times come out in the order they went in.
//! Between pairs it follows them as [`ClockRules`] say; beyond them it goes on at the mean or the nominal
//! rate. Pairs that are not after the one before, in both clocks, are left out; no pair, however absurd,
//! makes a map panic or run backwards.
//!
//! A time that has been written cannot be corrected: up to where [`ClockMap::settle`] says, the line stays
//! as it is when later pairs come, and is bent towards them from there on.

use super::{ClockLine, ClockPair, ClockRules};
use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// An error that could not be corrected at once is worked off over this many host nanoseconds.
const HORIZON: f64 = 50_000_000.0;
/// A line is never bent to less than this part of its rate while an error is worked off.
const LEAST_PACE: f64 = 0.5;
/// What a crystal may drift where only one pair is known, in parts of a million.
const UNKNOWN_DRIFT_PPM: f64 = 100.0;
/// Over less host time than this, no rate says that a clock is another one.
const LEAP_SHOWS: u64 = 1_000_000;
/// Pieces of the line that are looked at one by one, newest first: most times asked for are new.
const RECENT: usize = 4;

/// A source's clock on the host's.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ClockMap {
    rules: ClockRules,
    ends: Option<Ends>,
    pieces: VecDeque<LineSegment>,
    /// What the line is fitted to, where it is.
    fitted: Vec<ClockPair>,
    /// Up to this time of the source the line stays as it is.
    settled: u64,
    error: u64,
    pairs: u32,
}

/// The first pair and the latest.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Ends {
    first: ClockPair,
    latest: ClockPair,
}

/// The line from `source` on.
#[derive(Debug, Clone, Copy, PartialEq)]
struct LineSegment {
    source: u64,
    host: u64,
    rate: f64,
}

impl LineSegment {
    #[inline]
    fn at(&self, source: u64) -> u64 {
        match source.checked_sub(self.source) {
            Some(after) => self.host.saturating_add(lasting(after, self.rate)),
            None => (self.host).saturating_sub(lasting(self.source - source, self.rate)),
        }
    }
}

/// One straight piece of a map, for callers that convert many nearby times. Invalid once a pair is added.
#[derive(Debug, Clone, Copy)]
pub struct ClockStretch {
    line: LineSegment,
    /// The next piece begins here.
    until: u64,
}

impl ClockStretch {
    /// The host's time at the source's. None: another piece has it.
    #[inline]
    pub fn to_host(&self, source: u64) -> Option<u64> {
        (self.line.source <= source && source < self.until).then(|| self.line.at(source))
    }
}

impl ClockMap {
    pub fn new(rules: ClockRules) -> Self {
        ClockMap {
            rules,
            ..ClockMap::default()
        }
    }

    /// One through all of these pairs.
    pub fn through(rules: ClockRules, pairs: &[ClockPair]) -> Self {
        let mut map = ClockMap::new(rules);
        pairs.iter().for_each(|pair| map.add(*pair));
        map
    }

    pub fn add(&mut self, pair: ClockPair) {
        match self.rules.line {
            ClockLine::NeverBefore => self.keep_behind(pair),
            _ if !self.follows(pair) => return,
            ClockLine::ThroughPairs => self.lead_to(pair),
            ClockLine::BestFit => self.fit_also(pair),
        }
        let first = self.ends.map_or(pair, |ends| ends.first);
        self.ends = Some(Ends {
            first,
            latest: pair,
        });
        self.pairs = self.pairs.saturating_add(1);
    }

    /// Times up to this one of the source have been used and stay as they are, as far as the next pair
    /// is later.
    pub fn settle(&mut self, source: u64) {
        self.settled = self.settled.max(source);
    }

    /// The host's time at the source's. None: there are not enough pairs yet.
    #[inline]
    pub fn to_host(&self, source: u64) -> Option<u64> {
        Some(self.piece_at(source)?.at(source))
    }

    /// The piece of the line that has this time of the source, where the line has begun by then.
    pub fn stretch_at(&self, source: u64) -> Option<ClockStretch> {
        let after = self.pieces.partition_point(|piece| piece.source <= source);
        let line = *self.pieces.get(after.checked_sub(1)?)?;
        let until = self.pieces.get(after).map_or(u64::MAX, |next| next.source);
        Some(ClockStretch { line, until })
    }

    pub fn is_known(&self) -> bool {
        !self.pieces.is_empty()
    }

    /// How long so many units of the source are, in host nanoseconds.
    pub fn length(&self, ticks: u64) -> u64 {
        let rate = match self.ends {
            Some(ends) => self.rate_between(ends.first, ends.latest),
            None => self.rules.nominal(),
        };
        rate.map_or(0, |rate| (ticks as f64 * rate) as u64)
    }

    /// Host nanoseconds for each unit of the source, beyond the latest pair.
    pub fn rate(&self) -> Option<f64> {
        Some(self.pieces.back()?.rate)
    }

    /// No time between the first pair and the latest is wrong by more, as far as the pairs show.
    pub fn error(&self) -> u64 {
        self.error
    }

    /// The same for any time: outside the pairs the rate's own error adds up.
    pub fn error_at(&self, source: u64) -> u64 {
        let (Some(ends), Some(rate)) = (self.ends, self.rate()) else {
            return u64::MAX;
        };
        let (first, last) = (ends.first.source, ends.latest.source);
        let outside = match source {
            _ if source < first => first - source,
            _ if source > last => source - last,
            _ => return self.error,
        };
        let rate_error = match last.saturating_sub(first) {
            0 => rate * UNKNOWN_DRIFT_PPM / 1e6,
            span => 2.0 * self.error as f64 / span as f64,
        };
        let more = (outside as f64 * rate_error) as u64;
        self.error.saturating_add(more).saturating_add(1)
    }

    /// Pairs that were used.
    pub fn pairs(&self) -> u32 {
        self.pairs
    }

    #[inline]
    fn piece_at(&self, source: u64) -> Option<&LineSegment> {
        let mut recent = self.pieces.iter().rev().take(RECENT);
        if let Some(piece) = recent.find(|piece| piece.source <= source) {
            return Some(piece);
        }
        self.older_piece_at(source)
    }

    #[cold]
    fn older_piece_at(&self, source: u64) -> Option<&LineSegment> {
        let after = self.pieces.partition_point(|piece| piece.source <= source);
        self.pieces.get(after.saturating_sub(1))
    }

    /// The rate to believe after these two.
    fn rate_between(&self, first: ClockPair, latest: ClockPair) -> Option<f64> {
        let mean = mean_rate(first, latest);
        let units = latest.source.saturating_sub(first.source);
        let is_long = self.rules.measured_over.is_some_and(|over| units > over);
        let measured = mean.filter(|_| is_long);
        measured.or(self.rules.nominal()).or(mean)
    }

    /// Whether a pair is after the latest, and of the same clock.
    fn follows(&self, pair: ClockPair) -> bool {
        let Some(Ends { latest, .. }) = self.ends else {
            return true;
        };
        let (Some(ticks), Some(time)) = (
            pair.source
                .checked_sub(latest.source)
                .filter(|ticks| *ticks > 0),
            pair.host.checked_sub(latest.host).filter(|time| *time > 0),
        ) else {
            return false;
        };
        if self.is_known() && time < self.rules.spacing {
            return false;
        }
        match (self.rules.leap, self.rules.nominal()) {
            (Some(leap), Some(rate)) if time > LEAP_SHOWS => {
                (ticks as f64 * rate / time as f64 - 1.0).abs() <= leap
            }
            _ => true,
        }
    }

    /// Leads the line to a new pair from where it is settled, or, if that would be a corner, bends it
    /// towards the pair.
    fn lead_to(&mut self, pair: ClockPair) {
        let Some(Ends { first, latest }) = self.ends else {
            self.error = pair.margin;
            if let Some(rate) = self.rules.nominal() {
                self.bend(pair.source, pair.host, rate);
            }
            return;
        };
        let Some(rate) = self.rate_between(first, pair) else {
            return;
        };
        let from = match self.is_known() {
            true => self.settled.clamp(latest.source, pair.source),
            false => latest.source,
        };
        let margin = match self.to_host(pair.source) {
            Some(expected) => {
                let off = expected.abs_diff(pair.host);
                if self.pairs >= 2 {
                    self.error = self.error.max((off as f64 * self.rules.wander) as u64);
                }
                // What was used before the pair came was wrong by its part of the way.
                let used = (from - latest.source) as f64 / (pair.source - latest.source) as f64;
                pair.margin.saturating_add((off as f64 * used) as u64)
            }
            None => pair.margin,
        };
        self.error = self.error.max(margin);
        if from < pair.source {
            let host = self.to_host(from).unwrap_or(latest.host);
            let straight = pair.host.saturating_sub(host) as f64 / (pair.source - from) as f64;
            let bend = self.rules.most_bend;
            let rate = straight.clamp(rate * (1.0 - bend), rate * (1.0 + bend));
            self.bend(from, host, rate);
        }
        let host = self.to_host(pair.source).unwrap_or(pair.host);
        let behind = (i128::from(pair.host) - i128::from(host)) as f64;
        // Rounding is no error.
        if behind.abs() > 1.0 {
            let behind = pair.margin.saturating_add(behind.abs() as u64);
            self.error = self.error.max(behind);
        }
        let most = self.rules.most_bend.min(LEAST_PACE);
        let bend = (behind / HORIZON).clamp(-most, most);
        self.bend(pair.source, host, rate * (1.0 + bend));
    }

    /// From there on the line goes at that rate. Nothing of it is later.
    fn bend(&mut self, source: u64, host: u64, rate: f64) {
        let piece = LineSegment { source, host, rate };
        match self.pieces.back_mut() {
            Some(last) if last.source == source => *last = piece,
            _ => {
                if self.pieces.len() >= self.rules.kept.max(2) {
                    self.pieces.pop_front();
                }
                self.pieces.push_back(piece);
            }
        }
    }

    fn fit_also(&mut self, pair: ClockPair) {
        if self.fitted.len() >= self.rules.kept.max(2) {
            // Every other one says as much.
            let mut keep = false;
            self.fitted.retain(|_| {
                keep = !keep;
                keep
            });
        }
        self.fitted.push(pair);
        let Some(piece) = best_fit(&self.fitted, self.rules.nominal()) else {
            return;
        };
        self.pieces.clear();
        self.pieces.push_back(piece);
        let errors = (self.fitted.iter()).map(|pair| {
            piece
                .at(pair.source)
                .abs_diff(pair.host)
                .saturating_add(pair.margin)
        });
        self.error = errors.max().unwrap_or(0);
    }

    /// Moves the whole line if it puts this before its pair.
    fn keep_behind(&mut self, pair: ClockPair) {
        let rate = self.rules.nominal().unwrap_or(1.0);
        if self
            .to_host(pair.source)
            .is_none_or(|host| host < pair.host)
        {
            self.pieces.clear();
            self.bend(pair.source, pair.host, rate);
        }
        self.error = self.error.max(pair.margin);
    }
}

/// The line of least squares. With fewer than two distinct times its rate is the nominal one.
fn best_fit(pairs: &[ClockPair], nominal: Option<f64>) -> Option<LineSegment> {
    let reference = *pairs.first()?;
    let place = |pair: &ClockPair| {
        let x = difference(pair.source, reference.source);
        let y = difference(pair.host, reference.host);
        let tightness = 1.0 / (1.0 + pair.margin as f64);
        (x, y, tightness * tightness)
    };
    let (mut weight, mut x_sum, mut y_sum) = (0.0, 0.0, 0.0);
    for (x, y, w) in pairs.iter().map(place) {
        weight += w;
        x_sum += w * x;
        y_sum += w * y;
    }
    let (x_mean, y_mean) = (x_sum / weight, y_sum / weight);
    let (mut xx, mut xy) = (0.0, 0.0);
    for (x, y, w) in pairs.iter().map(place) {
        xx += w * (x - x_mean) * (x - x_mean);
        xy += w * (x - x_mean) * (y - y_mean);
    }
    let fitted = Some(xy / xx).filter(|rate| rate.is_finite() && *rate > 0.0);
    let rate = fitted.or(nominal)?;
    let past = y_mean - rate * x_mean;
    // Rounds to nearest; `as` saturates.
    let past = if past < 0.0 { past - 0.5 } else { past + 0.5 } as i128;
    let host = i128::from(reference.host).saturating_add(past);
    Some(LineSegment {
        source: reference.source,
        host: host.clamp(0, u64::MAX.into()) as u64,
        rate,
    })
}

fn mean_rate(from: ClockPair, to: ClockPair) -> Option<f64> {
    let ticks = to
        .source
        .checked_sub(from.source)
        .filter(|ticks| *ticks > 0)?;
    let time = to.host.checked_sub(from.host).filter(|time| *time > 0)?;
    Some(time as f64 / ticks as f64)
}

/// Host nanoseconds of so many units, to the nearest; exact where both clocks count the same.
#[inline]
fn lasting(ticks: u64, rate: f64) -> u64 {
    if rate == 1.0 {
        return ticks;
    }
    (ticks as f64 * rate + 0.5) as u64
}

/// `a - b` without overflow; exact below 2⁵³.
fn difference(a: u64, b: u64) -> f64 {
    (i128::from(a) - i128::from(b)) as f64
}
