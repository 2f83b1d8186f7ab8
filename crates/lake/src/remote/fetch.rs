//! Objects become files of the cache: each under another name first, whole, then renamed.

use super::{
    cache::Cache,
    objects::{Found, Objects, PIECE, failed},
};
use crate::{Error, Result, aside::Aside};
use futures_util::{StreamExt, TryStreamExt};
use object_store::GetOptions;
use std::{cell::Cell, fs::File, io::Write, path::Path};

/// Objects on their way here at once.
const AT_ONCE: usize = 8;

impl Objects {
    /// Fetches objects into the cache. One that is gone meanwhile is `ObjectGone`.
    pub fn fetch(&self, cache: &Cache, wanted: &[Found]) -> Result<()> {
        if wanted.is_empty() {
            return Ok(());
        }
        let work = Aside::new(&cache.lake, "fetch")?;
        self.fetch_aside(&work.folder, wanted)?;
        for (number, found) in wanted.iter().enumerate() {
            cache.place(&aside(&work.folder, number), found)?;
        }
        Ok(())
    }

    /// Fetches objects into a folder, each under its number.
    pub fn fetch_aside(&self, folder: &Path, wanted: &[Found]) -> Result<()> {
        let of: u64 = wanted.iter().map(|found| found.bytes).sum();
        let done = Cell::new(0);
        let each = futures_util::stream::iter(wanted.iter().enumerate());
        let each = each.map(|(number, found)| {
            let done = &done;
            async move {
                let path = aside(folder, number);
                self.fetch_one(found, &path, &|bytes| {
                    done.set(done.get() + bytes);
                    self.show(done.get(), of);
                })
                .await
            }
        });
        let all = each.buffer_unordered(AT_ONCE).try_collect::<Vec<()>>();
        self.runtime.block_on(all).map(|_| ())
    }

    async fn fetch_one(&self, found: &Found, to: &Path, moved: &dyn Fn(u64)) -> Result<()> {
        let key = self.key(&found.file)?;
        let mut file = File::create(to).map_err(Error::write(to))?;
        let mut at = 0;
        while at < found.bytes {
            let end = found.bytes.min(at + PIECE as u64);
            let wrong =
                |why: object_store::Error| failed("read", &self.name(&found.file))(why.into());
            let range = GetOptions::new().with_range(Some(at..end));
            let got = match self.store.get_opts(&key, range).await {
                Err(object_store::Error::NotFound { .. }) => return Err(self.gone(&found.file)),
                other => other.map_err(wrong)?,
            };
            // It was replaced since it was listed.
            if got.meta.size != found.bytes {
                return Err(self.gone(&found.file));
            }
            let piece = got.bytes().await.map_err(wrong)?;
            file.write_all(&piece).map_err(Error::write(to))?;
            at = end;
            moved(piece.len() as u64);
        }
        Ok(())
    }
}

/// Where an object is until it has its name.
pub fn aside(folder: &Path, number: usize) -> std::path::PathBuf {
    folder.join(format!("{number}.fetched"))
}
