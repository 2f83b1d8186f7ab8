//! What the tracer's process tells: frames in a pipe, each with its length in front.

use crate::ioctl::{Opened, Payload, Request};
use nvidia_ioctl::DeviceFile;
use std::sync::Arc;

/// A system call, as it begins.
#[derive(Debug, Clone)]
pub enum SystemCall {
    Ioctl {
        request: Request,
        before: Payload,
    },
    Open {
        name: &'static str,
        path: String,
        flags: u64,
    },
    Map {
        opened: Opened,
        fd: i32,
        length: u64,
        protection: u64,
        offset: u64,
    },
    Close {
        opened: Opened,
        fd: i32,
    },
    Unmap {
        opened: Opened,
        address: u64,
        length: u64,
    },
}

#[derive(Debug, Clone)]
pub enum Frame {
    /// The command is traced, or that error came instead.
    Attached(i32),
    Begin {
        time: u64,
        pid: u32,
        tid: u32,
        call: SystemCall,
    },
    End {
        time: u64,
        tid: u32,
        result: i64,
        after: Payload,
    },
    /// The thread has ended inside of its call, or has become another program.
    Gone { tid: u32 },
    /// What a process closes and unmaps is not seen.
    Unseen { pid: u32, why: Unseen },
    /// Time the tracer's process has used so far, in nanoseconds, and stops it has seen.
    Cost { cpu: u64, stops: u64 },
}

/// Why what a process closes and unmaps is not seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unseen {
    /// It has filters of its own, which might not allow what would have to be done in it.
    OwnFilters,
    /// The kernel would not take our second filter.
    Refused,
}

/// No frame is longer: two structs and what they point to, 16 KiB each.
pub const LONGEST: usize = 256 << 10;

const OPEN_NAMES: [&str; 3] = ["open", "openat", "openat2"];

/// Appends a frame.
pub fn put(out: &mut Vec<u8>, frame: &Frame) {
    let start = out.len();
    out.extend([0; 4]);
    let mut put = Put(out);
    match frame {
        Frame::Attached(error) => {
            put.byte(0);
            put.number(*error as u64);
        }
        Frame::Begin {
            time,
            pid,
            tid,
            call,
        } => {
            put.byte(1);
            put.numbers(&[*time, (*pid).into(), (*tid).into()]);
            put.call(call);
        }
        Frame::End {
            time,
            tid,
            result,
            after,
        } => {
            put.byte(2);
            put.numbers(&[*time, (*tid).into(), *result as u64]);
            put.payload(after);
        }
        Frame::Gone { tid } => {
            put.byte(3);
            put.number((*tid).into());
        }
        Frame::Cost { cpu, stops } => {
            put.byte(4);
            put.numbers(&[*cpu, *stops]);
        }
        Frame::Unseen { pid, why } => {
            put.byte(5);
            put.numbers(&[(*pid).into(), *why as u64]);
        }
    }
    let length = (out.len() - start - 4) as u32;
    out[start..start + 4].copy_from_slice(&length.to_le_bytes());
}

struct Put<'a>(&'a mut Vec<u8>);

