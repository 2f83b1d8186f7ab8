//! What fixtures/ptx/README.md says of the sets is what they hold.

use crate::fixture::{Fixture, path};

#[test]
fn the_readme_counts_the_cases() {
    let readme = std::fs::read_to_string(path(".", "README.md")).expect("README.md");
    for fixture in Fixture::all() {
        let cases = fixture.cases.len();
        let exact = |tolerance: &str| tolerance == "exact";
        let same = fixture.cases.iter().filter(|c| exact(&c.tolerance)).count();
        let row = format!(
            "| `{}` | {cases} | {same} | {} | 0 |",
            fixture.set,
            cases - same
        );
        assert!(
            readme.lines().any(|line| line == row),
            "README.md does not say {row}"
        );
    }
}
