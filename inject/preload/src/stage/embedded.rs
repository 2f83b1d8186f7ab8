//! Maps the engine, which is at the end of this library's own file, by hand: the loader cannot
//! be asked from within its own callback, and must not see the engine at all.
//!
//! The engine is linked to need nothing: segments to map, addresses to shift, an entry point.

use crate::layout::Enter;
use crate::objects::{self, Loader};
use crate::sys::{self, File};

/// The last bytes of the file: where the engine begins, and this.
const MAGIC: &[u8; 8] = b"CUTENGIN";
const PAGE: u64 = 4096;
const MAX_SEGMENTS: usize = 12;
const R_X86_64_RELATIVE: u64 = 8;
const DT_RELA: i64 = 7;
const DT_RELASZ: i64 = 8;

unsafe extern "C" {
    /// The linker's: where this library begins.
    static __ehdr_start: u8;
}

/// Where this library is mapped.
pub fn own_base() -> usize {
    &raw const __ehdr_start as usize
}

/// Maps the engine and returns its entry point.
///
/// # Safety
/// The loader's list must not change meanwhile.
pub unsafe fn map_engine(loader: *const Loader) -> Option<Enter> {
    let own = own_base();
    let this = unsafe { objects::objects(loader) }.find(|object| object.bias == own)?;
    let mut path = [0u8; 1024];
    let name = this.path();
    path.get_mut(..name.len())?.copy_from_slice(name);
    let file = File::open(path.get(..=name.len())?, libc::O_RDONLY, 0)?;
    let mut trailer = [0u8; 16];
    file.read_at(&mut trailer, file.size().checked_sub(16)?);
    let (begin, magic) = trailer.split_at(8);
    if magic != MAGIC {
        return None;
    }
    unsafe { map(&file, u64::from_le_bytes(begin.try_into().ok()?)) }
}

unsafe fn map(file: &File, begin: u64) -> Option<Enter> {
    let mut header = [0u8; size_of::<libc::Elf64_Ehdr>()];
    file.read_at(&mut header, begin);
    // SAFETY: plain numbers.
    let header: libc::Elf64_Ehdr = unsafe { core::mem::transmute(header) };
    let count = usize::from(header.e_phnum).min(MAX_SEGMENTS);
    let mut bytes = [0u8; MAX_SEGMENTS * size_of::<libc::Elf64_Phdr>()];
    let length = count * size_of::<libc::Elf64_Phdr>();
    file.read_at(&mut bytes[..length], begin + header.e_phoff);
    // SAFETY: plain numbers.
    let segments: [libc::Elf64_Phdr; MAX_SEGMENTS] = unsafe { core::mem::transmute(bytes) };
    let segments = &segments[..count];
    let loads = || {
        segments
            .iter()
            .filter(|segment| segment.p_type == libc::PT_LOAD)
    };
    let end = loads()
        .map(|segment| segment.p_vaddr + segment.p_memsz)
        .max()?;

    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: a fresh reservation, into which the segments go.
    let base = unsafe { sys::map(0, end as usize + 4096, libc::PROT_NONE, flags, None) }?;
    for segment in loads() {
        unsafe { map_segment(file, begin, base, segment) }?;
    }
    let dynamic = segments
        .iter()
        .find(|segment| segment.p_type == libc::PT_DYNAMIC)?;
    unsafe {
        relocate(
            base,
            (base + dynamic.p_vaddr as usize) as *const objects::Dynamic,
        )
    }?;
    let entry = base + header.e_entry as usize;
    // SAFETY: the engine's entry point has this type.
    Some(unsafe { core::mem::transmute::<usize, Enter>(entry) })
}

unsafe fn map_segment(
    file: &File,
    begin: u64,
    base: usize,
    segment: &libc::Elf64_Phdr,
) -> Option<()> {
    let skip = segment.p_vaddr % PAGE;
    let at = base + (segment.p_vaddr - skip) as usize;
    let mut protection = 0;
    for (flag, wanted) in [
        (libc::PF_R, libc::PROT_READ),
        (libc::PF_W, libc::PROT_WRITE),
        (libc::PF_X, libc::PROT_EXEC),
    ] {
        if segment.p_flags & flag != 0 {
            protection |= wanted;
        }
    }
    let in_file = (segment.p_filesz + skip) as usize;
    let fixed = libc::MAP_PRIVATE | libc::MAP_FIXED;
    if segment.p_filesz > 0 {
        let from = Some((file, begin + segment.p_offset - skip));
        // SAFETY: within the reservation.
        unsafe { sys::map(at, in_file, protection, fixed, from) }?;
    }
    let mapped = in_file.next_multiple_of(PAGE as usize);
    let total = (segment.p_memsz + skip) as usize;
    if segment.p_memsz > segment.p_filesz {
        // SAFETY: the rest of the last page, and pages after it, within the reservation.
        unsafe {
            let end_in_page = mapped.min(total);
            if segment.p_filesz > 0 {
                core::ptr::write_bytes((at + in_file) as *mut u8, 0, end_in_page - in_file);
            }
            if total > mapped {
                let more = total - mapped;
                sys::map(
                    at + mapped,
                    more,
                    protection,
                    fixed | libc::MAP_ANONYMOUS,
                    None,
                )?;
            }
        }
    }
    Some(())
}

/// Shifts addresses; anything but a shift means that the engine was not linked as it must be.
unsafe fn relocate(base: usize, dynamic: *const objects::Dynamic) -> Option<()> {
    let (mut table, mut bytes) = (0, 0);
    for index in 0..64 {
        let entry = unsafe { &*dynamic.add(index) };
        match entry.tag {
            0 => break,
            DT_RELA => table = base + entry.value,
            DT_RELASZ => bytes = entry.value,
            _ => {}
        }
    }
    let count = bytes / size_of::<libc::Elf64_Rela>();
    for index in 0..count {
        let relocation = unsafe { &*(table as *const libc::Elf64_Rela).add(index) };
        if relocation.r_info != R_X86_64_RELATIVE {
            return None;
        }
        let at = (base + relocation.r_offset as usize) as *mut usize;
        // SAFETY: within the engine's data.
        unsafe { at.write_unaligned(base.wrapping_add(relocation.r_addend as usize)) };
    }
    Some(())
}
