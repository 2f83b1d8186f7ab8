//! Looking a key up in an array, where the program stands.

use super::function::Translator;
use crate::map::{MapKind, descriptor};
use crate::verify::facts::{Call, Place};

impl Translator<'_> {
    /// Writes the lookup in place; false if it must be called.
    pub fn lookup(&mut self, call: &Call) -> bool {
        let Some(number) = call.map else {
            return false;
        };
        let map = &self.verified.object.maps[number];
        if !map.kind.is_array() {
            return false;
        }
        let (kind, entries, stride) = (map.kind, map.max_entries, map.stride());
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
        let base = self.map_base(number);
        let address = match call.key {
            Some(key) if self.is_one_copy(kind) => {
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

    fn is_one_copy(&self, kind: MapKind) -> bool {
        matches!(kind, MapKind::Array { .. } | MapKind::KernelShared)
    }

    /// The key: an array's is four bytes.
    fn key(&mut self, call: &Call) -> String {
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
            MapKind::PerSm => Some(self.emit.special("%smid")),
            MapKind::PerWarp => Some(self.warp_number()),
            _ => None,
        }
    }

    /// z·W·H + y·W + x over the whole grid.
    pub fn thread_number(&mut self) -> String {
        let mut at = Vec::new();
        let mut sizes = Vec::new();
        for axis in ["x", "y", "z"] {
            let block = self.emit.set_half("mov.u32", &format!("%ctaid.{axis}"));
            let size = self.emit.set_half("mov.u32", &format!("%ntid.{axis}"));
            let thread = self.emit.set_half("mov.u32", &format!("%tid.{axis}"));
            let thread = self.emit.set("cvt.u64.u32", &thread);
            at.push(
                self.emit
                    .set("mad.wide.u32", &format!("{block}, {size}, {thread}")),
            );
            if axis != "z" {
                let blocks = self.emit.set_half("mov.u32", &format!("%nctaid.{axis}"));
                sizes.push(self.emit.set("mul.wide.u32", &format!("{blocks}, {size}")));
            }
        }
        let row = self
            .emit
            .set("mad.lo.s64", &format!("{}, {}, {}", at[2], sizes[1], at[1]));
        self.emit
            .set("mad.lo.s64", &format!("{row}, {}, {}", sizes[0], at[0]))
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
    pub fn is_handed_over(&self, place: Place, alignment: u8) -> bool {
        self.cell(place).is_none() && alignment >= 8
    }
}
