//! Looking a key up in an array, and writing its value, where the program stands.

use super::emit::Emit;
use super::function::{self, Translator};
use super::kept;
use crate::map::{MapKind, descriptor, spread_bytes};
use crate::verify::facts::{AccessedMemory, HelperCall};

/// Values up to this size are copied in place.
const INLINE_BYTES: u32 = 64;
/// -E2BIG, -EEXIST, -EINVAL.
const NO_SUCH_ENTRY: i64 = -7;
const EXISTS: i64 = -17;
const WRONG_FLAGS: i64 = -22;

/// The number of a thread in its grid, for text that is written elsewhere: in %cutrace_thread.
pub fn thread_number_text() -> String {
    let mut emit = Emit::default();
    let thread = thread_number(&mut emit);
    let body = emit.body().replace("    ", "\t");
    let text = format!(
        "{}\t.reg .b64 %cutrace_thread;\n{body}\tmov.b64 %cutrace_thread, {thread};\n",
        emit.declarations()
    );
    function::own_registers(&text)
}

/// z·W·H + y·W + x over the whole grid.
fn thread_number(emit: &mut Emit) -> String {
    let mut at = Vec::new();
    let mut sizes = Vec::new();
    for axis in ["x", "y", "z"] {
        let block = emit.set_half("mov.u32", &format!("%ctaid.{axis}"));
        let size = emit.set_half("mov.u32", &format!("%ntid.{axis}"));
        let thread = emit.set_half("mov.u32", &format!("%tid.{axis}"));
        let thread = emit.set("cvt.u64.u32", &thread);
        at.push(emit.set("mad.wide.u32", &format!("{block}, {size}, {thread}")));
        if axis != "z" {
            let blocks = emit.set_half("mov.u32", &format!("%nctaid.{axis}"));
            sizes.push(emit.set("mul.wide.u32", &format!("{blocks}, {size}")));
        }
    }
    let row = emit.set("mad.lo.s64", &format!("{}, {}, {}", at[2], sizes[1], at[1]));
    emit.set("mad.lo.s64", &format!("{row}, {}, {}", sizes[0], at[0]))
}

