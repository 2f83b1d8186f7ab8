//! What stands for `remote` without the feature object-stores: an address is an error that says what to type.

use crate::{Added, Address, Checked, Compacted, Entry, Error, Expired, Lake, Result};
use analyse::Report;
use std::path::{Path, PathBuf};

/// Bytes that were moved, and of how many.
pub type Moved = Box<dyn FnMut(u64, u64)>;

/// There is none.
pub struct Remote(Never);

enum Never {}

impl Remote {
    pub fn identity(address: &Address) -> Result<String> {
        Err(Error::NoObjectStores(address.url()))
    }

    pub fn open(address: &Address, _cache: &Path, _moved: Moved) -> Result<Self> {
        Err(Error::NoObjectStores(address.url()))
    }

    pub fn listing(&self) -> Result<Lake> {
        match self.0 {}
    }

    pub fn bring(&self) -> Result<PathBuf> {
        match self.0 {}
    }

    pub fn add_with(
        &self,
        _path: &Path,
        _report: &mut dyn FnMut(&Path) -> Option<Report>,
        _tick: &mut dyn FnMut(u64),
    ) -> Result<Added> {
        match self.0 {}
    }

    pub fn compact(&self, _at_once: bool) -> Result<Compacted> {
        match self.0 {}
    }

    pub fn expire(&self, _which: &Expired) -> Result<Vec<Entry>> {
        match self.0 {}
    }

    pub fn check(&self, _rows: bool) -> Result<Checked> {
        match self.0 {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_an_error_that_says_what_to_type() {
        let address = Address::of(Path::new("s3://bucket/lake/run=a")).expect("an address");
        let said = Remote::identity(&address).expect_err("there is none");
        let said = said.to_string();
        assert!(said.starts_with("s3://bucket/lake/run=a: this cutrace was built without"));
        assert!(said.ends_with("--features object-stores"), "{said}");
    }
}
