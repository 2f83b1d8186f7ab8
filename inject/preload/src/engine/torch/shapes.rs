//! The sizes of an operator's inputs (`--shapes`), by the function that PyTorch's own profiler calls for them.

use crate::objects::{self, Loader, Object};

/// `torch::profiler::impl::inputSizes(const at::RecordFunction&, bool)`
const SIZES: &[u8] = b"_ZN5torch8profiler4impl10inputSizesERKN2at14RecordFunctionEb";
/// `operator delete(void*)`
const DELETE: &[u8] = b"_ZdlPv";

/// `std::vector`: first, end, end of the room.
type Vector = [usize; 3];

pub struct InputSizes {
    /// Returns a vector of vectors of numbers, through a hidden pointer.
    sizes: unsafe extern "C" fn(*mut Vector, *const u8, bool) -> *mut Vector,
    delete: unsafe extern "C" fn(usize),
}

impl InputSizes {
    /// `operator delete` is the first that the loader finds, as for PyTorch itself.
    pub fn find(torch: &Object, loader: *const Loader) -> Option<InputSizes> {
        let (sizes, _) = torch.function(SIZES)?;
        // SAFETY: the loader's lock is held, and its list is complete.
        let (delete, _) = unsafe { objects::objects(loader) }.find_map(|it| it.function(DELETE))?;
        // SAFETY: functions of these types, by their symbols' names.
        unsafe {
            Some(InputSizes {
                sizes: core::mem::transmute::<
                    usize,
                    unsafe extern "C" fn(*mut Vector, *const u8, bool) -> *mut Vector,
                >(sizes),
                delete: core::mem::transmute::<usize, unsafe extern "C" fn(usize)>(delete),
            })
        }
    }

    /// `32,256;256`: numbers of one input after the other, as many as fit before a NUL.
    ///
    /// # Safety
    /// A RecordFunction whose start callbacks are being called, with its inputs.
    pub unsafe fn write(&self, function: *const u8, text: &mut [u8]) {
        let mut all: Vector = [0; 3];
        // SAFETY: as PyTorch's profiler calls it.
        unsafe { (self.sizes)(&mut all, function, false) };
        let mut line = Text {
            room: text,
            length: 0,
        };
        let inputs = all[1].saturating_sub(all[0]) / size_of::<Vector>();
        for input in 0..inputs {
            // SAFETY: within the vector.
            let one = unsafe { (all[0] as *const Vector).add(input).read() };
            if input > 0 {
                line.push(b';');
            }
            let count = one[1].saturating_sub(one[0]) / size_of::<i64>();
            for place in 0..count {
                if place > 0 {
                    line.push(b',');
                }
                // SAFETY: within the vector.
                line.number(unsafe { (one[0] as *const i64).add(place).read() });
            }
            if one[0] != 0 {
                // SAFETY: the vector's own memory, which nobody else knows.
                unsafe { (self.delete)(one[0]) };
            }
        }
        if all[0] != 0 {
            // SAFETY: as above.
            unsafe { (self.delete)(all[0]) };
        }
    }
}

/// Text that is cut where its room ends.
struct Text<'a> {
    room: &'a mut [u8],
    length: usize,
}

impl Text<'_> {
    fn push(&mut self, byte: u8) {
        if let Some(place) = self.room.get_mut(self.length) {
            *place = byte;
            self.length += 1;
        }
    }

    fn number(&mut self, number: i64) {
        if number < 0 {
            self.push(b'-');
        }
        let mut digits = [0; 20];
        let (mut rest, mut count) = (number.unsigned_abs(), 0);
        loop {
            digits[count] = b'0' + (rest % 10) as u8;
            (rest, count) = (rest / 10, count + 1);
            if rest == 0 {
                break;
            }
        }
        for digit in digits[..count].iter().rev() {
            self.push(*digit);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_and_cut() {
        let mut room = [0; 12];
        let mut text = Text {
            room: &mut room,
            length: 0,
        };
        for number in [0, -7, 1234] {
            text.number(number);
            text.push(b',');
        }
        text.number(i64::MIN);
        assert_eq!(&room, b"0,-7,1234,-9");
    }
}
