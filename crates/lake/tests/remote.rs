//! A lake in an object store: added to, added to twice, after crashes, compacted, expired, checked, and with hostile names in it. The
//! stores are memory; tests/lake/objects has a real S3 server.
#![cfg(feature = "object-stores")]

mod common;

use common::{fixture, repeated};
use futures_util::{StreamExt, TryStreamExt, stream::BoxStream};
use lake::{Added, Address, Error, Expired, Lake, Remote, Sizes};
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    ObjectStoreExt, PutMultipartOptions, PutOptions, PutPayload, PutResult, memory::InMemory,
    path::Path as Key,
};
use std::{
    fmt::{self, Display},
    fs,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

const PREFIX: &str = "team/lake";

/// Another recording of the same run.
fn another(folder: &Path, seconds: u64) -> PathBuf {
    common::another(folder, seconds, Some("exp7"))
}

/// One machine: its own cache, the same store.
struct Machine {
    cache: tempfile::TempDir,
    store: Arc<dyn ObjectStore>,
}

impl Machine {
    fn new(store: &Arc<dyn ObjectStore>) -> Self {
        Machine {
            cache: tempfile::tempdir().expect("a folder"),
            store: store.clone(),
        }
    }

    fn remote(&self, within: &str) -> Remote {
        let address = Address {
            lake: format!("memory://x/{PREFIX}"),
            within: within.into(),
        };
        let moved = Box::new(|_, _| {});
        let cache = self.cache.path().join("cache");
        Remote::with_store(&address, self.store.clone(), PREFIX, &cache, moved).expect("a lake")
    }

    fn add(&self, trace: &Path) -> Added {
        let added = (self.remote("")).add_with(trace, &mut |_| None, &mut |_| {});
        added.expect("added")
    }

    /// Names of traces, rows, and what is wrong.
    fn state(&self) -> (usize, u64, Vec<String>, usize) {
        let checked = self.remote("").check(true).expect("checked");
        let unlisted = checked.unlisted.len() + checked.foreign.len();
        (checked.traces, checked.rows, checked.broken, unlisted)
    }

    fn put(&self, name: &str, bytes: &[u8]) {
        let key = Key::parse(format!("{PREFIX}/{name}")).expect("a name");
        let put = self.store.put(&key, bytes.to_vec().into());
        run(put).expect("written");
    }

    fn remove(&self, name: &str) {
        let key = Key::parse(format!("{PREFIX}/{name}")).expect("a name");
        run(self.store.delete(&key)).expect("removed");
    }
}

/// A store with something wrong.
#[derive(Debug)]
struct Faulty {
    inner: Arc<dyn ObjectStore>,
    faults: Arc<Faults>,
}

#[derive(Debug)]
struct Faults {
    /// A process loses the store after so many changes, as if it were killed.
    left: AtomicUsize,
    changes: Mutex<Vec<String>>,
    /// Parquet files are listed as so much older than they are.
    age: Duration,
    /// Listings that do not have compactions yet.
    unseen: AtomicUsize,
}

impl Default for Faults {
    fn default() -> Self {
        Faults {
            left: AtomicUsize::new(usize::MAX),
            changes: Mutex::default(),
            age: Duration::ZERO,
            unseen: AtomicUsize::new(0),
        }
    }
}

impl Faulty {
    fn new(inner: &Arc<dyn ObjectStore>, faults: Faults) -> Arc<Self> {
        Arc::new(Faulty {
            inner: inner.clone(),
            faults: Arc::new(faults),
        })
    }

    fn dying(changes: usize, inner: &Arc<dyn ObjectStore>) -> Arc<dyn ObjectStore> {
        let left = AtomicUsize::new(changes);
        Faulty::new(
            inner,
            Faults {
                left,
                ..Faults::default()
            },
        )
    }
}

impl Faults {
    fn change(&self, key: &Key) -> object_store::Result<()> {
        let left = self.left.load(Ordering::Relaxed);
        let Some(fewer) = left.checked_sub(1) else {
            return Err(object_store::Error::Generic {
                store: "faulty",
                source: "killed".into(),
            });
        };
        self.left.store(fewer, Ordering::Relaxed);
        self.changes.lock().expect("a list").push(key.to_string());
        Ok(())
    }
}

impl Display for Faulty {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "faulty {}", self.inner)
    }
}

