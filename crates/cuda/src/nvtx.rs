//! NVTX as the injected library records it: a few calls of our own making, to which all of NVTX's
//! functions come down. The injected library writes by these, the tracer reads by them.
//!
//! Words of a call: 0 the domain, 1 the message (a text, or the handle of a registered one),
//! 2 [`MessageType`] and the category above it, 3 the colour, the payload's type and the colour's
//! type above it ([`Style`]), 4 the payload, 5 a process range's number. [`Call::Name`] has what is
//! named ([`Named`]) in place of the message's type, and its handle in word 3.

use crate::capture::{Item, Plan, When};

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NvtxStep {
    /// A range of the thread begins.
    Push,
    /// The domain's innermost range of the thread ends.
    Pop,
    /// A range of the process begins.
    Start,
    /// The one of that number ends.
    End,
    Mark,
    /// A string, a domain or a category has a text from now on.
    Name,
}

/// How much of a text is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    /// There is none.
    None,
    /// In one slot with the rest.
    Short,
    Long,
}

/// Bytes of text, and the NUL after it, that [`Room::Short`] has room for.
pub const SHORT_TEXT: u16 = event::ring::PAYLOAD_BYTES as u16 - 16;
pub const LONG_TEXT: u16 = crate::capture::TEXT_BYTES;

/// How a function of this module is called in the process's file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Function {
    pub name: &'static str,
    pub call: NvtxStep,
    pub room: Room,
}

const fn function(name: &'static str, call: NvtxStep, room: Room) -> Function {
    Function { name, call, room }
}

/// All of them; the injected library numbers them so.
pub const FUNCTIONS: [Function; 12] = [
    function("nvtxRangePush", NvtxStep::Push, Room::None),
    function("nvtxRangePush.short", NvtxStep::Push, Room::Short),
    function("nvtxRangePush.long", NvtxStep::Push, Room::Long),
    function("nvtxRangeStart", NvtxStep::Start, Room::None),
    function("nvtxRangeStart.short", NvtxStep::Start, Room::Short),
    function("nvtxRangeStart.long", NvtxStep::Start, Room::Long),
    function("nvtxMark", NvtxStep::Mark, Room::None),
    function("nvtxMark.short", NvtxStep::Mark, Room::Short),
    function("nvtxMark.long", NvtxStep::Mark, Room::Long),
    function("nvtxRangePop", NvtxStep::Pop, Room::None),
    function("nvtxRangeEnd", NvtxStep::End, Room::None),
    function("nvtxName", NvtxStep::Name, Room::Long),
];

/// The number of a function, its place in [`FUNCTIONS`].
pub const fn number(call: NvtxStep, room: Room) -> usize {
    match call {
        NvtxStep::Push => room as usize,
        NvtxStep::Start => 3 + room as usize,
        NvtxStep::Mark => 6 + room as usize,
        NvtxStep::Pop => 9,
        NvtxStep::End => 10,
        NvtxStep::Name => 11,
    }
}

/// The function of that name.
pub fn by_name(name: &str) -> Option<&'static Function> {
    FUNCTIONS.iter().find(|one| one.name == name)
}

impl Function {
    /// What it is called where people choose: without the room.
    pub fn family(&self) -> &'static str {
        self.name.split('.').next().unwrap_or(self.name)
    }

    /// What is kept of a call beyond its first four words.
    pub fn plan(&self) -> Plan {
        let text = |bytes| Item::Text {
            arg: 1,
            bytes,
            at: When::Enter,
        };
        let more = [Item::Arg { index: 4 }, Item::Arg { index: 5 }];
        match (self.call, self.room) {
            (NvtxStep::Pop | NvtxStep::End, _) => Plan::of(&[]),
            (_, Room::None) => Plan::of(&more),
            (_, Room::Short) => Plan::of(&[more[0], more[1], text(SHORT_TEXT)]),
            (_, Room::Long) => Plan::of(&[more[0], more[1], text(LONG_TEXT)]),
        }
    }
}

/// What word 1 is.
pub mod message_type {
    pub const NONE: u32 = 0;
    /// A text, whatever the program had it in.
    pub const TEXT: u32 = 1;
    pub const REGISTERED: u32 = 3;
}

/// What is named by [`Call::Name`].
pub mod named {
    /// A string, by the handle that the program was given.
    pub const STRING: u32 = 1;
    pub const DOMAIN: u32 = 2;
    /// A category of the domain in word 0, by its number.
    pub const CATEGORY: u32 = 3;
}

/// The colour and what the payload is, as they share a word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Style {
    /// ARGB; None: the program leaves it to us.
    pub color: Option<u32>,
    /// `nvtxPayloadType_t`.
    pub payload_type: u8,
}

impl Style {
    pub const fn word(self) -> u64 {
        let color = match self.color {
            Some(color) => color as u64 | 1 << 48,
            None => 0,
        };
        color | (self.payload_type as u64) << 32
    }

    pub const fn of_word(word: u64) -> Style {
        Style {
            color: if word >> 48 & 1 == 1 {
                Some(word as u32)
            } else {
                None
            },
            payload_type: (word >> 32) as u8,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_text_needs_one_slot_more() {
        let slots = |name| by_name(name).expect("known").plan().payload_slots();
        assert_eq!(slots("nvtxRangePush.short"), 1);
        assert_eq!(slots("nvtxRangePush.long"), 5);
        assert_eq!((slots("nvtxRangePush"), slots("nvtxRangePop")), (1, 0));
        assert_eq!(
            by_name("nvtxMark.short").expect("known").family(),
            "nvtxMark"
        );
        assert!(by_name("nvtxRangePushA").is_none());
        for (place, function) in FUNCTIONS.iter().enumerate() {
            assert_eq!(number(function.call, function.room), place);
        }
    }

    #[test]
    fn a_style_comes_back_from_its_word() {
        for color in [None, Some(0), Some(0xff00_80ff)] {
            for payload_type in [0, 3, 6] {
                let style = Style {
                    color,
                    payload_type,
                };
                assert_eq!(Style::of_word(style.word()), style);
            }
        }
    }
}
