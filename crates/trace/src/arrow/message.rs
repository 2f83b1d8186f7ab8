//! The framing of an Arrow stream: messages of a header and a body.

use crate::Result;
use std::io::{self, Read};

/// Headers are small: a few bytes a column.
pub const LARGEST_HEADER: u32 = 16 << 20;
/// What one batch may be, packed or unpacked. Batches written by cutrace are far smaller.
pub const LARGEST_BODY: u64 = 512 << 20;

pub struct Messages<R> {
    input: R,
    /// Where the next message begins.
    offset: u64,
    header: Vec<u8>,
    body: Vec<u8>,
}

/// What comes next in the stream.
#[derive(Debug, PartialEq, Eq)]
pub enum Next {
    /// Its header and body can be looked at.
    Message,
    /// The stream says that it ends here.
    End,
    /// The file ends, between two messages.
    NoMore,
    /// The file ends inside a message.
    CutOff,
    Damaged(&'static str),
}

impl<R: Read> Messages<R> {
    pub fn new(input: R) -> Self {
        Messages {
            input,
            offset: 0,
            header: Vec::new(),
            body: Vec::new(),
        }
    }

    pub fn header(&self) -> &[u8] {
        &self.header
    }

    pub fn body(&self) -> &[u8] {
        &self.body
    }

    /// Take the message's buffers, and leave others.
    pub fn swap(&mut self, header: &mut Vec<u8>, body: &mut Vec<u8>) {
        std::mem::swap(&mut self.header, header);
        std::mem::swap(&mut self.body, body);
    }

    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Step to the next message. Returns where it begins and what it is.
    pub fn next(&mut self) -> Result<(u64, Next)> {
        let begin = self.offset;
        let mut prefix = [0; 8];
        let next = match self.read_prefix(&mut prefix)? {
            0 => Next::NoMore,
            1..8 => Next::CutOff,
            _ => self.after_prefix(prefix)?,
        };
        Ok((begin, next))
    }

    fn after_prefix(&mut self, prefix: [u8; 8]) -> Result<Next> {
        let [a, b, c, d, rest @ ..] = prefix;
        if [a, b, c, d] != [0xff; 4] {
            return Ok(Next::Damaged("no Arrow message where one should begin"));
        }
        let length = u32::from_le_bytes(rest);
        if length == 0 {
            return Ok(Next::End);
        }
        if length > LARGEST_HEADER {
            return Ok(Next::Damaged("a message with an impossible header"));
        }
        if !read_exactly(&mut self.input, u64::from(length), &mut self.header)? {
            return Ok(Next::CutOff);
        }
        self.offset += u64::from(length);
        let Ok(message) = arrow_ipc::root_as_message(&self.header) else {
            return Ok(Next::Damaged("a message with an invalid header"));
        };
        let length = match u64::try_from(message.bodyLength()) {
            Ok(length) if length <= LARGEST_BODY => length,
            _ => return Ok(Next::Damaged("a message with an impossible body")),
        };
        if !read_exactly(&mut self.input, length, &mut self.body)? {
            return Ok(Next::CutOff);
        }
        self.offset += length;
        Ok(Next::Message)
    }

    fn read_prefix(&mut self, prefix: &mut [u8; 8]) -> Result<usize> {
        let mut filled = 0;
        while filled < prefix.len() {
            match self.input.read(&mut prefix[filled..]) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        self.offset += filled as u64;
        Ok(filled)
    }
}

/// Replace `buffer` by the next `length` bytes; false if there are fewer. Memory is only taken
/// for bytes that exist.
fn read_exactly(input: &mut impl Read, length: u64, buffer: &mut Vec<u8>) -> Result<bool> {
    buffer.clear();
    let read = input.take(length).read_to_end(buffer)?;
    Ok(read as u64 == length)
}
