//! What traced processes say of themselves: their programs, clocks, libraries and functions.
//!
//! A process appends lines to `process.PID.STARTTIME`. An exec keeps the file and begins again
//! with a new `process` line: each such line opens an image with tables of its own. One that may not
//! write there any more says the same lines by way of its rings.

use super::clock::TscClock;
use super::folder::open_left;
use super::namespace::Namespaces;
use crate::call::{Named, loaded::Objects};
use crate::process_name;
use event::ring::{ARGUMENT_END, NEWLINE};
use event::{ClockMap, ClockPair, ClockRules, Name};
use std::collections::{BTreeMap, HashMap};
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

/// Bounds on what a damaged or hostile file makes us keep.
const MOST_BYTES: u64 = 256 << 20;
const LONGEST_LINE: usize = 8 << 10;
const MOST_IMAGES: usize = 4096;
const MOST_CLOCKS: usize = 1024;
const MOST_LIBRARIES: usize = 4096;
const MOST_NOTES: usize = 64;
/// Parents looked through for what a forked child has inherited.
const MOST_ANCESTORS: usize = 64;

/// One program image in one process.
#[derive(Debug, Clone, Default)]
pub struct Image {
    pub pid: u32,
    pub parent: u32,
    pub exe: String,
    /// Its command line; empty in children that have their parent's.
    command: Vec<String>,
    /// The PID namespace that it is in; 0: unknown.
    namespace: u64,
    tsc_hz: u64,
    clocks: Vec<ClockPair>,
    pub libraries: BTreeMap<u32, Library>,
    functions: HashMap<u16, (u32, Name)>,
    pub notes: Vec<String>,
    /// What there is to say of its libraries: of which kind, and what of.
    pub abouts: Vec<(String, String)>,
    /// Nanoseconds that recording adds to a call, as the process measured it.
    pub cost: Option<f64>,
    /// What its addresses mean, if stacks are wanted.
    pub objects: Objects,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Library {
    pub path: String,
    pub method: String,
    pub hooked: u64,
    pub exported: u64,
    /// Functions that were left alone, by reason.
    pub skipped: BTreeMap<String, u64>,
}

impl Library {
    /// Without its folder.
    pub fn short_name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }
}

/// Whose time a process's records are in.
#[derive(Debug, Clone)]
pub enum TimeSource {
    /// The machine's TSC.
    Tsc,
    /// CLOCK_MONOTONIC itself, where the TSC is not usable.
    Host,
    /// Something else that its pairs describe.
    Own(Box<ClockMap>),
}

#[derive(Debug)]
pub struct Processes {
    folder: PathBuf,
    namespaces: Namespaces,
    files: HashMap<PathBuf, LineReader>,
    /// Lines that came by way of rings: by the file of these, and by the process.
    said: HashMap<(usize, u32), LineReader>,
    images: Vec<Image>,
}

impl Processes {
    pub fn new(folder: &Path, namespaces: Namespaces) -> Self {
        Processes {
            folder: folder.to_owned(),
            namespaces,
            files: HashMap::new(),
            said: HashMap::new(),
            images: Vec::new(),
        }
    }

    /// Reads what has been written since the last time.
    pub fn refresh(&mut self) {
        let Ok(entries) = std::fs::read_dir(&self.folder) else {
            return;
        };
        let known = self.images.len();
        for entry in entries.flatten() {
            if entry
                .file_name()
                .as_encoded_bytes()
                .starts_with(b"process.")
            {
                let path = entry.path();
                let mut reader = self.files.remove(&path).unwrap_or_default();
                reader.read(&path, &mut self.images);
                self.files.insert(path, reader);
            }
        }
        self.renumber(known, None);
    }

    /// Lines that a process said by way of the rings of `owner`: itself, or an ancestor whose rings
    /// it has.
    pub fn said(&mut self, file: usize, owner: u32, pid: u32, lines: &[u8]) {
        let images = &mut self.images;
        let known = images.len();
        let reader = self.said.entry((file, pid)).or_insert_with(|| LineReader {
            image: images.iter().rposition(|image| image.pid == owner),
            ..LineReader::default()
        });
        reader.lines(lines, images);
        self.renumber(known, Some(owner));
    }

    /// Gives images from `known` on the numbers that their processes have here.
    fn renumber(&mut self, known: usize, owner: Option<u32>) {
        for image in self.images.iter_mut().skip(known) {
            let translated = self.namespaces.process(image.namespace, image.pid);
            if let Some((pid, parent)) = translated {
                (image.pid, image.parent) = (pid, parent);
            }
            // Nobody is the parent of a namespace's first process, by its own word; and one that is gone
            // before it was looked at knows its parent by a number of its namespace's.
            let unknown = image.parent == 0 || translated.is_none();
            if let Some(owner) = owner.filter(|owner| unknown && image.pid != *owner) {
                image.parent = owner;
            }
        }
    }

