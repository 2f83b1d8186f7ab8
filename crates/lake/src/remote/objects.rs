//! The objects of a lake: listed, read, made, replaced, removed. Names are relative to the lake, as in its list.

use crate::{Error, Result};
use futures_util::{StreamExt, TryStreamExt};
use object_store::{
    ObjectStore, ObjectStoreExt, PutMode, PutOptions, PutPayload, UpdateVersion, WriteMultipart,
    path::Path as Key,
};
use std::{
    cell::RefCell,
    fs::File,
    io::Read,
    path::{Path, PathBuf},
    sync::Arc,
    time::SystemTime,
};
use tokio::runtime::{Builder, Runtime};

/// Bytes that were moved, and of how many.
pub type Moved = Box<dyn FnMut(u64, u64)>;

/// What is moved by one request: a slow line gets it through before the request's time is over.
pub const PIECE: usize = 8 << 20;
/// Pieces on their way to the store at once.
const PIECES: usize = 4;
/// Removals at once.
const REMOVALS: usize = 16;

/// An object that a listing named.
#[derive(Debug, Clone)]
pub struct Found {
    pub file: PathBuf,
    pub bytes: u64,
    pub changed: SystemTime,
    version: UpdateVersion,
}

pub struct Objects {
    pub url: String,
    pub store: Arc<dyn ObjectStore>,
    /// Ends in '/' unless it is empty.
    prefix: String,
    pub runtime: Runtime,
    pub moved: RefCell<Moved>,
}

