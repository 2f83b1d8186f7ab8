//! Fatbins inside host objects, programs and shared libraries.

use object::read::{Object, ObjectSection};

use super::{FatbinError, Wrapper};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SectionKind {
    /// `.nv_fatbin`: fatbins one after another, for [`super::Fatbin::parse`].
    Fatbin,
    /// `__nv_relfatbin`: the same, not yet linked.
    Relocatable,
    /// `.nvFatBinSegment`: wrappers.
    Wrappers,
}

/// A section of an ELF file that has to do with fatbins.
#[derive(Debug, Clone, Copy)]
pub struct Section<'a> {
    pub kind: SectionKind,
    /// Where it is mapped, before relocation.
    pub address: u64,
    pub data: &'a [u8],
}

impl Section<'_> {
    /// The wrappers of a `.nvFatBinSegment`.
    pub fn wrappers(&self) -> impl Iterator<Item = Wrapper> + '_ {
        let data = if self.kind == SectionKind::Wrappers {
            self.data
        } else {
            &[]
        };
        data.chunks_exact(Wrapper::SIZE)
            .filter_map(|chunk| Wrapper::parse(chunk).ok())
    }
}

/// The fatbin sections of an ELF file, in its order; none is no error.
pub fn sections(elf: &[u8]) -> Result<Vec<Section<'_>>, FatbinError> {
    let file = object::File::parse(elf)?;
    let mut found = Vec::new();
    for section in file.sections() {
        let kind = match section.name_bytes()? {
            b".nv_fatbin" => SectionKind::Fatbin,
            b"__nv_relfatbin" => SectionKind::Relocatable,
            b".nvFatBinSegment" => SectionKind::Wrappers,
            _ => continue,
        };
        found.push(Section {
            kind,
            address: section.address(),
            data: section.data()?,
        });
    }
    Ok(found)
}
