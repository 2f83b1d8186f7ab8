//! Numbers that come out the same everywhere (splitmix64), and operands worth trying.

pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    pub fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    pub fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize]
    }

    /// Often at an edge, where arithmetic goes wrong first.
    pub fn operand(&mut self) -> u64 {
        const EDGES: &[u64] = &[
            0,
            1,
            2,
            7,
            31,
            32,
            63,
            64,
            0x7f,
            0x80,
            0xff,
            0x7fff,
            0x8000,
            0xffff,
            0x7fff_ffff,
            0x8000_0000,
            0xffff_ffff,
            0x1_0000_0000,
            0x7fff_ffff_ffff_ffff,
            0x8000_0000_0000_0000,
            u64::MAX,
            u64::MAX - 1,
            0xffff_ffff_8000_0000,
            0x0123_4567_89ab_cdef,
        ];
        match self.below(4) {
            0 => self.pick(EDGES),
            1 => self.next() >> self.below(64),
            2 => (self.next() as i64 >> self.below(64)) as u64,
            _ => self.next(),
        }
    }

    pub fn immediate(&mut self) -> i32 {
        self.operand() as i32
    }
}
