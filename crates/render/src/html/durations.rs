//! How long things took: a histogram for every category, of the host and of the GPU.

use super::colour::COLOURS;

/// Two buckets an octave of nanoseconds.
const BUCKETS: usize = 128;

pub struct Durations {
    counts: Vec<u64>,
}

impl Durations {
    pub fn new() -> Self {
        Durations {
            counts: vec![0; 2 * COLOURS * BUCKETS],
        }
    }

    pub fn add(&mut self, gpu: bool, category: u8, duration: u64) {
        let side = usize::from(gpu) * COLOURS + usize::from(category).min(COLOURS - 1);
        self.counts[side * BUCKETS + bucket(duration)] += 1;
    }

    /// `[gpu, category, first bucket, counts…]`, only where there is something to count.
    pub fn finish(&self) -> Vec<Vec<u64>> {
        let mut histograms = Vec::new();
        for (side, counts) in self.counts.chunks(BUCKETS).enumerate() {
            let Some(first) = counts.iter().position(|&count| count > 0) else {
                continue;
            };
            let last = counts.iter().rposition(|&count| count > 0).unwrap_or(first);
            let mut histogram = vec![
                (side / COLOURS) as u64,
                (side % COLOURS) as u64,
                first as u64,
            ];
            histogram.extend(&counts[first..=last]);
            histograms.push(histogram);
        }
        histograms
    }
}

/// Bucket 2k begins at 2^k nanoseconds, bucket 2k + 1 at one and a half times that.
fn bucket(duration: u64) -> usize {
    let duration = duration.max(1);
    let octave = duration.ilog2();
    let half = octave > 0 && duration >> (octave - 1) & 1 == 1;
    2 * octave as usize + usize::from(half)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_begin_at_powers_of_two_and_their_halves() {
        let found: Vec<usize> = [0, 1, 2, 3, 4, 5, 6, 7, 8, 1024, 1535, 1536, u64::MAX]
            .map(bucket)
            .to_vec();
        assert_eq!(found, [0, 0, 2, 3, 4, 4, 5, 5, 6, 20, 20, 21, 127]);
    }

    #[test]
    fn only_what_was_counted_is_shown() {
        let mut durations = Durations::new();
        durations.add(false, 3, 1024);
        durations.add(false, 3, 4096);
        durations.add(true, 5, 1);
        assert_eq!(
            durations.finish(),
            [vec![0, 3, 20, 1, 0, 0, 0, 1], vec![1, 5, 0, 1]]
        );
    }
}
