//! What both trace targets check.

use std::{
    io::{Cursor, Write},
    sync::{Arc, Mutex},
};
use trace::{Error, Format, Reader, Writer};

#[derive(Clone, Default)]
struct Bytes(Arc<Mutex<Vec<u8>>>);

impl Write for Bytes {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().expect("one thread").write(bytes)
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Read `bytes`, write what was read as JSON lines, and read that: it must be the same. (Writing
/// Arrow is slow under a sanitizer; the property tests convert both ways.)
pub fn check(bytes: &[u8], format: Format) {
    let Ok(mut reader) = Reader::new(Cursor::new(bytes.to_vec()), Some(format)) else {
        return;
    };
    let out = Bytes::default();
    let mut writer =
        Writer::new(out.clone(), Format::Jsonl, reader.meta()).expect("a head that was read");
    let mut records = Vec::new();
    for record in reader.by_ref() {
        let record = record.expect("memory can be read");
        match writer.write(&record) {
            Ok(()) => records.push(record),
            // Times that only this start can express.
            Err(Error::Time { .. } | Error::TooLong { .. }) => return,
            Err(error) => panic!("{error}"),
        }
    }
    // Where a span ended that never began, or began twice, the writer mends the trace.
    if reader
        .warnings()
        .as_slice()
        .iter()
        .any(|warning| warning.text.starts_with("a span "))
    {
        return;
    }
    writer.finish().expect("a tail");
    let written = out.0.lock().expect("one thread").clone();
    let again: Vec<_> = Reader::new(Cursor::new(written), Some(Format::Jsonl))
        .expect("what was written")
        .map(|record| record.expect("what was written"))
        .collect();
    assert!(records == again, "{records:?}\n{again:?}");
}
