//! What people see: text made from what `analyse` found, one output to a file.
#![forbid(unsafe_code)]

mod aggregates;
mod captured;
mod chrome;
mod counters;
pub mod detail;
mod device_lines;
pub mod fields;
mod flame;
mod html;
mod output;
mod perfetto;
mod processes;
pub mod replay;
mod style;
mod summary;
mod table;
pub mod tables;
pub mod timeline;
mod tracks;
pub mod units;

pub use aggregates::aggregates_text;
pub use chrome::Chrome;
pub use device_lines::DeviceLines;
pub use flame::{FlameSvg, Folded, Stacks, Weight};
pub use html::{Html, HtmlPage, PAGE_SIZE, write_early, write_pages};
pub use output::Output;
pub use perfetto::Perfetto;
pub use replay::Replay;
pub use style::{Paint, Style, columns, printable};
pub use summary::{RunSummary, summary_text};
pub use table::{Align, Cell, Table};
pub use timeline::Timeline;