#[async_trait::async_trait]
impl ObjectStore for Faulty {
    async fn put_opts(
        &self,
        key: &Key,
        payload: PutPayload,
        options: PutOptions,
    ) -> object_store::Result<PutResult> {
        self.faults.change(key)?;
        self.inner.put_opts(key, payload, options).await
    }

    async fn put_multipart_opts(
        &self,
        key: &Key,
        options: PutMultipartOptions,
    ) -> object_store::Result<Box<dyn MultipartUpload>> {
        self.faults.change(key)?;
        self.inner.put_multipart_opts(key, options).await
    }

    async fn get_opts(&self, key: &Key, options: GetOptions) -> object_store::Result<GetResult> {
        self.inner.get_opts(key, options).await
    }

    fn delete_stream(
        &self,
        keys: BoxStream<'static, object_store::Result<Key>>,
    ) -> BoxStream<'static, object_store::Result<Key>> {
        let faults = self.faults.clone();
        let keys = keys.and_then(move |key| {
            let changed = faults.change(&key);
            async move { changed.map(|()| key) }
        });
        self.inner.delete_stream(keys.boxed())
    }

    fn list(&self, prefix: Option<&Key>) -> BoxStream<'static, object_store::Result<ObjectMeta>> {
        let age = self.faults.age;
        let older = move |mut found: ObjectMeta| {
            if found.location.as_ref().ends_with(".parquet") {
                found.last_modified -= age;
            }
            found
        };
        let unseen =
            (self.faults.unseen).fetch_update(Ordering::Relaxed, Ordering::Relaxed, |unseen| {
                unseen.checked_sub(1)
            });
        let is_seen = move |found: &object_store::Result<ObjectMeta>| {
            let name = found.as_ref().map_or("", |found| found.location.as_ref());
            let is_seen = unseen.is_err() || !name.contains("/compact-");
            std::future::ready(is_seen)
        };
        let listed = self.inner.list(prefix).filter(is_seen);
        listed.map_ok(older).boxed()
    }

    async fn list_with_delimiter(&self, prefix: Option<&Key>) -> object_store::Result<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(
        &self,
        from: &Key,
        to: &Key,
        options: CopyOptions,
    ) -> object_store::Result<()> {
        self.faults.change(to)?;
        self.inner.copy_opts(from, to, options).await
    }
}

fn run<F: Future>(what: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    runtime.expect("a runtime").block_on(what)
}

fn memory() -> Arc<dyn ObjectStore> {
    Arc::new(InMemory::new())
}

fn entry_name(added: &Added) -> String {
    format!("_manifest/{}.json", added.entry().name)
}

#[test]
fn what_one_machine_adds_another_reads() {
    let store = memory();
    let (here, there) = (Machine::new(&store), Machine::new(&store));
    assert!(matches!(there.remote("").bring(), Err(Error::NotALake(_))));
    let Added::New(entry) = here.add(&fixture()) else {
        panic!("it is new");
    };
    assert_eq!(here.add(&fixture()), Added::Known(entry.clone()));
    assert_eq!(there.add(&fixture()), Added::Known(entry.clone()));
    let listed = there.remote("").listing().expect("listed");
    assert_eq!(listed.entries().expect("read"), vec![entry.clone()]);
    let lake = Lake::open(there.remote("").bring().expect("here")).expect("a lake");
    let checked = lake::check(&lake, true).expect("checked");
    assert!(checked.is_whole() && checked.rows == entry.rows && checked.rows > 100);
    assert_eq!(there.state(), (1, entry.rows, Vec::new(), 0));
}

