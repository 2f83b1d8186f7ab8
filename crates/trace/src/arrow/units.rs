//! Cutting an Arrow stream into its batches of rows. Dictionaries are decoded on the way: the
//! batches behind them need them.

use super::{
    batch::{self, Dictionaries},
    message::{Messages, Next},
    plan::Plan,
};
use crate::{FilePosition, Result, error::BatchDamage, pipeline::Cut};
use arrow_ipc::MessageHeader;
use std::{borrow::Cow, io::Read, sync::Arc};

/// A batch of rows as it is in the file, or what ends the reading.
#[derive(Default)]
pub struct Unit {
    pub header: Vec<u8>,
    pub body: Vec<u8>,
    /// Of its first byte in the file.
    pub offset: u64,
    pub dictionaries: Arc<Dictionaries>,
    /// Instead of rows: what is wrong, and where.
    pub warning: Option<(FilePosition, Cow<'static, str>)>,
}

pub struct Units<R> {
    messages: Messages<R>,
    plan: Arc<Plan>,
    dictionaries: Arc<Dictionaries>,
    ended: bool,
}

impl<R: Read> Units<R> {
    pub fn new(messages: Messages<R>, plan: Arc<Plan>) -> Self {
        Units {
            messages,
            plan,
            dictionaries: Arc::default(),
            ended: false,
        }
    }

    /// The end, with what is to be said of it.
    fn end(&mut self, place: FilePosition, what: impl Into<Cow<'static, str>>) -> Option<Unit> {
        self.ended = true;
        Some(Unit {
            warning: Some((place, what.into())),
            ..Unit::default()
        })
    }

    /// The message that was just read, if it is a dictionary: false if it has rows.
    fn take_dictionary(&mut self) -> std::result::Result<bool, BatchDamage> {
        let no_sense = BatchDamage("a message with an invalid header");
        let message = arrow_ipc::root_as_message(self.messages.header()).map_err(|_| no_sense)?;
        match message.header_type() {
            MessageHeader::RecordBatch => return Ok(false),
            MessageHeader::DictionaryBatch => {}
            _ => return Err(BatchDamage("a message of an unknown kind")),
        }
        let header = message.header_as_dictionary_batch().ok_or(no_sense)?;
        let id = header.id();
        let known = self.plan.dictionaries.iter();
        let known = { known }.find(|&&(known, _)| known == id);
        let &(_, large) = known.ok_or("a dictionary that no column uses")?;
        let data = header.data().ok_or(no_sense)?;
        let mut names = batch::decode_dictionary(data, self.messages.body(), large)?;
        let dictionaries = Arc::make_mut(&mut self.dictionaries);
        if header.isDelta() {
            let old = dictionaries.get(&id).map(|old| old.to_vec());
            let mut all = old.unwrap_or_default();
            all.append(&mut names);
            names = all;
        }
        dictionaries.insert(id, Arc::new(names));
        Ok(true)
    }
}

impl<R: Read + Send + 'static> Cut for Units<R> {
    type Unit = Unit;

    fn next(&mut self, spare: Unit) -> Result<Option<Unit>> {
        if self.ended {
            return Ok(None);
        }
        let (mut header, mut body) = (spare.header, spare.body);
        loop {
            let (offset, next) = self.messages.next()?;
            let problem = match next {
                Next::Message => match self.take_dictionary() {
                    Ok(true) => continue,
                    Ok(false) => {
                        self.messages.swap(&mut header, &mut body);
                        return Ok(Some(Unit {
                            header,
                            body,
                            offset,
                            dictionaries: Arc::clone(&self.dictionaries),
                            warning: None,
                        }));
                    }
                    Err(BatchDamage(what)) => what,
                },
                Next::End => {
                    if self.messages.next()?.1 != Next::NoMore {
                        let what = "data after the stream's end is not read";
                        return Ok(self.end(FilePosition::Byte(self.messages.offset()), what));
                    }
                    self.ended = true;
                    return Ok(None);
                }
                Next::NoMore => {
                    self.ended = true;
                    return Ok(None);
                }
                Next::CutOff => {
                    "the file is cut off inside this batch; everything before it was read"
                }
                Next::Damaged(what) => what,
            };
            return Ok(self.end(FilePosition::Byte(offset), nothing_behind(problem)));
        }
    }
}

pub fn nothing_behind(problem: &str) -> Cow<'static, str> {
    format!("{problem}: the rest of the file is not read").into()
}
