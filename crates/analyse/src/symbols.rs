//! Names become small numbers, once: everything that is kept by function is kept in a list.

use crate::Role;
use event::{Category, Event, Kind, Layer, Name};
use std::{collections::HashMap, sync::Arc};

/// A place in the list of symbols.
pub type SymbolId = u32;

/// A function, a system call or a GPU kernel: a name within a layer.
#[derive(Debug, Clone)]
pub struct Symbol {
    pub name: Name,
    pub layer: Layer,
    /// As the first event of that name said.
    pub category: Category,
    pub kind: Kind,
    pub role: Role,
}

/// All symbols seen. Once there are too many, new ones are all called the same.
pub struct Symbols {
    list: Vec<Symbol>,
    by_name: HashMap<(Name, Layer), SymbolId, ahash::RandomState>,
    /// By address: readers share one string for each name, so that most need no hashing of text.
    recent: Box<[Option<(Name, Layer, SymbolId)>]>,
}

/// Readers share no more names than that either.
const MOST: usize = 16_384;
const RECENT: usize = 1_024;
/// What names beyond the bound are called.
pub const FURTHER: &str = "(further names)";

impl Default for Symbols {
    fn default() -> Self {
        Symbols {
            list: Vec::new(),
            by_name: HashMap::default(),
            recent: vec![None; RECENT].into(),
        }
    }
}

impl Symbols {
    /// The symbol of an event's function.
    #[inline]
    pub fn of(&mut self, event: &Event) -> SymbolId {
        self.of_name(&event.name, event.layer, event.category, event.kind)
    }

    #[inline]
    pub fn of_name(
        &mut self,
        name: &Name,
        layer: Layer,
        category: Category,
        kind: Kind,
    ) -> SymbolId {
        let address = Arc::as_ptr(name).cast::<u8>() as usize;
        let slot = (address >> 4 ^ address >> 14).wrapping_add(layer as usize * 97) % RECENT;
        if let Some((known, of, id)) = &self.recent[slot]
            && Arc::ptr_eq(known, name)
            && *of == layer
        {
            return *id;
        }
        let id = self.look_up(name, layer, category, kind);
        // The name is kept, so that its address cannot come to mean another one.
        self.recent[slot] = Some((name.clone(), layer, id));
        id
    }

    fn look_up(&mut self, name: &Name, layer: Layer, category: Category, kind: Kind) -> SymbolId {
        let mut key = (name.clone(), layer);
        if let Some(&id) = self.by_name.get(&key) {
            return id;
        }
        if self.list.len() >= MOST {
            key.0 = FURTHER.into();
            if let Some(&id) = self.by_name.get(&key) {
                return id;
            }
        }
        let id = self.list.len() as SymbolId;
        self.list.push(Symbol {
            name: key.0.clone(),
            layer,
            category,
            kind,
            role: Role::of(layer, &key.0),
        });
        self.by_name.insert(key, id);
        id
    }

    #[inline]
    pub fn get(&self, id: SymbolId) -> &Symbol {
        &self.list[id as usize]
    }

    pub fn name(&self, id: SymbolId) -> Name {
        self.get(id).name.clone()
    }

    pub fn len(&self) -> usize {
        self.list.len()
    }

    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(symbols: &mut Symbols, name: &str, layer: Layer) -> SymbolId {
        symbols.of_name(&name.into(), layer, Category::Other, Kind::Userspace)
    }

    #[test]
    fn a_name_in_a_layer_is_one_symbol() {
        let mut symbols = Symbols::default();
        let first = id(&mut symbols, "ioctl", Layer::Syscall);
        assert_eq!(id(&mut symbols, "ioctl", Layer::Syscall), first);
        assert_ne!(id(&mut symbols, "ioctl", Layer::Kernel), first);
        assert_eq!(&*symbols.name(first), "ioctl");
    }

    #[test]
    fn there_are_only_so_many() {
        let mut symbols = Symbols::default();
        for number in 0..2 * MOST {
            id(&mut symbols, &number.to_string(), Layer::Driver);
        }
        let further = id(&mut symbols, "yet another", Layer::Driver);
        assert_eq!(symbols.len(), MOST + 1);
        assert_eq!(&*symbols.name(further), FURTHER);
    }
}