impl Put<'_> {
    fn byte(&mut self, byte: u8) {
        self.0.push(byte);
    }

    fn number(&mut self, number: u64) {
        self.0.extend(number.to_le_bytes());
    }

    fn numbers(&mut self, numbers: &[u64]) {
        for number in numbers {
            self.number(*number);
        }
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    fn payload(&mut self, payload: &Payload) {
        self.bytes(&payload.argument);
        self.number(payload.memory.len() as u64);
        for (address, bytes) in &payload.memory {
            self.number(*address);
            self.bytes(bytes);
        }
    }

    fn opened(&mut self, opened: &Opened) {
        let (kind, number) = match opened.file {
            DeviceFile::Control => (0, 0),
            DeviceFile::Gpu(number) => (1, number),
            DeviceFile::Uvm => (2, 0),
            DeviceFile::UvmTools => (3, 0),
            DeviceFile::Other => (4, 0),
        };
        self.byte(kind);
        self.number(number.into());
        self.byte(opened.stand_in.into());
        self.bytes(opened.path.as_bytes());
    }

    fn call(&mut self, call: &SystemCall) {
        match call {
            SystemCall::Ioctl { request, before } => {
                self.byte(0);
                self.opened(&request.opened);
                self.numbers(&[request.fd as u64, request.cmd.into(), request.argument]);
                self.payload(before);
            }
            SystemCall::Open { name, path, flags } => {
                self.byte(1);
                let place = OPEN_NAMES.iter().position(|known| known == name);
                self.byte(place.unwrap_or(0) as u8);
                self.bytes(path.as_bytes());
                self.number(*flags);
            }
            SystemCall::Map {
                opened,
                fd,
                length,
                protection,
                offset,
            } => {
                self.byte(2);
                self.opened(opened);
                self.numbers(&[*fd as u64, *length, *protection, *offset]);
            }
            SystemCall::Close { opened, fd } => {
                self.byte(3);
                self.opened(opened);
                self.number(*fd as u64);
            }
            SystemCall::Unmap {
                opened,
                address,
                length,
            } => {
                self.byte(4);
                self.opened(opened);
                self.numbers(&[*address, *length]);
            }
        }
    }
}

/// Takes the first frame off, if it is whole. `Err` is what no tracer writes.
pub fn take(bytes: &[u8]) -> Result<Option<(Frame, usize)>, Malformed> {
    let Some(length) = bytes.first_chunk::<4>() else {
        return Ok(None);
    };
    let length = u32::from_le_bytes(*length) as usize;
    if length > LONGEST {
        return Err(Malformed);
    }
    let Some(body) = bytes.get(4..4 + length) else {
        return Ok(None);
    };
    let mut take = Take(body);
    let frame = take.frame().ok_or(Malformed)?;
    Ok(Some((frame, 4 + length)))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the tracer process sent invalid data")]
pub struct Malformed;

struct Take<'a>(&'a [u8]);