#[test]
fn a_part_of_a_lake_is_fetched_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = memory();
    let here = Machine::new(&store);
    let one = here.add(&fixture()).entry().clone();
    let two = here.add(&another(folder.path(), 60)).entry().clone();
    let there = Machine::new(&store);
    let path = there.remote("run=exp7").bring().expect("here");
    assert!(path.ends_with("run=exp7"), "{}", path.display());
    let root = path.parent().expect("a lake");
    assert!(root.join(&two.files[0]).is_file() && !root.join(&one.files[0]).exists());
    let (_, entries) = Lake::part(&path).expect("in a lake").expect("read");
    assert_eq!(entries, [two]);
    let single = there.remote(&entry_name(&Added::Known(one.clone())));
    assert!(single.bring().expect("here").is_file());
    assert!(root.join(&one.files[0]).is_file());
    let missing = there.remote("run=other").bring();
    assert!(matches!(missing, Err(Error::NoSuchPart(..))), "{missing:?}");
}

#[test]
fn an_entry_comes_after_its_files() {
    let store = memory();
    let faulty = Faulty::new(&store, Faults::default());
    let watched: Arc<dyn ObjectStore> = faulty.clone();
    let entry = Machine::new(&watched).add(&fixture()).entry().clone();
    let changes = faulty.faults.changes.lock().expect("a list").clone();
    let files = entry.files.len() + entry.tables.len();
    assert_eq!(changes.len(), files + 1, "{changes:?}");
    assert!(changes[files].contains("/_manifest/"), "{changes:?}");
}

#[test]
fn a_writer_killed_at_any_point_leaves_a_whole_lake() {
    let store = memory();
    let healthy = Machine::new(&store);
    let mut killed = 0;
    loop {
        let dying = Faulty::dying(killed, &store);
        let writer = Machine::new(&dying);
        let added = (writer.remote("")).add_with(&fixture(), &mut |_| None, &mut |_| {});
        if added.is_ok() {
            break;
        }
        let bring = healthy.remote("").bring();
        assert!(matches!(bring, Err(Error::NotALake(_))), "{bring:?}");
        killed += 1;
    }
    // Each file, and the entry.
    assert_eq!(killed, 4);
    let (traces, rows, broken, unlisted) = healthy.state();
    assert!(traces == 1 && rows > 100 && broken.is_empty());
    assert_eq!(unlisted, 1 + 2 + 3);
    // They are young: their writer may be about to list them.
    let done = healthy.remote("").compact(true).expect("compacted");
    assert_eq!((done.removed, healthy.state().3), (0, 6));
}

#[test]
fn what_killed_writers_left_goes_a_day_later() {
    let store = memory();
    let dying = Faulty::dying(2, &store);
    let writer = Machine::new(&dying);
    let killed = (writer.remote("")).add_with(&fixture(), &mut |_| None, &mut |_| {});
    assert!(killed.is_err());
    let here = Machine::new(&store);
    let rows = here.add(&fixture()).entry().rows;
    assert_eq!(here.state(), (1, rows, Vec::new(), 2));
    for (hours, removed) in [(23, 0), (25, 2)] {
        let age = Duration::from_secs(hours * 3600);
        let faults = Faults {
            age,
            ..Faults::default()
        };
        let later: Arc<dyn ObjectStore> = Faulty::new(&store, faults);
        let done = Machine::new(&later).remote("").compact(true);
        assert_eq!(done.expect("compacted").removed, removed, "{hours}");
    }
    assert_eq!(here.state(), (1, rows, Vec::new(), 0));
}

#[test]
fn a_compaction_and_an_expiry_killed_at_any_point_leave_a_whole_lake() {
    let folder = tempfile::tempdir().expect("a folder");
    let traces = [60, 120, 180].map(|seconds| another(folder.path(), seconds));
    for killed in 0..60 {
        let store = memory();
        let healthy = Machine::new(&store);
        let mut rows = 0;
        for trace in &traces {
            rows += healthy.add(trace).entry().rows;
        }
        let one = rows / 3;
        let dying = Faulty::dying(killed, &store);
        let writer = Machine::new(&dying);
        let compacted = writer.remote("").compact(true);
        let (traces, found, broken, _) = healthy.state();
        assert_eq!((traces, found, broken), (3, rows, Vec::new()), "{killed}");
        let entries = (healthy.remote("").listing().expect("listed")).entries();
        let which = Expired {
            before_ns: Some(entries.expect("read")[0].end_ns + 1),
            runs: None,
        };
        let expired = writer.remote("").expire(&which);
        let (traces, found, broken, _) = healthy.state();
        let gone = 3 - traces as u64;
        assert!(gone <= 1 && broken.is_empty(), "{killed}: {broken:?}");
        assert_eq!(found, rows - gone * one, "{killed}");
        // What was begun can be ended.
        healthy.remote("").compact(true).expect("compacted");
        healthy.remote("").expire(&which).expect("expired");
        assert_eq!(healthy.state().1, rows - one, "{killed}");
        if compacted.is_ok() && expired.is_ok() {
            assert!(killed > 10, "{killed}");
            return;
        }
    }
    panic!("it never ends");
}

