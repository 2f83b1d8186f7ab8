//! What hooks count in the kernel: the place of each in the maps, and the way back from there.

use super::refusal::Refusal;
use crate::{
    ebpf::{
        layout::Histogram,
        maps::{MOST_TALLIES, Maps, most_histograms},
    },
    hooks::{Aggregate, Hook},
};
use event::{Aggregate as Counted, Bucket};
use std::collections::BTreeMap;

/// The places that are taken.
#[derive(Default)]
pub struct Aggregated {
    tallies: Vec<Title>,
    histograms: Vec<Title>,
}

/// What a place counts, and where.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Title {
    of: String,
    key: String,
}

impl Aggregated {
    /// A place for what a hook counts at one probe.
    pub fn place(
        &mut self,
        hook: &Hook,
        aggregate: &Aggregate,
        probe: String,
    ) -> Result<u32, Refusal> {
        let (taken, most) = match aggregate {
            Aggregate::Count => (&mut self.tallies, MOST_TALLIES),
            Aggregate::Histogram(_) => (&mut self.histograms, most_histograms()),
        };
        let place = taken.len() as u32;
        if place >= most {
            return Err(Refusal::TooManyCounted(most));
        }
        taken.push(Title {
            of: aggregate.title(&hook.arguments),
            key: hook.name.clone().unwrap_or(probe),
        });
        Ok(place)
    }

    /// What was counted, rarest first, as bpftrace prints it. Places of one title, as those of a hook with a
    /// name, are one; where nothing was counted, nothing is said.
    pub fn read(&self, maps: &Maps) -> Vec<Counted> {
        let mut tallies: BTreeMap<&Title, u64> = BTreeMap::new();
        for (place, title) in self.tallies.iter().enumerate() {
            *tallies.entry(title).or_default() += maps.tally(place as u32);
        }
        let mut histograms: BTreeMap<&Title, Histogram> = BTreeMap::new();
        for (place, title) in self.histograms.iter().enumerate() {
            let more = maps.histogram(place as u32);
            let sum = histograms.entry(title).or_insert(Histogram::EMPTY);
            sum.add(&more);
        }
        let counts = tallies.into_iter().map(|(title, count)| Counted {
            key: title.key.clone(),
            of: title.of.clone(),
            count,
            ..Counted::default()
        });
        let histograms = histograms.into_iter().map(|(title, histogram)| {
            let histogram_buckets = buckets(&histogram);
            Counted {
                key: title.key.clone(),
                of: title.of.clone(),
                count: histogram_buckets.iter().map(|bucket| bucket.count).sum(),
                total: Some(histogram.total as i64),
                histogram: histogram_buckets,
            }
        });
        let mut all: Vec<Counted> = counts.chain(histograms).filter(|it| it.count > 0).collect();
        all.sort_by(|a, b| (&a.of, a.count, &a.key).cmp(&(&b.of, b.count, &b.key)));
        all
    }
}

fn buckets(histogram: &Histogram) -> Vec<Bucket> {
    let powers = (0..64).map(|power| Bucket::power(power, histogram.powers[power as usize]));
    let below = Bucket::below_zero(histogram.negative);
    let all = [below, Bucket::zero(histogram.zero)]
        .into_iter()
        .chain(powers);
    all.filter(|bucket| bucket.count > 0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn histograms_are_bounded_by_powers_of_two() {
        let mut histogram = Histogram::EMPTY;
        histogram.add(&Histogram {
            total: 10,
            negative: 1,
            zero: 2,
            powers: std::array::from_fn(|power| u64::from(power == 0 || power == 3)),
        });
        histogram.add(&Histogram {
            powers: std::array::from_fn(|power| u64::from(power == 63)),
            ..Histogram::EMPTY
        });
        let shown: Vec<_> = (buckets(&histogram).iter())
            .map(|bucket| (bucket.from, bucket.to, bucket.count))
            .collect();
        let expected = [
            (None, Some(0), 1),
            (Some(0), Some(1), 2),
            (Some(1), Some(2), 1),
            (Some(8), Some(16), 1),
            (Some(1 << 63), None, 1),
        ];
        assert_eq!(shown, expected);
        assert_eq!(histogram.total, 10);
    }
}