impl Take<'_> {
    fn byte(&mut self) -> Option<u8> {
        let (byte, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*byte)
    }

    fn number(&mut self) -> Option<u64> {
        let (number, rest) = self.0.split_first_chunk::<8>()?;
        self.0 = rest;
        Some(u64::from_le_bytes(*number))
    }

    fn word(&mut self) -> Option<u32> {
        Some(self.number()? as u32)
    }

    fn bytes(&mut self) -> Option<Vec<u8>> {
        let length = usize::try_from(self.number()?).ok()?;
        let (bytes, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(bytes.to_vec())
    }

    fn text(&mut self) -> Option<String> {
        Some(String::from_utf8_lossy(&self.bytes()?).into_owned())
    }

    fn payload(&mut self) -> Option<Payload> {
        let argument = self.bytes()?;
        let mut memory = Vec::new();
        for _ in 0..self.number()? {
            memory.push((self.number()?, self.bytes()?));
        }
        Some(Payload { argument, memory })
    }

    fn opened(&mut self) -> Option<Opened> {
        let (kind, number) = (self.byte()?, self.word()?);
        Some(Opened {
            file: match kind {
                0 => DeviceFile::Control,
                1 => DeviceFile::Gpu(number),
                2 => DeviceFile::Uvm,
                3 => DeviceFile::UvmTools,
                _ => DeviceFile::Other,
            },
            stand_in: self.byte()? != 0,
            path: Arc::from(self.text()?),
        })
    }

    fn call(&mut self) -> Option<SystemCall> {
        Some(match self.byte()? {
            0 => SystemCall::Ioctl {
                request: Request {
                    opened: self.opened()?,
                    fd: self.number()? as i32,
                    cmd: self.word()?,
                    argument: self.number()?,
                },
                before: self.payload()?,
            },
            1 => SystemCall::Open {
                name: OPEN_NAMES.get(usize::from(self.byte()?))?,
                path: self.text()?,
                flags: self.number()?,
            },
            2 => SystemCall::Map {
                opened: self.opened()?,
                fd: self.number()? as i32,
                length: self.number()?,
                protection: self.number()?,
                offset: self.number()?,
            },
            3 => SystemCall::Close {
                opened: self.opened()?,
                fd: self.number()? as i32,
            },
            4 => SystemCall::Unmap {
                opened: self.opened()?,
                address: self.number()?,
                length: self.number()?,
            },
            _ => return None,
        })
    }

    fn frame(&mut self) -> Option<Frame> {
        Some(match self.byte()? {
            0 => Frame::Attached(self.number()? as i32),
            1 => Frame::Begin {
                time: self.number()?,
                pid: self.word()?,
                tid: self.word()?,
                call: self.call()?,
            },
            2 => Frame::End {
                time: self.number()?,
                tid: self.word()?,
                result: self.number()? as i64,
                after: self.payload()?,
            },
            3 => Frame::Gone { tid: self.word()? },
            4 => Frame::Cost {
                cpu: self.number()?,
                stops: self.number()?,
            },
            5 => Frame::Unseen {
                pid: self.word()?,
                why: match self.number()? {
                    0 => Unseen::OwnFilters,
                    1 => Unseen::Refused,
                    _ => return None,
                },
            },
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn opened() -> Opened {
        Opened {
            file: DeviceFile::Gpu(3),
            path: "/dev/nvidia3".into(),
            stand_in: true,
        }
    }

    fn frames() -> Vec<Frame> {
        let payload = Payload {
            argument: vec![1, 2, 3],
            memory: vec![(77, vec![9]), (78, Vec::new())],
        };
        let begin = |call| Frame::Begin {
            time: 5,
            pid: 6,
            tid: 7,
            call,
        };
        vec![
            Frame::Attached(-1),
            begin(SystemCall::Ioctl {
                request: Request {
                    opened: opened(),
                    fd: -1,
                    cmd: 0xc020_462a,
                    argument: u64::MAX,
                },
                before: payload.clone(),
            }),
            begin(SystemCall::Open {
                name: "openat",
                path: "/dev/nvidiactl".into(),
                flags: 2,
            }),
            begin(SystemCall::Map {
                opened: opened(),
                fd: 9,
                length: 4096,
                protection: 3,
                offset: 0,
            }),
            begin(SystemCall::Close {
                opened: opened(),
                fd: 9,
            }),
            begin(SystemCall::Unmap {
                opened: opened(),
                address: 0x7000_0000_0000,
                length: 4096,
            }),
            Frame::Unseen {
                pid: 6,
                why: Unseen::Refused,
            },
            Frame::End {
                time: 8,
                tid: 7,
                result: -25,
                after: payload,
            },
            Frame::Gone { tid: 7 },
            Frame::Cost { cpu: 1, stops: 2 },
        ]
    }

    #[test]
    fn frames_come_back_as_they_went() {
        let mut bytes = Vec::new();
        for frame in frames() {
            put(&mut bytes, &frame);
        }
        let mut rest = &bytes[..];
        for frame in frames() {
            let (found, length) = take(rest).expect("whole").expect("there");
            assert_eq!(format!("{found:?}"), format!("{frame:?}"));
            rest = &rest[length..];
        }
        assert!(take(rest).expect("nothing").is_none());
    }

    #[test]
    fn frames_that_are_cut_or_wrong_do_no_harm() {
        for frame in frames() {
            let mut bytes = Vec::new();
            put(&mut bytes, &frame);
            for end in 0..bytes.len() {
                assert!(take(&bytes[..end]).expect("not whole").is_none());
            }
            for at in 0..bytes.len() {
                for value in [0, 1, 0x7f, 0xff] {
                    let mut wrong = bytes.clone();
                    wrong[at] = value;
                    let _ = take(&wrong);
                }
            }
        }
        assert!(take(&[0xff; 16]).is_err());
    }
}
