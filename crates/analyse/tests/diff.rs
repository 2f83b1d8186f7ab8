//! Two runs side by side, on traces made by hand.

mod stage;

use analyse::diff::{Conditions, Unit, Verdict, diff};
use analyse::{Analysis, Report};
use event::{Category, Meta};
use stage::{MS, Stage, US};

/// A loop of 20 rounds: a launch of 10 µs, a wait of `wait`, with some jitter.
fn run(wait: u64) -> Report {
    let mut stage = Stage::new();
    stage.alloc(0x1000, 1 << 20);
    for round in 0..20 {
        stage.launch("step", 10 * US);
        stage.call("cuCtxSynchronize", wait + round % 5 * wait / 100);
        stage.wait(5 * US);
    }
    stage.free(0x1000);
    analysed(&stage)
}

fn analysed(stage: &Stage) -> Report {
    let mut analysis = Analysis::new(&Meta::default());
    for record in &stage.records {
        analysis.add(record);
    }
    analysis.finish(None)
}

#[test]
fn what_became_slower_is_told_and_what_did_not_is_not() {
    let (before, after) = (run(MS), run(2 * MS));
    let diff = diff(&before, &after);
    let slowest = &diff.functions[0];
    assert_eq!(&*slowest.name, "cuCtxSynchronize");
    assert_eq!(slowest.significance.verdict, Verdict::Slower);
    // 20 · 1 ms · 1.02 more.
    assert_eq!(slowest.total.change, 20_400_000);
    assert_eq!(slowest.total.relative, Some(1.0));
    let launch = diff
        .functions
        .iter()
        .find(|row| &*row.name == "cuLaunchKernel")
        .unwrap();
    assert_eq!(
        (launch.significance.verdict, launch.total.change),
        (Verdict::Same, 0)
    );
    let alloc = diff
        .functions
        .iter()
        .find(|row| &*row.name == "cuMemAlloc_v2")
        .unwrap();
    assert_eq!(alloc.significance.verdict, Verdict::NotEnough);
    assert_eq!(diff.categories[0].category, Category::Sync);
    let iteration = diff.iteration.unwrap();
    assert_eq!(iteration.significance.verdict, Verdict::Slower);
    assert_eq!(diff.a.iterations, 19);
}

#[test]
fn a_run_is_like_itself() {
    let report = run(MS);
    let diff = diff(&report, &report);
    assert!(diff.functions.iter().all(|row| row.total.change == 0));
    let verdicts = diff.functions.iter().map(|row| row.significance.verdict);
    assert!(
        verdicts
            .clone()
            .all(|verdict| matches!(verdict, Verdict::Same | Verdict::NotEnough))
    );
    assert!(verdicts.into_iter().any(|verdict| verdict == Verdict::Same));
}

#[test]
fn functions_of_one_run_only_are_compared_with_nothing() {
    let mut stage = Stage::new();
    stage.call("cuInit", MS);
    let diff = diff(&analysed(&Stage::new()), &analysed(&stage));
    let row = &diff.functions[0];
    assert_eq!((row.calls.a, row.calls.b, row.total.relative), (0, 1, None));
    assert_eq!(row.total.change, 1_000_000);
    assert!(diff.iteration.is_none());
}

/// Whether the condition holds between a run and one whose waits are twice as long.
fn holds(condition: &str) -> bool {
    let conditions: Conditions = condition.parse().unwrap();
    let outcomes = conditions.check(&run(MS), &run(2 * MS)).unwrap();
    outcomes.iter().any(|outcome| outcome.holds)
}

#[test]
fn conditions_on_every_kind_of_number() {
    for condition in [
        "total>+5%",
        "total>+90%",
        "iteration>+90%",
        "sync>+99%",
        "sync.total>+20ms",
        "cuCtxSynchronize.p50>+900us",
        "cuCtxSynchronize.count>=20",
        "memory.peak>=1MiB",
        "memory.count<+1%",
        "cuMemAlloc.total<=10us",
        "step.count>19",
        "total>+500%, sync>+50%",
    ] {
        assert!(holds(condition), "{condition}");
    }
    for condition in [
        "total>+110%",
        "total<-1%",
        "sync.total>+21ms",
        "memory.peak>+0B",
        "memory.leaked>0B",
        "cuLaunchKernel.total>+1%",
        "launch.count>20",
    ] {
        assert!(!holds(condition), "{condition}");
    }
}

#[test]
fn conditions_that_cannot_be_looked_at_say_why() {
    let report = run(MS);
    let why = |condition: &str| {
        let conditions: Conditions = condition.parse().unwrap();
        conditions.check(&report, &report).unwrap_err().to_string()
    };
    assert_eq!(
        why("cuMemAllok>+5%"),
        "'cuMemAllok>+5%': neither run has a function, kernel or category 'cuMemAllok'; \
         did you mean 'cuMemAlloc_v2'?"
    );
    assert!(why("sync.p50>+5%").contains("a category has no 'p50'"));
    assert!(why("total>+5MiB").contains("cannot compare time with bytes"));
    assert!(why("step.self>1").contains("a kernel has no 'self'"));
}

#[test]
fn from_nothing_to_something_is_more_than_any_part() {
    let (none, some) = (analysed(&Stage::new()), run(MS));
    let conditions: Conditions = "cuCtxSynchronize>+1000%".parse().unwrap();
    let outcome = conditions.check(&none, &some).unwrap().remove(0);
    assert!(outcome.holds && outcome.relative.is_none() && outcome.unit == Unit::Time);
    assert!(!conditions.check(&some, &none).unwrap()[0].holds);
}
