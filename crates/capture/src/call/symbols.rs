//! Names of addresses in files: functions, source lines, what was inlined.

use super::demangle::demangled;
use blazesym::symbolize::source::{Elf, Source};
use blazesym::symbolize::{CodeInfo, Input, Symbolized, Symbolizer};
use event::{Frame, FrameKind, Name};
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

/// Addresses whose names are kept.
const MOST_KEPT: usize = 256 << 10;

pub struct Symbols {
    symbolizer: Symbolizer,
    /// By file and address in it.
    known: HashMap<(Name, u64), Arc<[Frame]>>,
}

impl Default for Symbols {
    fn default() -> Self {
        let symbolizer = Symbolizer::builder()
            // A file that is exchanged while the program runs is not what the program runs.
            .enable_auto_reload(false)
            .enable_code_info(true)
            .enable_inlined_fns(true)
            // By hand: a name can be made to grow without end.
            .enable_demangling(false)
            .build();
        Symbols {
            symbolizer,
            known: HashMap::new(),
        }
    }
}

impl Symbols {
    /// The frames of an address in a file: what was inlined there, innermost first, and the
    /// function itself. Their addresses are left to the caller.
    pub fn frames(&mut self, path: &Name, address: u64) -> Arc<[Frame]> {
        let key = (path.clone(), address);
        if let Some(known) = self.known.get(&key) {
            return known.clone();
        }
        if self.known.len() >= MOST_KEPT {
            self.known.clear();
        }
        let frames: Arc<[Frame]> = self.find(path, address).into();
        self.known.insert(key, frames.clone());
        frames
    }

    fn find(&self, path: &Name, address: u64) -> Vec<Frame> {
        let nameless = || {
            vec![Frame {
                module: Some(path.clone()),
                ..Frame::default()
            }]
        };
        // The kernel's own object has no file.
        if !path.starts_with('/') {
            return nameless();
        }
        let source = Source::Elf(Elf::new(Path::new(&**path)));
        let found = (self.symbolizer).symbolize_single(&source, Input::VirtOffset(address));
        let Ok(Symbolized::Sym(symbol)) = found else {
            return nameless();
        };
        let mut frames: Vec<Frame> = (symbol.inlined.iter().rev())
            .map(|inlined| Frame {
                kind: FrameKind::Inlined,
                symbol: Some(demangled(&inlined.name)),
                module: Some(path.clone()),
                ..located(inlined.code_info.as_ref())
            })
            .collect();
        frames.push(Frame {
            symbol: Some(demangled(&symbol.name)),
            offset: Some(symbol.offset as u64),
            module: Some(path.clone()),
            ..located(symbol.code_info.as_deref())
        });
        frames
    }
}

fn located(code: Option<&CodeInfo<'_>>) -> Frame {
    Frame {
        file: code.map(|code| code.to_path().to_string_lossy().into()),
        line: code.and_then(|code| code.line),
        ..Frame::default()
    }
}
