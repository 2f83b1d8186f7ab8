//! Comparing a case's results with hardware's, and telling what differs.

use std::collections::BTreeMap;

use crate::fixture::{Case, Fixture, ROUNDS, result};
use crate::tolerance;

/// Mismatches shown a case.
const SHOWN: usize = 3;

#[derive(Default)]
pub struct Report {
    /// Cases and right ones, by instruction.
    counts: BTreeMap<String, (usize, usize)>,
    failures: Vec<String>,
}

impl Report {
    fn count(&mut self, case: &Case, right: bool) {
        let opcode = case.name.split(['.', ' ']).next().unwrap_or_default();
        let count = self.counts.entry(opcode.to_string()).or_default();
        count.0 += 1;
        count.1 += usize::from(right);
    }

    pub fn fail(&mut self, case: &Case, why: String) {
        self.count(case, false);
        self.failures
            .push(format!("case {} {}: {why}", case.number, case.name));
    }

    /// Prints the counts; fails if a case did, or if fewer ran than should.
    pub fn finish(self, at_least: usize) {
        let mut total = 0;
        for (opcode, (cases, right)) in &self.counts {
            println!("{opcode}: {right} of {cases} cases");
            total += cases;
        }
        println!("{total} cases of {} instructions", self.counts.len());
        let failures = self.failures;
        assert!(
            failures.is_empty(),
            "{} cases fail\n{}",
            failures.len(),
            failures.join("\n")
        );
        assert!(total >= at_least, "only {total} cases of {at_least}");
    }
}

/// Compares one case's area of results with the recorded one.
pub fn compare(fixture: &Fixture, case: &Case, area: &[u8], report: &mut Report) {
    let mut wrong = Vec::new();
    for row in 0..ROUNDS {
        for place in 0..case.results.len() {
            let expected = result(fixture.answers(case), case, place, row);
            let got = result(area, case, place, row);
            if tolerance::accepts(fixture, case, row, expected, got) {
                continue;
            }
            let inputs: Vec<String> = case
                .sources
                .iter()
                .map(|source| format!("{:x}", fixture.operand(*source, row)))
                .collect();
            let inputs = inputs.join(" ");
            wrong.push(format!(
                "    row {row} result {place}: inputs {inputs} expected {expected:x} got {got:x}"
            ));
        }
    }
    if wrong.is_empty() {
        report.count(case, true);
    } else {
        let all = ROUNDS * case.results.len();
        let shown = wrong[..wrong.len().min(SHOWN)].join("\n");
        report.fail(
            case,
            format!("{} of {all} results differ\n{shown}", wrong.len()),
        );
    }
}
