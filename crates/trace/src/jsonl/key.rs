//! The names of a line's fields, found with one look instead of forty comparisons.

macro_rules! keys {
    ($($member:ident = $name:literal,)+) => {
        /// The fields this version knows.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Key { $($member,)+ }

        const KEYS: &[(&str, Key)] = &[$(($name, Key::$member),)+];

        /// The same as they stand between two fields.
        const BETWEEN: &[&[u8]] = &[$(concat!(",\"", $name, "\":").as_bytes(),)+];
    };
}

keys! {
    EventId = "event_id",
    Ts = "ts",
    Pid = "pid",
    Tid = "tid",
    Type = "type",
    Layer = "layer",
    Name = "name",
    Category = "category",
    Phase = "phase",
    OpId = "op_id",
    Depth = "depth",
    Parent = "parent",
    Cpu = "cpu",
    Device = "device",
    Context = "context",
    Stream = "stream",
    Correlation = "correlation",
    DurationUs = "duration_us",
    Status = "status",
    Result = "result",
    Cmd = "cmd",
    Decoded = "decoded",
    Details = "details",
    Stack = "stack",
    Op = "op",
    Size = "size",
    Freed = "freed",
    Ptr = "ptr",
    Space = "space",
    Direction = "direction",
    Src = "src",
    Dst = "dst",
    Kernel = "kernel",
    Grid = "grid",
    Block = "block",
    Shared = "shared",
    Count = "count",
    Source = "source",
    Threads = "threads",
    Call = "call",
}

const PLACES: usize = 128;

/// Which key has which place. That no two share one is checked when this is compiled: after
/// adding a key other factors in `place` may be needed.
const TABLE: [Option<(&str, Key)>; PLACES] = {
    let mut table = [None; PLACES];
    let mut next = 0;
    while next < KEYS.len() {
        let place = place(KEYS[next].0.as_bytes());
        assert!(table[place].is_none(), "two keys share a place");
        table[place] = Some(KEYS[next]);
        next += 1;
    }
    table
};

const fn place(name: &[u8]) -> usize {
    let length = name.len();
    if length == 0 {
        return 0;
    }
    let (first, middle, last) = (name[0], name[length / 2], name[length - 1]);
    (length * 17 + first as usize * 4 + last as usize * 55 + middle as usize) % PLACES
}

impl Key {
    #[inline]
    pub fn of(name: &str) -> Option<Self> {
        match TABLE[place(name.as_bytes())] {
            Some((known, key)) if known == name => Some(key),
            _ => None,
        }
    }
}

/// Which field followed which the last time: lines are much alike, and comparing with what is
/// expected is cheaper than reading a name and looking it up.
pub struct Order {
    next: [Option<Key>; KEYS.len()],
}

impl Default for Order {
    fn default() -> Self {
        Order {
            next: [None; KEYS.len()],
        }
    }
}

impl Order {
    /// What will probably follow, with the comma before it and the colon behind it.
    #[inline]
    pub fn after(&self, last: Key) -> Option<(Key, &'static [u8])> {
        self.next[last as usize].map(|key| (key, BETWEEN[key as usize]))
    }

    #[inline]
    pub fn learn(&mut self, last: Option<Key>, key: Key) {
        if let Some(last) = last {
            self.next[last as usize] = Some(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_is_found_and_nothing_else() {
        for &(name, key) in KEYS {
            assert_eq!(Key::of(name), Some(key));
            assert_eq!(Key::of(&format!("{name}_")), None);
            assert_eq!(BETWEEN[key as usize], format!(",\"{name}\":").as_bytes());
        }
        assert_eq!(Key::of(""), None);
    }
}
