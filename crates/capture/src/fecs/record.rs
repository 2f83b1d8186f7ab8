//! The records of the GPU's context switches: bytes of the event buffer become spans in which a
//! context had the GPU.

/// Bytes of a record: 8 of its head, 24 of its body.
pub const BYTES: usize = 32;

/// What the front end did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SwitchPhase {
    /// A context has the engine from now on.
    Begin,
    /// It has it no longer.
    End,
    /// Something in between, or a reset: by its tag.
    Other(u8),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Switch {
    pub step: SwitchPhase,
    /// Counts up; a gap is a record that was dropped.
    pub sequence: u16,
    /// The channel group.
    pub context: u32,
    /// 0: another user's, which we may not see; `u32::MAX`: the driver's own.
    pub pid: u32,
    /// By the GPU's clock, in nanoseconds.
    pub time: u64,
}

// Types of records, and tags of the second.
const SECOND: u16 = 2;
const FIRST: u16 = 134;
const CONTEXT_START: u8 = 5;
const SIMPLE_START: u8 = 6;
const SIMPLE_END: u8 = 7;
const SAVE_END: u8 = 3;
const ENGINE_RESET: u8 = 0xfe;

/// None: not a record of a context switch.
pub fn decode(bytes: &[u8]) -> Option<Switch> {
    let kind = u16::from_le_bytes(bytes.get(..2)?.try_into().ok()?);
    let body = bytes.get(8..BYTES)?;
    let word = |at: usize| {
        let bytes = body.get(at..at + 4)?;
        Some(u32::from_le_bytes(bytes.try_into().ok()?))
    };
    if !matches!(kind, FIRST | SECOND) {
        return None;
    }
    let tag = *body.first()?;
    Some(Switch {
        step: match tag {
            CONTEXT_START | SIMPLE_START => SwitchPhase::Begin,
            SIMPLE_END | SAVE_END | ENGINE_RESET => SwitchPhase::End,
            tag => SwitchPhase::Other(tag),
        },
        sequence: u16::from_le_bytes(body.get(2..4)?.try_into().ok()?),
        context: word(4)?,
        pid: word(8)?,
        time: u64::from(word(16)?) | u64::from(word(20)?) << 32,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As an H200's driver (580.159.04) wrote them while a program ran for 63 ms.
    fn recorded(tag: u8, sequence: u16, time: u64) -> Vec<u8> {
        let mut bytes = vec![0; BYTES];
        bytes[0] = 2;
        bytes[8] = tag;
        bytes[10..12].copy_from_slice(&sequence.to_le_bytes());
        bytes[12..16].copy_from_slice(&0x34u32.to_le_bytes());
        bytes[16..20].copy_from_slice(&426u32.to_le_bytes());
        bytes[24..32].copy_from_slice(&time.to_le_bytes());
        bytes
    }

    #[test]
    fn a_context_comes_and_goes() {
        let begin = decode(&recorded(6, 0, 1_794_738_326_839_406_848)).expect("a record");
        let end = decode(&recorded(7, 1, 1_794_738_326_879_141_024)).expect("a record");
        assert_eq!(
            (begin.step, end.step),
            (SwitchPhase::Begin, SwitchPhase::End)
        );
        assert_eq!((begin.pid, begin.context), (426, 0x34));
        assert_eq!(end.time - begin.time, 39_734_176);
        assert_eq!(end.sequence, 1);
    }

    #[test]
    fn any_bytes_are_a_record_or_none() {
        assert_eq!(decode(&[]), None);
        assert_eq!(decode(&recorded(6, 0, 1)[..31]), None);
        for kind in 0..=u8::MAX {
            let bytes = [kind; BYTES];
            assert!(decode(&bytes).is_none(), "{kind}");
        }
        let mut bytes = [0xff; BYTES];
        (bytes[0], bytes[1]) = (134, 0);
        assert_eq!(
            decode(&bytes).map(|one| one.step),
            Some(SwitchPhase::Other(0xff))
        );
    }
}
