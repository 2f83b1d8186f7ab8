use super::*;
use alloc::{vec, vec::Vec};
use proptest::prelude::*;

const REAL: u64 = 1_794_734_344_000_000_000;

const ALL: [ClockRules; 5] = [
    ClockRules::NANOSECONDS,
    ClockRules::COUNTER,
    ClockRules::SPARSE,
    ClockRules::NOISY,
    ClockRules::UNREAD,
];

fn pair(source: u64, host: u64, margin: u64) -> ClockPair {
    ClockPair {
        source,
        host,
        margin,
    }
}

/// A 2.1 GHz counter, read `count` times over 10 s with host windows of up to `jitter` ns.
fn tsc_pairs(count: u64, jitter: u64) -> impl Iterator<Item = (u64, ClockPair)> {
    (0..count).map(move |i| {
        let host = 5_000_000_000 + i * (10_000_000_000 / count);
        let tsc = 77_000_000_000_000 + (host - 5_000_000_000) * 21 / 10;
        // A cheap scatter: the true moment lies anywhere in the window.
        let window = 1 + (i * 7919) % jitter;
        let before = host - (i * 104_729) % window;
        (
            host,
            ClockPair::around(before, tsc, before + window).expect("time goes forward"),
        )
    })
}

fn noisy(nominal_rate: f64) -> ClockRules {
    ClockRules {
        nominal_rate: Some(nominal_rate),
        ..ClockRules::NOISY
    }
}

#[test]
fn a_fitted_line_stays_within_its_error() {
    let (truth, pairs): (Vec<_>, Vec<_>) = tsc_pairs(50, 400).unzip();
    let map = ClockMap::through(noisy(0.5), &pairs);
    let rate = map.rate().expect("pairs");
    assert!((rate - 10.0 / 21.0).abs() < 1e-6, "{rate}");
    for (host, pair) in truth.iter().zip(&pairs) {
        assert!(map.to_host(pair.source).expect("known").abs_diff(*host) <= map.error());
    }
    assert!(map.error() <= 400, "{}", map.error());
    assert_eq!(map.error_at(pairs[10].source), map.error());
    assert!(map.error_at(pairs[49].source + 21_000_000_000) > map.error());
}

#[test]
fn a_stretch_says_what_its_map_says() {
    for rules in ALL {
        let pairs: Vec<_> = tsc_pairs(200, 400).map(|(_, pair)| pair).collect();
        let map = ClockMap::through(rules, &pairs);
        let (first, last) = (pairs[0].source, pairs[199].source);
        let mut recent = None;
        for source in (first - 5_000_000..last + 5_000_000).step_by(10_007_001) {
            let known = recent.and_then(|recent: ClockStretch| recent.to_host(source));
            recent = map.stretch_at(source);
            let found = recent.and_then(|recent| recent.to_host(source));
            for time in [known, found].into_iter().flatten() {
                assert_eq!(Some(time), map.to_host(source), "{rules:?}");
            }
            assert!(found.is_some() || source < last, "{rules:?}");
        }
    }
}

#[test]
fn one_pair_uses_the_nominal_rate() {
    let pair = ClockPair::around(1_000, 500, 1_010).expect("time goes forward");
    for rules in [
        ClockRules::NOISY,
        ClockRules::NANOSECONDS,
        ClockRules::SPARSE,
    ] {
        let map = ClockMap::through(rules, &[pair]);
        assert_eq!(
            [500, 600, 0].map(|source| map.to_host(source)),
            [Some(1_005), Some(1_105), Some(505)]
        );
        assert_eq!(map.error(), 5);
        // A second later the unknown drift dominates.
        assert!(map.error_at(1_000_000_500) >= 100_000);
    }
    assert_eq!(
        ClockMap::through(ClockRules::COUNTER, &[pair]).to_host(500),
        None
    );
}

