//! Hooking functions whose code cannot be changed: what points to them is turned to thunks.

use super::Hooks;
use super::candidates::Candidate;
use super::work::Target;
use crate::engine::redirect::{Data, How, Redirect};
use crate::engine::select::Method;
use crate::engine::thunks;
use crate::objects::{self, Object, file::Mapped};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

impl Hooks {
    /// The driver's own lookup knows nothing of symbols.
    pub(super) fn hand_out_thunks(&mut self, library: usize) {
        for name in thunks::LOOKUPS {
            if let Some(number) = self.libraries[library].numbers.get(name) {
                // SAFETY: a row of the table; nothing calls it yet.
                let row = unsafe { &mut *self.entries.add((*number).into()) };
                row.target = thunks::lookup(name, row.target).unwrap_or(row.target);
            }
        }
    }

    /// Hooks the first of `names` without its code being changed; the others may be names of it too.
    pub(super) fn redirect(
        &mut self,
        of: &Target,
        names: &[Candidate],
        number: usize,
        data: &Data,
    ) -> Option<(Redirect, usize)> {
        let one = names.first()?;
        let thunk = thunks::of(number)?;
        let slot = (self.options.method != Method::Symbols)
            .then(|| data.slot_of(one.address, of.parts))
            .flatten();
        let (how, original) = match slot {
            Some(slot) => (How::Slot(slot), slot.function),
            None if self.options.method == Method::Slots => return None,
            None => {
                let same = names.iter().filter(|next| next.address == one.address);
                let symbols: Vec<usize> = same.map(|name| name.symbol).collect();
                if !symbols.iter().all(|symbol| data.may_change(*symbol)) {
                    return None;
                }
                (How::Symbols(symbols), one.address)
            }
        };
        self.row(of, one.name, number, original);
        let redirect = Redirect {
            address: one.address,
            thunk,
            how,
        };
        Some((redirect, original))
    }

    /// Turns what points to the functions to their thunks, in every object there is.
    pub(super) fn turn(&mut self, object: &Object, data: &Data, redirects: &[Redirect]) {
        let mut turned = BTreeMap::new();
        for redirect in redirects {
            if data.turn(redirect) && matches!(redirect.how, How::Symbols(_)) {
                turned.insert(redirect.address, redirect.thunk);
            }
        }
        if turned.is_empty() {
            return;
        }
        self.turned.extend(&turned);
        thunks::publish(self.turned.iter().map(|(from, to)| (*from, *to)).collect());
        // SAFETY: the loader's lock is held, and its list is complete.
        for other in unsafe { objects::objects(self.loader) } {
            if other.bias == object.bias {
                data.turn_pointers(&other, &turned);
            } else if let Some(file) = Mapped::object(&other) {
                Data::of(&other, file.segments()).turn_pointers(&other, &turned);
            }
        }
    }
}
