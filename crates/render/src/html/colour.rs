//! What a span is coloured by on the page: its category, or what it is where categories say nothing.

use event::{Category, Event, Kind};

/// How many there are.
pub const COLOURS: usize = Category::ALL.len() + MORE.len();

/// Besides the categories.
const MORE: [&str; 3] = ["operator", "range", "off-cpu"];
const OPERATOR: u8 = Category::ALL.len() as u8;
const RANGE: u8 = OPERATOR + 1;
/// A thread that does not run: no work, however long.
pub const OFF_CPU: u8 = RANGE + 1;

/// By its place in [`names`].
pub fn of(event: &Event) -> u8 {
    match event.kind {
        Kind::Operator => OPERATOR,
        Kind::Range | Kind::ProcessRange => RANGE,
        Kind::OffCpu => OFF_CPU,
        _ => event.category as u8,
    }
}

pub fn names() -> Vec<&'static str> {
    let categories = Category::ALL.iter().map(|category| category.as_str());
    categories.chain(MORE).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use event::Layer;

    #[test]
    fn every_span_has_a_name_for_its_colour() {
        assert_eq!(names().len(), COLOURS);
        let mut event = Event::new(1, Layer::Driver, Category::Kernel, "cuLaunchKernel", 0);
        assert_eq!(names()[usize::from(of(&event))], "kernel");
        event.kind = Kind::Operator;
        assert_eq!(names()[usize::from(of(&event))], "operator");
        event.kind = Kind::Range;
        assert_eq!(names()[usize::from(of(&event))], "range");
        event.kind = Kind::OffCpu;
        assert_eq!(names()[usize::from(of(&event))], "off-cpu");
    }
}