#[test]
fn nonsense_has_no_map_and_extremes_do_not_overflow() {
    assert!(!ClockMap::new(ClockRules::NOISY).is_known());
    assert_eq!(ClockMap::default().error_at(0), u64::MAX);
    assert!(ClockPair::around(10, 0, 9).is_none());
    let first = pair(0, u64::MAX, u64::MAX);
    assert!(!ClockMap::through(noisy(f64::NAN), &[first]).is_known());
    let map = ClockMap::through(ClockRules::NOISY, &[first]);
    assert_eq!(map.to_host(u64::MAX), Some(u64::MAX));
    assert_eq!(map.error_at(u64::MAX), u64::MAX);
}

#[test]
fn a_drifting_clock_is_followed_within_its_error() {
    let mut clock = ClockMap::new(ClockRules::NANOSECONDS);
    // 50 parts in a million fast, and read up to 60 ns late.
    let source = |host: u64| REAL + host + host / 20_000;
    for step in 0..2_000u64 {
        let host = step * 100_000_000;
        let late = step * 7919 % 60;
        clock.add(pair(source(host), host + late, 60));
        let between = host.saturating_sub(50_000_000);
        if step > 0 && step < 500 {
            let found = clock.to_host(source(between)).expect("known");
            assert!(found.abs_diff(between) <= clock.error() + 60, "{step}");
        }
    }
    // Beyond the last pair the drift is not known: 5 µs in 100 ms here.
    assert!(clock.error() < 6_000, "{}", clock.error());
    assert_eq!(clock.pairs(), 2_000);
}

#[test]
fn another_clock_and_nonsense_are_left_out() {
    let mut clock = ClockMap::new(ClockRules::NANOSECONDS);
    assert_eq!((clock.is_known(), clock.to_host(7)), (false, None));
    clock.add(pair(REAL, 1_000, 30));
    clock.add(pair(142_657_754_380, 2_000_000_000, 30));
    clock.add(pair(REAL * 2, 2_000_000_000, 30));
    assert_eq!(clock.pairs(), 1);
    assert_eq!(
        [REAL + 5, 0, u64::MAX].map(|source| clock.to_host(source)),
        [Some(1_005), Some(0), Some(u64::MAX - REAL + 1_000)]
    );
}

#[test]
fn a_slow_clock_is_stretched() {
    let mut clock = ClockMap::new(ClockRules::SPARSE);
    assert_eq!(clock.to_host(5), None);
    clock.add(pair(1_000, 50_000, 10));
    assert_eq!(clock.to_host(900), Some(49_900));
    clock.add(pair(10_001_000, 20_050_000, 20));
    assert_eq!(clock.to_host(5_001_000), Some(10_050_000));
    assert_eq!(clock.to_host(11_001_000), Some(22_050_000));
    assert_eq!((clock.error(), clock.pairs()), (20, 2));
}

#[test]
fn the_tightest_reading_counts() {
    let readings = vec![pair(1, 1, 5), pair(2, 2, 3), pair(3, 3, 3)];
    assert_eq!(ClockPair::tightest(readings), Some(pair(2, 2, 3)));
    assert_eq!(ClockPair::tightest([]), None);
}

fn any_rules() -> impl Strategy<Value = ClockRules> {
    (0..ALL.len(), any::<f64>(), any::<bool>()).prop_map(|(which, rate, other)| ClockRules {
        nominal_rate: if other {
            Some(rate)
        } else {
            ALL[which].nominal_rate
        },
        ..ALL[which]
    })
}

/// Times near each other, at the ends of what there is, and anything.
fn any_time() -> impl Strategy<Value = u64> {
    prop_oneof![
        any::<u64>(),
        0..100u64,
        u64::MAX - 100..=u64::MAX,
        REAL..REAL + 1_000_000_000,
    ]
}

fn any_pairs() -> impl Strategy<Value = Vec<(ClockPair, u64)>> {
    let one = (any_time(), any_time(), any_time(), any_time());
    let one = one.prop_map(|(source, host, margin, settle)| (pair(source, host, margin), settle));
    prop::collection::vec(one, 0..40)
}