    pub fn images(&self) -> &[Image] {
        &self.images
    }

    /// The image that process had at a moment of its own clock: the last that began before.
    pub fn image_at(&self, pid: u32, time: u64) -> Option<usize> {
        let of_process = || (0..self.images.len()).filter(|place| self.images[*place].pid == pid);
        let began = |place: &usize| self.images[*place].clocks.first().map(|pair| pair.source);
        of_process()
            .filter(|place| began(place).is_some_and(|began| began <= time))
            .max_by_key(began)
            .or_else(|| of_process().next())
    }

    /// A function by its number. A child has what its parent had when it was forked.
    pub fn function(&self, image: usize, id: u16) -> Option<Named> {
        let mut image = self.images.get(image)?;
        for _ in 0..MOST_ANCESTORS {
            if let Some((library, name)) = image.functions.get(&id) {
                let library = image.libraries.get(library);
                return Some(Named {
                    name: name.clone(),
                    library: library.map(|library| library.path.clone()),
                });
            }
            let parent = self.image_at(image.parent, image.clocks.first()?.source)?;
            image = self.images.get(parent)?;
        }
        None
    }

    /// The command line of an image. A forked child has its parent's.
    pub fn command(&self, image: usize) -> &[String] {
        let mut place = Some(image);
        for _ in 0..MOST_ANCESTORS {
            let Some(image) = place.and_then(|place| self.images.get(place)) else {
                break;
            };
            if !image.command.is_empty() {
                return &image.command;
            }
            let began = image.clocks.first().map(|pair| pair.source);
            place = began.and_then(|began| self.image_at(image.parent, began));
        }
        &[]
    }

    /// Whose time that image's records are in, by what it says of its clock.
    pub fn time_source(&self, image: usize, tsc: &TscClock) -> TimeSource {
        const NEAR: u64 = 1_000_000_000;
        let Some(image) = self.images.get(image) else {
            return TimeSource::Tsc;
        };
        match image.clocks.first() {
            None => TimeSource::Tsc,
            Some(pair) if tsc.at(pair.source).abs_diff(pair.host) < NEAR => TimeSource::Tsc,
            Some(pair) if pair.source.abs_diff(pair.host) < NEAR => TimeSource::Host,
            Some(_) => {
                let rules = ClockRules {
                    nominal_rate: Some(1e9 / image.tsc_hz.max(1) as f64),
                    kept: MOST_CLOCKS,
                    ..ClockRules::NOISY
                };
                TimeSource::Own(Box::new(ClockMap::through(rules, &image.clocks)))
            }
        }
    }
}

/// Whole lines of a file that is being written.
#[derive(Debug, Default)]
struct LineReader {
    read: u64,
    rest: Vec<u8>,
    /// The image its lines are about.
    image: Option<usize>,
}

impl LineReader {
    fn read(&mut self, path: &Path, images: &mut Vec<Image>) {
        let Ok(mut file) = open_left(path, false) else {
            return;
        };
        if file.seek(SeekFrom::Start(self.read)).is_err() {
            return;
        }
        let mut chunk = [0; 64 << 10];
        while self.read < MOST_BYTES {
            match file.read(&mut chunk) {
                Ok(0) | Err(_) => return,
                Ok(count) => {
                    self.read += count as u64;
                    self.lines(&chunk[..count], images);
                }
            }
        }
    }

    fn lines(&mut self, mut bytes: &[u8], images: &mut Vec<Image>) {
        while let Some(end) = bytes.iter().position(|byte| *byte == b'\n') {
            self.rest.extend_from_slice(&bytes[..end]);
            let line = std::mem::take(&mut self.rest);
            if line.len() <= LONGEST_LINE {
                self.line(&String::from_utf8_lossy(&line), images);
            }
            bytes = &bytes[end + 1..];
        }
        // Of a line without an end only as much is kept as shows that it is too long.
        let room = (LONGEST_LINE + 1).saturating_sub(self.rest.len());
        self.rest.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }

    fn line(&mut self, line: &str, images: &mut Vec<Image>) {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        if word == "process" && images.len() < MOST_IMAGES {
            self.image = Some(images.len());
            images.push(Image::from_line(rest));
        } else if let Some(image) = self.image.and_then(|place| images.get_mut(place)) {
            image.line(word, rest);
        }
    }
}

