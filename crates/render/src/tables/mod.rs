//! The tables of `cutrace report`, one a file: from a report to lines of text.