impl Translator<'_> {
    /// Writes the lookup in place; false if it must be called.
    pub fn lookup(&mut self, call: &HelperCall) -> bool {
        let Some(number) = call.map else {
            return false;
        };
        let map = &self.verified.object.maps[number];
        if !map.kind.is_array() {
            return false;
        }
        let (kind, entries, stride) = (map.kind, map.max_entries, map.stride());
        let spread = spread_bytes(map);
        self.never_null &= !0x3f;
        if call.key.is_some_and(|key| key >= u64::from(entries)) {
            self.emit.line("mov.b64 %r0, 0");
            return true;
        }
        let mut misses = Vec::new();
        let mut index = match call.key {
            Some(key) => key.to_string(),
            None => {
                let key = self.key(call);
                let key = self.emit.low(&key);
                misses.push(
                    self.emit
                        .set_predicate("setp.ge.u32", &format!("{key}, {entries}")),
                );
                self.emit.set("cvt.u64.u32", &key)
            }
        };
        let own = matches!(kind, MapKind::PerThread { .. } | MapKind::PerWarp);
        // A key that is known to be there, of a map that has it for everyone.
        self.never_null |= u16::from(call.key.is_some() && !own);
        if self.inline {
            self.stand_in(number, call.key, &index, misses);
            return true;
        }
        if let Some(copy) = self.copy_number(kind) {
            let copies = self.descriptor_word(number, descriptor::COPIES);
            misses.push(
                self.emit
                    .set_predicate("setp.ge.u64", &format!("{copy}, {copies}")),
            );
            index = if call.key == Some(0) {
                copy
            } else {
                let index = self.in_register(&index);
                self.emit
                    .set("mad.lo.s64", &format!("{index}, {copies}, {copy}"))
            };
        }
        let mut base = self.map_base(number);
        if self.is_spread(number) {
            let own = self.multiprocessor(number);
            base = self
                .emit
                .set("mad.lo.s64", &format!("{own}, {spread}, {base}"));
        }
        let address = match call.key {
            Some(key) if !own => {
                let offset = key * u64::from(stride);
                self.emit.set("add.s64", &format!("{base}, {offset}"))
            }
            _ => {
                let index = self.in_register(&index);
                self.emit
                    .set("mad.lo.s64", &format!("{index}, {stride}, {base}"))
            }
        };
        let mut found = address;
        for miss in misses {
            found = self.emit.set("selp.b64", &format!("0, {found}, {miss}"));
        }
        self.emit.line(format!("mov.b64 %r0, {found}"));
        true
    }

    /// Writes an update of an array in place; false if it must be called.
    pub fn update(&mut self, at: usize, call: &HelperCall) -> bool {
        let (Some(number), Some(value)) = (call.map, call.memory[2]) else {
            return false;
        };
        let map = &self.verified.object.maps[number];
        let (bytes, alignment) = (map.value_size, map.value_alignment() as u8);
        if !map.kind.is_array() || bytes > INLINE_BYTES {
            return false;
        }
        // r1 to r5 and r0 are the call's: whatever they hold afterwards, nobody reads.
        let done = format!("U{at}");
        let wrong = self.emit.set_predicate("setp.gt.u64", "%r4, 2");
        self.give_up(WRONG_FLAGS, &wrong, &done);
        self.lookup(call);
        let to = self.emit.set("mov.b64", "%r0");
        let missing = self.emit.set_predicate("setp.eq.s64", &format!("{to}, 0"));
        self.give_up(NO_SUCH_ENTRY, &missing, &done);
        // An array has all its entries, so that none can be new.
        let new = self.emit.set_predicate("setp.eq.s64", "%r4, 1");
        self.give_up(EXISTS, &new, &done);
        let mut copied = 0;
        while copied < bytes {
            let step = [8, 4, 2, 1]
                .into_iter()
                .find(|step| copied + step <= bytes)
                .unwrap_or(1) as u8;
            let piece = match self.cell(value.place) {
                Some(cell) => self.read_cell(cell + copied as i16, step),
                None => {
                    let space = super::memory::space(value.place);
                    let from = ("%r3".to_owned(), i64::from(copied));
                    self.load(space, &from, step, value.alignment.min(step), false)
                }
            };
            let place = (to.clone(), i64::from(copied));
            self.store(".global", &place, step, alignment.min(step), &piece);
            copied += u32::from(step);
        }
        self.emit.line("mov.b64 %r0, 0");
        self.emit.label(&done);
        true
    }

    /// The call's result, and an end to it, where something holds.
    fn give_up(&mut self, result: i64, holds: &str, done: &str) {
        self.emit.line(format!("mov.b64 %r0, {result}"));
        self.emit.line(format!("@{holds} bra {done}"));
    }

    /// Whether each multiprocessor has a copy of a map.
    fn is_spread(&self, map: usize) -> bool {
        let object = self.verified.object;
        object.maps[map].kind == MapKind::PerSm
            || (self.options.counters.as_ref())
                .is_some_and(|counters| counters.is_spread(object, map))
    }

    /// Which copy of a map is this multiprocessor's: the last for those beyond, if there can be any.
    fn multiprocessor(&mut self, map: usize) -> String {
        let parts = self.descriptor_word(map, descriptor::PARTS);
        let parts = self.emit.low(&parts);
        let last = self.emit.set_half("sub.s32", &format!("{parts}, 1"));
        let own = self.emit.set_half("mov.u32", "%smid");
        let own = self.emit.set_half("min.u32", &format!("{own}, {last}"));
        self.emit.set("cvt.u64.u32", &own)
    }

    /// An address that stands for the value, for a program that keeps what it adds.
    fn stand_in(&mut self, map: usize, key: Option<u64>, index: &str, mut misses: Vec<String>) {
        let spec = &self.verified.object.maps[map];
        let (kind, stride) = (spec.kind, u64::from(spec.stride()));
        let base = kept::stand_in(map);
        let mut address = match key {
            Some(key) => (base + key * stride).to_string(),
            None => {
                let base = self.emit.set("mov.b64", &base.to_string());
                self.emit
                    .set("mad.lo.s64", &format!("{index}, {stride}, {base}"))
            }
        };
        if matches!(kind, MapKind::PerThread { .. }) {
            let thread = self.thread_number();
            let copies = self.descriptor_word(map, descriptor::COPIES);
            misses.push(
                self.emit
                    .set_predicate("setp.ge.u64", &format!("{thread}, {copies}")),
            );
        }
        for miss in misses {
            address = self.emit.set("selp.b64", &format!("0, {address}, {miss}"));
        }
        self.emit.line(format!("mov.b64 %r0, {address}"));
    }

    /// The key: an array's is four bytes.
    fn key(&mut self, call: &HelperCall) -> String {
        let Some(memory) = call.memory[1] else {
            return self.emit.set("mov.b64", "0");
        };
        if let Some(cell) = self.cell(memory.place) {
            return self.read_cell(cell, 4);
        }
        let space = super::memory::space(memory.place);
        self.load(space, &("%r2".into(), 0), 4, memory.alignment.min(4), false)
    }

    /// Which copy of a value is this thread's.
    fn copy_number(&mut self, kind: MapKind) -> Option<String> {
        match kind {
            MapKind::PerThread { .. } => Some(self.thread_number()),
            MapKind::PerWarp => Some(self.warp_number()),
            _ => None,
        }
    }

    pub fn thread_number(&mut self) -> String {
        thread_number(&mut self.emit)
    }

    /// Warps are counted block by block.
    fn warp_number(&mut self) -> String {
        let emit = &mut self.emit;
        let mut linear = |position: &str, size: &str| {
            let mut read = |name: &str| emit.set_half("mov.u32", name);
            let [x, y, z] = ["x", "y", "z"].map(|axis| read(&format!("{position}.{axis}")));
            let [width, height] = ["x", "y"].map(|axis| read(&format!("{size}.{axis}")));
            let row = emit.set_half("mad.lo.s32", &format!("{z}, {height}, {y}"));
            emit.set_half("mad.lo.s32", &format!("{row}, {width}, {x}"))
        };
        let block = linear("%ctaid", "%nctaid");
        let thread = linear("%tid", "%ntid");
        let warp = emit.set_half("shr.u32", &format!("{thread}, 5"));
        let [x, y, z] =
            ["x", "y", "z"].map(|axis| emit.set_half("mov.u32", &format!("%ntid.{axis}")));
        let area = emit.set_half("mul.lo.s32", &format!("{x}, {y}"));
        let size = emit.set_half("mad.lo.s32", &format!("{area}, {z}, 31"));
        let warps = emit.set_half("shr.u32", &format!("{size}, 5"));
        let warp = emit.set("cvt.u64.u32", &warp);
        emit.set("mad.wide.u32", &format!("{block}, {warps}, {warp}"))
    }

    /// Whether memory is where a helper can read it as it is.
    pub fn is_handed_over(&self, place: AccessedMemory, alignment: u8) -> bool {
        self.cell(place).is_none() && alignment >= 8
    }
}