impl Image {
    fn from_line(text: &str) -> Self {
        let mut image = Image::default();
        for (key, value) in pairs(text, "exe") {
            match key {
                "pid" => image.pid = value.parse().unwrap_or(0),
                "ppid" => image.parent = value.parse().unwrap_or(0),
                "ns" => image.namespace = value.parse().unwrap_or(0),
                "tsc_hz" => image.tsc_hz = value.parse().unwrap_or(0),
                "exe" => image.exe = value.to_owned(),
                _ => {}
            }
        }
        image
    }

    /// Lines that make no sense, or too many of them, are left out: names are missing then,
    /// never events.
    fn line(&mut self, word: &str, rest: &str) -> Option<()> {
        match word {
            "clock" if self.clocks.len() < MOST_CLOCKS => {
                let (source, host) = rest.split_once(' ')?;
                self.clocks.push(ClockPair {
                    source: source.parse().ok()?,
                    host: host.trim().parse().ok()?,
                    margin: 0,
                });
            }
            "library" if self.libraries.len() < MOST_LIBRARIES => {
                let (index, rest) = rest.split_once(' ')?;
                let library = self.libraries.entry(index.parse().ok()?).or_default();
                for (key, value) in pairs(rest, "path") {
                    match key {
                        "hooked" => library.hooked = value.parse().ok()?,
                        "exported" => library.exported = value.parse().ok()?,
                        "method" => library.method = value.to_owned(),
                        "path" => library.path = value.to_owned(),
                        _ => {}
                    }
                }
            }
            "function" => {
                let mut words = rest.split(' ');
                let id = words.next()?.parse().ok()?;
                let library = words.next()?.parse().ok()?;
                let name = words.next().filter(|name| !name.is_empty())?;
                self.functions.insert(id, (library, name.into()));
            }
            "skipped" => {
                let (index, rest) = rest.split_once(' ')?;
                let (_, reason) = rest.split_once(' ')?;
                let library = self.libraries.get_mut(&index.parse().ok()?)?;
                if library.skipped.len() < MOST_NOTES || library.skipped.contains_key(reason) {
                    *library.skipped.entry(reason.to_owned()).or_default() += 1;
                }
            }
            "command" => self.command = process_name::arguments(&unescaped(rest)),
            "cost" => self.cost = rest.parse().ok().filter(|cost| (0.0..1e9).contains(cost)),
            "loaded" => self.objects.loaded(rest, &self.exe)?,
            "unloaded" => self.objects.unloaded(rest)?,
            "about" if self.abouts.len() < MOST_LIBRARIES => {
                let (kind, subject) = rest.split_once(' ')?;
                self.abouts.push((kind.to_owned(), subject.to_owned()));
            }
            "note" if self.notes.len() < MOST_NOTES => self.notes.push(rest.to_owned()),
            _ => {}
        }
        Some(())
    }
}

/// A command line that was made one line of text: see `say_command` in the crate `preload`.
fn unescaped(line: &str) -> Vec<u8> {
    let original = |byte| match byte {
        ARGUMENT_END => 0,
        NEWLINE => b'\n',
        byte => byte,
    };
    line.bytes().map(original).collect()
}

