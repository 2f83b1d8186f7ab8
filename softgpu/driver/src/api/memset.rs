//! Fills.

use crate::{
    copy::Fill,
    entry::stream_api,
    result::Answer,
    stream::{NullStream, resolve},
    work::Work,
};

/// Elements that are written at once when nothing is before them.
const SHORT: u64 = 64 * 1024;

/// Issued to the null stream; only host memory makes the caller wait.
fn fill_now(null: NullStream, fill: Answer<Fill>) -> Answer {
    let (context, stream) = resolve(null, 0)?;
    let fill = fill?;
    if fill.is_empty() {
        return Ok(());
    }
    let work = Work::Fill(fill);
    if fill.is_host {
        stream.issue_and_wait(&context, work)
    } else if fill.width * fill.height <= SHORT {
        stream.issue_short(&context, work)
    } else {
        stream.issue(&context, work)
    }
}

fn fill_later(null: NullStream, stream: u64, fill: Answer<Fill>) -> Answer {
    let (context, stream) = resolve(null, stream)?;
    let fill = fill?;
    if !fill.is_empty() {
        stream.issue(&context, Work::Fill(fill))?;
    }
    Ok(())
}

fn line(to: u64, value: u32, element: u32, count: usize) -> Answer<Fill> {
    Fill::new(to, 0, value, element, count as u64, 1)
}

fn rows(
    to: u64,
    pitch: usize,
    value: u32,
    element: u32,
    width: usize,
    height: usize,
) -> Answer<Fill> {
    Fill::new(
        to,
        pitch as u64,
        value,
        element,
        width as u64,
        height as u64,
    )
}

stream_api! {
    fn cuMemsetD8_v2 / cuMemsetD8_v2_ptds(null; to: u64, value: u8, count: usize) {
        fill_now(null, line(to, u32::from(value), 1, count))
    }

    fn cuMemsetD16_v2 / cuMemsetD16_v2_ptds(null; to: u64, value: u16, count: usize) {
        fill_now(null, line(to, u32::from(value), 2, count))
    }

    fn cuMemsetD32_v2 / cuMemsetD32_v2_ptds(null; to: u64, value: u32, count: usize) {
        fill_now(null, line(to, value, 4, count))
    }

    fn cuMemsetD8Async / cuMemsetD8Async_ptsz(null; to: u64, value: u8, count: usize, stream: u64) {
        fill_later(null, stream, line(to, u32::from(value), 1, count))
    }

    fn cuMemsetD16Async / cuMemsetD16Async_ptsz(null; to: u64, value: u16, count: usize, stream: u64) {
        fill_later(null, stream, line(to, u32::from(value), 2, count))
    }

    fn cuMemsetD32Async / cuMemsetD32Async_ptsz(null; to: u64, value: u32, count: usize, stream: u64) {
        fill_later(null, stream, line(to, value, 4, count))
    }

    fn cuMemsetD2D8_v2 / cuMemsetD2D8_v2_ptds(null;
        to: u64, pitch: usize, value: u8, width: usize, height: usize,
    ) {
        fill_now(null, rows(to, pitch, u32::from(value), 1, width, height))
    }

    fn cuMemsetD2D16_v2 / cuMemsetD2D16_v2_ptds(null;
        to: u64, pitch: usize, value: u16, width: usize, height: usize,
    ) {
        fill_now(null, rows(to, pitch, u32::from(value), 2, width, height))
    }

    fn cuMemsetD2D32_v2 / cuMemsetD2D32_v2_ptds(null;
        to: u64, pitch: usize, value: u32, width: usize, height: usize,
    ) {
        fill_now(null, rows(to, pitch, value, 4, width, height))
    }

    fn cuMemsetD2D8Async / cuMemsetD2D8Async_ptsz(null;
        to: u64, pitch: usize, value: u8, width: usize, height: usize, stream: u64,
    ) {
        fill_later(null, stream, rows(to, pitch, u32::from(value), 1, width, height))
    }

    fn cuMemsetD2D16Async / cuMemsetD2D16Async_ptsz(null;
        to: u64, pitch: usize, value: u16, width: usize, height: usize, stream: u64,
    ) {
        fill_later(null, stream, rows(to, pitch, u32::from(value), 2, width, height))
    }

    fn cuMemsetD2D32Async / cuMemsetD2D32Async_ptsz(null;
        to: u64, pitch: usize, value: u32, width: usize, height: usize, stream: u64,
    ) {
        fill_later(null, stream, rows(to, pitch, value, 4, width, height))
    }
}