#[test]
fn two_writers_of_one_recording() {
    let store = memory();
    let machines = [(); 4].map(|()| Machine::new(&store));
    let added = std::thread::scope(|scope| {
        let each = machines
            .iter()
            .map(|machine| scope.spawn(|| machine.add(&fixture())));
        let each: Vec<_> = each.collect();
        each.into_iter()
            .map(|thread| thread.join().expect("added"))
            .collect::<Vec<_>>()
    });
    let new = added.iter().filter(|one| matches!(one, Added::New(_)));
    assert_eq!(new.count(), 1);
    let rows = added[0].entry().rows;
    assert_eq!(machines[0].state(), (1, rows, Vec::new(), 0));
}

#[test]
fn small_files_become_one_and_old_recordings_go() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = memory();
    let here = Machine::new(&store);
    let mut rows = 0;
    for seconds in [60, 120, 180] {
        rows += here.add(&another(folder.path(), seconds)).entry().rows;
    }
    let there = Machine::new(&store);
    let done = there.remote("").compact(false).expect("compacted");
    assert_eq!((done.files_before, done.files_after), (3, 1));
    assert_eq!(here.state(), (3, rows, Vec::new(), 0));
    // Adding one again: a compaction lists it.
    let known = here.add(&another(folder.path(), 120));
    assert!(matches!(known, Added::Known(_)), "{known:?}");
    let done = here.remote("").compact(true).expect("compacted");
    assert_eq!((done.files_before, done.removed), (0, 9));
    assert_eq!(here.state(), (3, rows, Vec::new(), 0));
    // A file that is gone, and one of another size.
    let entries = (here.remote("").listing().expect("listed")).entries();
    let entries = entries.expect("read");
    let which = Expired {
        before_ns: Some(entries[0].end_ns + 1),
        runs: None,
    };
    let gone = here.remote("").expire(&which).expect("removed");
    assert_eq!(gone.len(), 1);
    let left = rows - gone[0].rows;
    assert_eq!(there.state(), (2, left, Vec::new(), 0));
    let lake = Lake::open(there.remote("").bring().expect("here")).expect("a lake");
    assert!(lake::check(&lake, true).expect("checked").is_whole());
    let all = Expired {
        before_ns: None,
        runs: Some("exp*".into()),
    };
    assert_eq!(here.remote("").expire(&all).expect("removed").len(), 2);
    assert!(matches!(there.remote("").bring(), Err(Error::NotALake(_))));
    let left = run(store.list(None).try_collect::<Vec<_>>());
    // What compactions had replaced goes with them.
    assert_eq!(left.expect("listed").len(), 0);
}

#[test]
fn a_compaction_may_come_between_the_pages_of_a_listing() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = memory();
    let here = Machine::new(&store);
    let mut rows = here.add(&fixture()).entry().rows;
    for seconds in [60, 120] {
        rows += here.add(&another(folder.path(), seconds)).entry().rows;
    }
    let done = here.remote("").compact(false).expect("compacted");
    assert_eq!(done.files_after, 1);
    // The page with the entries came after the compaction, the one with compactions before.
    let faults = Faults {
        unseen: AtomicUsize::new(1),
        ..Faults::default()
    };
    let paged: Arc<dyn ObjectStore> = Faulty::new(&store, faults);
    assert_eq!(Machine::new(&paged).state(), (3, rows, Vec::new(), 0));
}