/// `key=value` words; the value of `last` is the rest of the line.
fn pairs<'a>(mut text: &'a str, last: &str) -> Vec<(&'a str, &'a str)> {
    let mut found = Vec::new();
    while let Some((key, rest)) = text.trim_start().split_once('=') {
        if key == last {
            found.push((key, rest));
            break;
        }
        let (value, rest) = rest.split_once(' ').unwrap_or((rest, ""));
        found.push((key, value));
        text = rest;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    const FILE: &str = "process pid=7 ppid=6 tsc_hz=2000000000 exe=/opt/my app/run\n\
        clock 1000 500\n\
        library 0 hooked=2 exported=3 method=patch path=/usr/lib/lib cuda.so.1\n\
        function 0 0 cuInit\n\
        function 1 0 cuMemAlloc_v2\n\
        skipped 0 cuOdd branch into the prologue\n\
        cost 24.5\n\
        command /opt/my app/run\x1fa\x1eb\x1f\n\
        about changed-file /usr/lib/lib x.so\n\
        note one library came too late\n";

    fn processes(contents: &[(&str, &str)]) -> (tempfile::TempDir, Processes) {
        let folder = tempfile::tempdir().expect("a folder");
        for (name, text) in contents {
            fs::write(folder.path().join(name), text).expect("writable");
        }
        let mut processes = Processes::new(folder.path(), Namespaces::new(Path::new("/proc")));
        processes.refresh();
        (folder, processes)
    }

    #[test]
    fn lines_are_understood_also_when_they_come_in_pieces() {
        let (folder, mut processes) = processes(&[]);
        let path = folder.path().join("process.7.99");
        for cut in [10, 70, 71, 150, FILE.len()] {
            fs::write(&path, &FILE[..cut]).expect("writable");
            processes.refresh();
        }
        let [image] = processes.images() else {
            panic!("one image");
        };
        assert_eq!(
            (image.pid, image.parent, &*image.exe),
            (7, 6, "/opt/my app/run")
        );
        let library = &image.libraries[&0];
        assert_eq!((library.hooked, library.exported), (2, 3));
        assert_eq!(library.path, "/usr/lib/lib cuda.so.1");
        assert_eq!(library.skipped["branch into the prologue"], 1);
        assert_eq!(image.notes, ["one library came too late"]);
        let about = ("changed-file".to_owned(), "/usr/lib/lib x.so".to_owned());
        assert_eq!(image.abouts, [about]);
        assert_eq!(image.cost, Some(24.5));
        assert_eq!(processes.command(0), ["/opt/my app/run", "a\nb"]);
        let named = processes.function(0, 1).expect("known");
        assert_eq!(&*named.name, "cuMemAlloc_v2");
        assert_eq!(processes.function(0, 2), None);
    }

    #[test]
    fn an_exec_begins_a_new_image_and_a_fork_inherits() {
        let again = FILE
            .replace("1000 500", "9000 900")
            .replace("cuInit", "cuOther");
        let child = "process pid=8 ppid=7 tsc_hz=2000000000 exe=x\nclock 9500 950\n";
        let (_folder, processes) = processes(&[
            ("process.7.99", &format!("{FILE}{again}")),
            ("process.8.100", child),
        ]);
        let name = |pid, time| {
            let image = processes.image_at(pid, time).expect("an image");
            processes.function(image, 0).expect("known").name
        };
        assert_eq!(&*name(7, 8999), "cuInit");
        assert_eq!(&*name(7, 9000), "cuOther");
        assert_eq!(&*name(8, 9600), "cuOther");
        assert_eq!(processes.image_at(9, 0), None);
    }

    #[test]
    fn the_clock_is_recognised() {
        let pair = |source, host| ClockPair {
            source,
            host,
            margin: 1,
        };
        let tsc = TscClock::new(pair(0, 10 << 40), pair(1000, (10 << 40) + 500)).expect("moves");
        let of = |clock: &str| {
            let file = FILE.replace("clock 1000 500", clock);
            let (_folder, processes) = processes(&[("process.7.99", &file)]);
            processes.time_source(0, &tsc)
        };
        assert!(matches!(
            of(&format!("clock 2000 {}", (10u64 << 40) + 1000)),
            TimeSource::Tsc
        ));
        assert!(matches!(of("clock 7000 7000"), TimeSource::Host));
        let TimeSource::Own(map) = of("clock 4000000000 77") else {
            panic!("a clock of its own");
        };
        assert_eq!(map.to_host(4_000_002_000), Some(77 + 1000));
    }

    #[test]
    fn garbage_is_left_out_and_bounded() {
        let long = format!("function 3 0 {}\n", "x".repeat(1 << 20));
        let file = format!(
            "function 0 0 early\n{FILE}{long}clock\nclock x y\nfunction\nfunction 70000 0 f\n\
             library z hooked=\nskipped\nnote\n\u{0}\u{ff}\nfunction 4 0 cuLast\nfunction 5"
        );
        let (_folder, processes) = processes(&[("process.7.99", &file), ("process.x", "garbage")]);
        assert_eq!(processes.images().len(), 1);
        assert!(processes.function(0, 3).is_none() && processes.function(0, 5).is_none());
        assert_eq!(&*processes.function(0, 4).expect("known").name, "cuLast");
        let notes = "note x\n".repeat(10_000);
        let (_folder, many) = self::processes(&[("process.7.1", &format!("{FILE}{notes}"))]);
        assert!(many.images()[0].notes.len() <= MOST_NOTES);
    }

    #[test]
    fn a_child_that_names_itself_as_its_parent_ends_the_search() {
        let loops = "process pid=8 ppid=8 tsc_hz=1 exe=x\nclock 1 1\n";
        let (_folder, processes) = processes(&[("process.8.1", loops)]);
        assert_eq!(processes.function(0, 0), None);
    }
}
