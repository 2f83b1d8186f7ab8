//! Reads the recording of libcuda 580.159.04 on an H200: every open and ioctl with its bytes.

use nvidia_ioctl::{Decoded, DeviceFile, Fact, Handles, IoctlCall, Memory, Version};
use std::io::Read;
use std::path::Path;

/// One ioctl of the recording.
pub struct Recorded {
    /// The API call it was made in.
    pub during: String,
    pub file: DeviceFile,
    pub cmd: u32,
    pub before: Vec<u8>,
    pub after: Vec<u8>,
    /// What RM_CONTROL and RM_ALLOC point to.
    pub inner: Option<(u64, Vec<u8>, Vec<u8>)>,
}

pub fn version() -> Version {
    "580.159.04".parse().unwrap()
}

pub fn read() -> Vec<Recorded> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../softgpu/driver/src/resman/recording/h200-580.159.04.txt.gz");
    let mut text = String::new();
    flate2::read::GzDecoder::new(std::fs::File::open(path).unwrap())
        .read_to_string(&mut text)
        .unwrap();
    let (mut calls, mut during) = (Vec::new(), String::new());
    for line in text.lines() {
        if let Some(mark) = line.strip_prefix("mark ") {
            if mark != "end" {
                mark.clone_into(&mut during);
            }
        } else if line.starts_with("ioctl ") {
            calls.push(parse(line, &during));
        }
    }
    calls
}

fn parse(line: &str, during: &str) -> Recorded {
    let words: Vec<&str> = line.split(' ').collect();
    let hex = |label: &str| {
        let word = words.iter().find_map(|word| word.strip_prefix(label))?;
        Some(from_hex(word))
    };
    let before = hex("before=").unwrap();
    let pointer = before
        .get(16..24)
        .map(|bytes| u64::from_le_bytes(bytes.try_into().unwrap()));
    let inner = hex("in=").map(|bytes| {
        let reply = hex("reply=").unwrap_or_else(|| bytes.clone());
        (pointer.unwrap(), bytes, reply)
    });
    Recorded {
        during: during.to_owned(),
        file: DeviceFile::from_path(words[1]),
        cmd: u32::from_str_radix(words[3].trim_start_matches("0x"), 16).unwrap(),
        after: hex("after=").unwrap_or_else(|| before.clone()),
        before,
        inner,
    }
}

pub fn from_hex(text: &str) -> Vec<u8> {
    (0..text.len() / 2)
        .map(|at| u8::from_str_radix(&text[2 * at..2 * at + 2], 16).unwrap())
        .collect()
}

impl Recorded {
    /// Hands the call over as a tracer would.
    pub fn with<T>(&self, act: impl FnOnce(&IoctlCall<'_>) -> T) -> T {
        let memory = |after: bool| {
            self.inner.as_ref().map(|(address, before, reply)| Memory {
                address: *address,
                bytes: if after { reply } else { before },
            })
        };
        let (before, after) = (memory(false), memory(true));
        act(&IoctlCall {
            file: self.file,
            cmd: self.cmd,
            version: version(),
            before: &self.before,
            after: Some(&self.after),
            memory: before.as_slice(),
            memory_after: after.as_slice(),
        })
    }
}

/// The whole recording, decoded in order.
pub fn decoded() -> Vec<(Recorded, Decoded, Vec<Fact>)> {
    let mut handles = Handles::default();
    read()
        .into_iter()
        .map(|recorded| {
            let (decoded, facts) = recorded.with(|call| handles.returned(call));
            (recorded, decoded, facts)
        })
        .collect()
}
