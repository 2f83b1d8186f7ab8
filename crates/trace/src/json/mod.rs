//! The JSON of trace lines, written and read by hand: records of a million lines are read in 1.00 s, for which
//! serde_json takes 1.06 s to a struct that is no record yet (`benches/libraries.rs`). The mapping from values to JSON is documented in docs/TRACE-FORMAT.md.

pub mod number;
pub mod parse;
pub mod value;
pub mod write;

/// How deep arguments may be nested, in both directions.
pub const MOST_NESTING: usize = 32;

/// The frames that a cell of the column `stack` is; none if it is damaged.
pub fn stack_of(text: &str) -> event::Stack {
    let mut names = crate::names::Names::default();
    value::parse_stack(&mut parse::Cursor::new(text), &mut names).unwrap_or_default()
}
