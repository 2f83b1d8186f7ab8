//! A fleet's report from rows whose answer is known.

use analyse::fleet::{Complaint, GpuRow, HostTimes, RunHead, RunTimes, TimesRow, What, fleet};

fn run(name: &str, rows: &[(What, &str, u64, u64)]) -> RunTimes {
    let mut times = RunTimes::new(RunHead {
        run: name.into(),
        wall_ns: 1_000,
        ..RunHead::default()
    });
    for &(what, function, value, n) in rows {
        times.add(&TimesRow {
            run: name.into(),
            what,
            layer: if what == What::Kernel {
                "gpu"
            } else {
                "driver"
            }
            .into(),
            name: function.into(),
            value,
            n,
            total_ns: value * n,
            max_ns: value,
        });
    }
    // Of another run: not counted.
    times.add(&TimesRow {
        run: "another".into(),
        what: What::Function,
        layer: "driver".into(),
        name: "cuInit".into(),
        value: 1,
        n: 1,
        total_ns: 1,
        max_ns: 1,
    });
    times
}

fn host(host: &str, value: u64) -> HostTimes {
    HostTimes {
        run: "new".into(),
        host: host.into(),
        value,
        n: 100,
        took_ns: value as f64 * 100.0,
        usual_ns: 10_000.0 * 100.0,
    }
}

fn gpu(host: &str, busy_ns: Option<u64>) -> GpuRow {
    GpuRow {
        run: "new".into(),
        host: host.into(),
        device: Some(0),
        span_ns: busy_ns.map(|_| 1_000),
        busy_ns,
        ..GpuRow::default()
    }
}

#[test]
fn what_became_slower_is_found_and_counted() {
    let kernel = "void gemm<float>(float*)";
    let rows = |time| {
        [
            (What::Kernel, kernel, time, 50),
            (What::Kernel, kernel, time + 300, 50),
            (What::Function, "cuLaunchKernel", 3_000, 100),
            (What::Function, "cuInit", time, 2),
        ]
    };
    let (base, new) = (run("base", &rows(10_000)), run("new", &rows(13_000)));
    let found = fleet(&new, Some(&base), &[], &[]);
    let diff = found.diff.as_ref().expect("compared");
    assert_eq!(diff.kernels.len(), 1);
    assert_eq!(found.slower(), 1, "{diff:?}");
    let conditions = "slower.count>0,cuLaunchKernel.p50>+10%,cuInit.count>3";
    let conditions = conditions.parse().expect("conditions");
    let outcomes = found.check(&conditions, &new, Some(&base), &[]);
    let holds: Vec<bool> = (outcomes.expect("known names").iter())
        .map(|outcome| outcome.holds)
        .collect();
    assert_eq!(holds, [true, false, false]);
    let unknown = "cuNope.p50>1ms".parse().expect("a condition");
    assert!(found.check(&unknown, &new, Some(&base), &[]).is_err());
}

#[test]
fn hosts_are_compared_with_their_like() {
    let hosts = [host("a", 10_000), host("b", 13_000), host("c", 10_100)];
    let mut gpus = [gpu("a", Some(900)), gpu("b", Some(300)), gpu("d", None)];
    gpus[0].ecc_uncorrected = Some(1);
    (gpus[0].clock_mhz, gpus[1].clock_mhz) = (Some(1980.0), Some(1400.0));
    (gpus[1].watched, gpus[1].throttled) = (Some(10), Some(1));
    let found = fleet(&run("new", &[]), None, &hosts, &gpus);
    let names: Vec<&str> = found.hosts.iter().map(|host| host.host.as_str()).collect();
    // What is not known of d is between slower and faster.
    assert_eq!(names, ["b", "a", "d", "c"]);
    assert!(
        matches!(
            found.hosts[0].complaints[..],
            [
                Complaint::SlowerThanOthers { by },
                Complaint::Throttled { share: 0.1 },
                Complaint::SlowClock { mhz: 1400.0, others_mhz: 1980.0 },
            ] if (0.29..0.3).contains(&by)
        ),
        "{:?}",
        found.hosts[0]
    );
    assert_eq!(
        found.hosts[1].complaints,
        [Complaint::Ecc {
            corrected: 0,
            uncorrected: 1
        }]
    );
    assert_eq!((found.bad_hosts(), found.idle_gpus()), (2, 2));
    let idle: Vec<&str> = found.gpus.iter().map(|gpu| gpu.host.as_str()).collect();
    assert_eq!(idle, ["d", "b", "a"]);
}

#[test]
fn a_fleet_of_nothing_has_nothing_to_say() {
    let found = fleet(&RunTimes::default(), None, &[], &[]);
    assert_eq!(
        (found.slower(), found.bad_hosts(), found.idle_gpus()),
        (0, 0, 0)
    );
}