#[test]
fn large_files_are_uploaded_and_fetched_in_pieces() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = memory();
    let here = Machine::new(&store);
    let entry = here.add(&fixture()).entry().clone();
    // Larger than a piece: whatever is in it.
    let file = entry.files[0].to_str().expect("a name").to_owned();
    let long: Vec<u8> = (0..20_000_000u32).map(|at| (at >> 8) as u8).collect();
    here.put(&file, &long);
    let there = Machine::new(&store);
    let root = there.remote("").bring().expect("here");
    assert!(fs::read(root.join(&file)).expect("read") == long);
    // It is newer than what the first machine had.
    let again = here.remote("").bring().expect("here");
    assert_eq!(
        fs::metadata(again.join(&file)).expect("there").len(),
        20_000_000
    );
    let checked = here.remote("").check(false).expect("checked");
    assert!(checked.broken[0].contains("were written"), "{checked:?}");
    here.remove(&file);
    let checked = here.remote("").check(false).expect("checked");
    assert!(checked.broken[0].contains("no such object"), "{checked:?}");
    let gone = Machine::new(&store).remote("").bring();
    assert!(matches!(gone, Err(Error::ObjectGone(..))), "{gone:?}");
    drop(folder);
}

#[test]
fn names_in_the_list_do_not_lead_out_of_the_cache() {
    let store = memory();
    let here = Machine::new(&store);
    let added = here.add(&fixture());
    let good = serde_json::to_value(added.entry()).expect("an entry");
    let name = entry_name(&added);
    for file in [
        "../../outside.parquet",
        "/etc/outside.parquet",
        "run=a/../../outside.parquet",
        "_manifest/x.parquet",
        "_unfinished/x.parquet",
        "run=a/x.json",
        "run=a/x\n.parquet",
        "lock",
        "",
    ] {
        let mut bad = good.clone();
        bad["files"] = serde_json::json!([file]);
        refused(&here, &name, &bad, file);
        let mut bad = good.clone();
        bad["tables"]["runs"] = file.into();
        refused(&here, &name, &bad, file);
        here.put(&name, good.to_string().as_bytes());
        let compaction = serde_json::json!({ "entries": [good], "replaced": [file], "at_ns": 1 });
        refused(&here, "_manifest/compact-1.json", &compaction, file);
        here.remove("_manifest/compact-1.json");
    }
    for called in ["../x", "a/b", "..", "", "compact-x", "other"] {
        let mut bad = good.clone();
        bad["name"] = called.into();
        refused(&here, &name, &bad, called);
    }
    for text in ["", "{}", "[1, 2", "null", "{\"entries\": 5}"] {
        here.put(&name, text.as_bytes());
        let found = here.remote("").bring();
        assert!(matches!(found, Err(Error::BadEntry { .. })), "{found:?}");
    }
    assert!(!here.cache.path().join("outside.parquet").exists());
    here.put(&name, good.to_string().as_bytes());
    here.remote("").bring().expect("good again");
}

fn refused(machine: &Machine, name: &str, what: &serde_json::Value, why: &str) {
    machine.put(name, what.to_string().as_bytes());
    let found = machine.remote("").bring();
    assert!(
        matches!(found, Err(Error::BadEntry { .. })),
        "{why}: {found:?}"
    );
    let there = fs::read_dir(machine.cache.path()).expect("read").count();
    assert!(there <= 1, "{why}");
}

#[test]
fn a_large_recording_has_several_files() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = memory();
    let here = Machine::new(&store);
    let sizes = Sizes {
        file_bytes: 60_000,
        group_rows: 1_000,
    };
    let remote = here.remote("").with_sizes(sizes);
    let trace = repeated(folder.path(), 80);
    let added = remote.add_with(&trace, &mut |_| None, &mut |_| {});
    let entry = added.expect("added").entry().clone();
    assert!(entry.files.len() > 1, "{:?}", entry.files);
    assert_eq!(here.state(), (1, entry.rows, Vec::new(), 0));
}