impl Objects {
    pub fn new(url: &str, store: Arc<dyn ObjectStore>, prefix: &str, moved: Moved) -> Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build();
        let prefix = match prefix.trim_matches('/') {
            "" => String::new(),
            prefix => format!("{prefix}/"),
        };
        Ok(Objects {
            url: url.to_owned(),
            store,
            prefix,
            runtime: runtime.map_err(|source| failed("reach", url)(source.into()))?,
            moved: RefCell::new(moved),
        })
    }

    /// Everything in a folder; of the whole lake for the empty one.
    pub fn list(&self, folder: &Path) -> Result<Vec<Found>> {
        let key = self.key(folder)?;
        let whole = key.as_ref().is_empty();
        let found = self.store.list((!whole).then_some(&key));
        let found = self.runtime.block_on(found.try_collect::<Vec<_>>());
        let found = found.map_err(|why| failed("list", &self.name(folder))(why.into()))?;
        let relative = found.into_iter().filter_map(|found| {
            let file = found.location.as_ref().strip_prefix(&self.prefix)?;
            Some(Found {
                file: file.into(),
                bytes: found.size,
                changed: found.last_modified.into(),
                version: UpdateVersion {
                    e_tag: found.e_tag,
                    version: found.version,
                },
            })
        });
        Ok(relative.collect())
    }

    /// What is in a small object: `most` bytes at most; None if there is no such object.
    pub fn contents(&self, file: &Path, most: u64) -> Result<Option<Vec<u8>>> {
        let key = self.key(file)?;
        let name = self.name(file);
        let read = async {
            let got = match self.store.get(&key).await {
                Err(object_store::Error::NotFound { .. }) => return Ok(None),
                other => other.map_err(|why| failed("read", &name)(why.into()))?,
            };
            if got.meta.size > most {
                return Err(too_large(&name, got.meta.size));
            }
            let bytes = got.bytes().await;
            let bytes = bytes.map_err(|why| failed("read", &name)(why.into()))?;
            Ok(Some(bytes.to_vec()))
        };
        self.runtime.block_on(read)
    }

    /// Writes a file of this machine into the store; `done` of `of` bytes were moved before.
    pub fn upload(&self, from: &Path, to: &Path, done: &mut u64, of: u64) -> Result<()> {
        let key = self.key(to)?;
        let name = self.name(to);
        let mut file = File::open(from).map_err(Error::read(from))?;
        let mut next = || -> Result<Vec<u8>> {
            let mut piece = Vec::new();
            let most = (&mut file).take(PIECE as u64).read_to_end(&mut piece);
            most.map_err(Error::read(from))?;
            *done += piece.len() as u64;
            self.show(*done, of);
            Ok(piece)
        };
        let wrong = |why: object_store::Error| failed("write", &name)(why.into());
        let write = async {
            let first = next()?;
            if first.len() < PIECE {
                let put = self.store.put(&key, first.into()).await;
                return put.map(|_| ()).map_err(wrong);
            }
            let upload = self.store.put_multipart(&key).await.map_err(wrong)?;
            let mut upload = WriteMultipart::new_with_chunk_size(upload, PIECE);
            let mut piece = first;
            while !piece.is_empty() {
                if let Err(why) = upload.wait_for_capacity(PIECES).await {
                    let _ = upload.abort().await;
                    return Err(wrong(why));
                }
                upload.put(piece.into());
                piece = match next() {
                    Ok(piece) => piece,
                    Err(why) => {
                        let _ = upload.abort().await;
                        return Err(why);
                    }
                };
            }
            upload.finish().await.map(|_| ()).map_err(wrong)
        };
        self.runtime.block_on(write)
    }

    /// Makes an object; false if there is one of this name already.
    pub fn create(&self, file: &Path, bytes: &[u8]) -> Result<bool> {
        match self.put(file, bytes, PutMode::Create) {
            Ok(()) => Ok(true),
            Err(object_store::Error::AlreadyExists { .. }) => Ok(false),
            // A store without conditions: the last writer's entry counts, and lists its own files.
            Err(object_store::Error::NotImplemented { .. }) => {
                let key = self.key(file)?;
                match self.runtime.block_on(self.store.head(&key)) {
                    Ok(_) => Ok(false),
                    Err(object_store::Error::NotFound { .. }) => {
                        self.overwrite(file, bytes).map(|()| true)
                    }
                    Err(why) => Err(failed("read", &self.name(file))(why.into())),
                }
            }
            Err(why) => Err(failed("write", &self.name(file))(why.into())),
        }
    }

    /// Replaces an object by newer contents, if it is still the one that was found.
    pub fn replace(&self, found: &Found, bytes: &[u8]) -> Result<()> {
        match self.put(&found.file, bytes, PutMode::Update(found.version.clone())) {
            Ok(()) => Ok(()),
            Err(object_store::Error::Precondition { .. }) => Err(Error::Busy((&self.url).into())),
            Err(object_store::Error::NotImplemented { .. }) => self.overwrite(&found.file, bytes),
            Err(why) => Err(failed("write", &self.name(&found.file))(why.into())),
        }
    }

    fn overwrite(&self, file: &Path, bytes: &[u8]) -> Result<()> {
        let put = self.put(file, bytes, PutMode::Overwrite);
        put.map_err(|why| failed("write", &self.name(file))(why.into()))
    }

    fn put(&self, file: &Path, bytes: &[u8], mode: PutMode) -> object_store::Result<()> {
        let key = Key::parse(format!("{}{}", self.prefix, file.display()))?;
        let options = PutOptions::from(mode);
        let payload = PutPayload::from(bytes.to_vec());
        let put = self.store.put_opts(&key, payload, options);
        self.runtime.block_on(put).map(|_| ())
    }

    /// Removes objects; how many were there.
    pub fn remove<'a>(&self, files: impl IntoIterator<Item = &'a PathBuf>) -> Result<usize> {
        let keys = files.into_iter().map(|file| Ok((file, self.key(file)?)));
        let keys = keys.collect::<Result<Vec<_>>>()?;
        let removals = futures_util::stream::iter(keys).map(|(file, key)| async move {
            // S3 does not say whether there was one.
            match self.store.delete(&key).await {
                Ok(()) => Ok(1_usize),
                Err(object_store::Error::NotFound { .. }) => Ok(0),
                Err(why) => Err(failed("remove", &self.name(file))(why.into())),
            }
        });
        let counts = removals.buffer_unordered(REMOVALS).try_collect::<Vec<_>>();
        Ok(self.runtime.block_on(counts)?.into_iter().sum())
    }

    pub fn key(&self, file: &Path) -> Result<Key> {
        let text = format!("{}{}", self.prefix, file.display());
        let key = Key::parse(text.trim_end_matches('/'));
        key.map_err(|why| failed("name", &self.name(file))(why.into()))
    }

    /// An object's address.
    pub fn name(&self, file: &Path) -> String {
        match file.as_os_str().is_empty() {
            true => self.url.clone(),
            false => format!("{}/{}", self.url, file.display()),
        }
    }

    pub fn gone(&self, file: &Path) -> Error {
        Error::ObjectGone(self.name(file), self.url.clone())
    }

    pub fn show(&self, done: u64, of: u64) {
        (self.moved.borrow_mut())(done, of);
    }
}

type Source = Box<dyn std::error::Error + Send + Sync>;

pub fn failed(verb: &'static str, url: &str) -> impl FnOnce(Source) -> Error {
    let url = url.to_owned();
    move |source| Error::Store { verb, url, source }
}

pub fn too_large(url: &str, bytes: u64) -> Error {
    Error::BadEntry {
        url: url.to_owned(),
        why: format!("it has {bytes} bytes"),
    }
}
