//! Which names get a label of their own. Counters never fall: a name keeps its label once it has one, and what it had
//! counted before that stays with 'other'.

use analyse::live::Sums;
use std::collections::HashMap;

/// The label of all others.
pub const OTHER: &str = "other";
/// A name gets a label once it has this part of its list's time, or calls where there are no times.
const LEAST_SHARE: f64 = 0.005;

/// Names with labels of their own: by process, and within it.
#[derive(Debug, Default)]
pub struct Labels {
    most: usize,
    /// What each had when it got its label.
    bases: HashMap<(u32, u32), Sums>,
}

/// One line of a metric: None is 'other'.
pub type Labelled = (Option<u32>, Sums);

impl Labels {
    pub fn new(most: usize) -> Self {
        Labels {
            most,
            bases: HashMap::new(),
        }
    }

    /// The sums of one process by symbol, with those that have no label put together.
    pub fn of(&mut self, pid: u32, sums: &[(u32, Sums)]) -> Vec<Labelled> {
        let weight = |sums: &Sums| sums.self_ns.max(sums.count).max(sums.launches);
        let whole: u64 = sums.iter().map(|(_, sums)| weight(sums)).sum();
        let is_new = self.bases.keys().all(|(of, _)| *of != pid);
        let mut known = sums
            .iter()
            .filter(|(symbol, _)| self.bases.contains_key(&(pid, *symbol)))
            .count();
        let mut others: Vec<&(u32, Sums)> = (sums.iter())
            .filter(|(symbol, _)| !self.bases.contains_key(&(pid, *symbol)))
            .collect();
        others.sort_by_key(|(symbol, sums)| (std::cmp::Reverse(weight(sums)), *symbol));
        // While there is plenty of room, all get one.
        for (symbol, sums) in others {
            let is_large = weight(sums) as f64 >= LEAST_SHARE * whole as f64;
            if known < self.most && (is_large || known < self.most / 2) {
                // Neither was in 'other' before.
                let is_first = is_new || known < self.most / 2;
                let base = if is_first { Sums::default() } else { *sums };
                self.bases.insert((pid, *symbol), base);
                known += 1;
            }
        }
        let mut other = Sums::default();
        let mut labelled = Vec::new();
        for (symbol, all) in sums {
            match self.bases.get(&(pid, *symbol)) {
                Some(base) => {
                    labelled.push((Some(*symbol), minus(all, base)));
                    other.add(base);
                }
                None => other.add(all),
            }
        }
        labelled.sort_by_key(|(symbol, _)| *symbol);
        if other != Sums::default() {
            labelled.push((None, other));
        }
        labelled
    }

    pub fn forget_all_but(&mut self, pids: &[u32]) {
        self.bases.retain(|(pid, _), _| pids.contains(pid));
    }
}

fn minus(all: &Sums, base: &Sums) -> Sums {
    Sums {
        count: all.count.saturating_sub(base.count),
        total_ns: all.total_ns.saturating_sub(base.total_ns),
        self_ns: all.self_ns.saturating_sub(base.self_ns),
        failed: all.failed.saturating_sub(base.failed),
        launches: all.launches.saturating_sub(base.launches),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sums(ns: u64) -> Sums {
        Sums {
            count: ns / 10,
            total_ns: ns,
            self_ns: ns,
            ..Sums::default()
        }
    }

    #[test]
    fn few_names_all_have_labels() {
        let mut labels = Labels::new(50);
        let found = labels.of(1, &[(3, sums(10)), (4, sums(1_000_000))]);
        assert_eq!(found, [(Some(3), sums(10)), (Some(4), sums(1_000_000))]);
    }

    #[test]
    fn labels_are_bounded_and_counters_never_fall() {
        let mut labels = Labels::new(10);
        let mut all: Vec<(u32, Sums)> = (0..100).map(|symbol| (symbol, sums(1_000))).collect();
        let mut before: HashMap<Option<u32>, Sums> = HashMap::new();
        for round in 0..50u32 {
            // Another one becomes the most expensive in each round.
            for (symbol, sums_of) in &mut all {
                let more = if *symbol == (round * 37) % 100 {
                    5_000_000
                } else {
                    100
                };
                sums_of.add(&sums(more));
            }
            let found = labels.of(7, &all);
            assert!(found.len() <= 11, "{}", found.len());
            let whole: u64 = found.iter().map(|(_, sums)| sums.self_ns).sum();
            assert_eq!(whole, all.iter().map(|(_, sums)| sums.self_ns).sum::<u64>());
            for (label, now) in found {
                let known = before.insert(label, now).unwrap_or_default();
                assert!(
                    now.self_ns >= known.self_ns && now.count >= known.count,
                    "{label:?}"
                );
            }
        }
        assert!(before.contains_key(&None));
        labels.forget_all_but(&[]);
        assert!(labels.bases.is_empty());
    }
}