proptest! {
    #[test]
    fn whatever_the_pairs_time_never_runs_backwards(
        rules in any_rules(),
        pairs in any_pairs(),
        asked in prop::collection::vec(any_time(), 1..40),
    ) {
        let mut map = ClockMap::new(rules);
        let mut asked = asked;
        for (pair, settle) in pairs {
            map.add(pair);
            if settle % 3 == 0 {
                map.settle(settle);
            }
            asked.extend([pair.source, pair.source.saturating_add(1), pair.source.saturating_sub(1)]);
            asked.sort_unstable();
            let mut latest = 0;
            for source in &asked {
                let host = map.to_host(*source);
                prop_assert_eq!(host.is_some(), map.is_known());
                prop_assert!(host.unwrap_or(u64::MAX) >= latest);
                latest = host.unwrap_or(0);
                prop_assert!(map.error_at(*source) >= map.error());
            }
            map.length(pair.source);
        }
    }

    #[test]
    fn a_clock_that_runs_evenly_is_within_its_error(
        which in 0..4usize,
        drift in -200..200i64,
        steps in prop::collection::vec((5_000_000..200_000_000u64, 0..1_000u64, 0..2_000u64), 2..60),
        settles in any::<bool>(),
    ) {
        // A counter has a rate of its own, the others nanoseconds.
        let unit = if ALL[which] == ClockRules::COUNTER { 2_500_000i64 } else { 1_000_000 };
        let source_at = |host: u64| REAL + (u128::from(host) * (unit + drift * unit / 1_000_000) as u128 / 1_000_000) as u64;
        let mut map = ClockMap::new(ALL[which]);
        let mut host = 0;
        let mut times = Vec::new();
        for (step, margin, off) in steps {
            host += step;
            // Read up to its margin early or late.
            let read = (10_000 + host + margin).saturating_sub(off.min(2 * margin));
            map.add(pair(source_at(host), read, margin));
            times.extend([host, host - step / 3]);
            if settles {
                map.settle(source_at(host));
            }
        }
        let first = times[0];
        for host in times.into_iter().filter(|host| *host >= first) {
            let mapped = map.to_host(source_at(host)).expect("known");
            let off = mapped.abs_diff(10_000 + host);
            // Of the source's own unit, and of rounding.
            prop_assert!(off <= map.error() + 3, "{off} at {host}, stated {}", map.error());
        }
    }

    #[test]
    fn what_is_settled_stays(
        steps in prop::collection::vec((1_000..50_000_000u64, 0..100u64, 0..100u64), 3..50),
    ) {
        let mut map = ClockMap::new(ClockRules::COUNTER);
        let (mut source, mut host) = (REAL, 1_000);
        let mut settled: Vec<(u64, u64)> = Vec::new();
        for (step, late, part) in steps {
            let before = source;
            source += step * 5 / 2;
            host += step;
            map.add(pair(source, host + late, 100));
            for (source, host) in &settled {
                prop_assert_eq!(map.to_host(*source), Some(*host));
            }
            // Anything up to the latest pair has been written.
            let used = before + (source - before) / 100 * part;
            if let Some(time) = map.to_host(used) {
                map.settle(used);
                settled.push((used, time));
            }
        }
    }

    #[test]
    fn nothing_is_put_before_it_was_asked_for(
        pairs in prop::collection::vec((REAL..REAL + 1_000_000, 0..1_000_000u64), 1..50),
    ) {
        let pairs: Vec<ClockPair> = pairs.into_iter().map(|(source, host)| pair(source, host, 0)).collect();
        let map = ClockMap::through(ClockRules::UNREAD, &pairs);
        let behind = |pair: &ClockPair| map.to_host(pair.source).expect("known").checked_sub(pair.host);
        let distances: Option<Vec<u64>> = pairs.iter().map(behind).collect();
        prop_assert_eq!(distances.and_then(|all| all.into_iter().min()), Some(0));
    }
}
