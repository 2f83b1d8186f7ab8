//! Of hooks on markers (usdt): which are meant, in which files, and what of them can be read.

use super::{
    choose::{Choice, MOST_SINGLE},
    marks::{Mark, Marks},
    shape::Shape,
};
use crate::{
    ebpf::{
        attach::Way,
        markers::{self, Marker},
    },
    library::{find, not_found},
};
use event::Layer;
use std::{collections::HashSet, fs::File};

/// Markers of one hook: more would be a mistake.
const MOST_MARKERS: usize = 20_000;

impl Choice<'_> {
    /// Markers of a library or a program, in every copy of it that is found.
    pub(super) fn by_marker(
        &mut self,
        hook: usize,
        library: &str,
        provider: &str,
        name: &str,
    ) -> Result<(), String> {
        let files = find(library, self.folders);
        if files.is_empty() {
            return Err(not_found(library));
        }
        let shape = Shape::of_function(&self.hooks[hook], false);
        let shape = shape.map_err(|error| error.to_string())?;
        let (mut found, mut reasons) = (false, Vec::new());
        for path in files {
            let shown = path.display().to_string();
            let file = File::open(&path).map_err(|error| format!("{shown}: {error}"))?;
            let all = markers::read(&file).map_err(|error| format!("{shown}: {error}"))?;
            for refused in &all.refused {
                let note = format!("{shown}: {}: {}", refused.marker, refused.why);
                self.note(note);
            }
            let mut seen = HashSet::new();
            let meant: Vec<&Marker> = (all.markers.iter())
                .filter(|marker| marker.matches(provider, name))
                .filter(|marker| seen.insert((marker.title(), marker.offset)))
                .collect();
            if meant.len() > MOST_MARKERS {
                return Err(format!("{} markers of {shown}: name fewer", meant.len()));
            }
            let mut marks = Vec::new();
            for marker in &meant {
                match self.mark(hook, &shown, marker, &shape) {
                    Ok(mark) => marks.push(mark),
                    Err(reason) => reasons.push(reason),
                }
            }
            if marks.is_empty() {
                continue;
            }
            let way = self.attach_marks(&file, &shown, &marks)?;
            let line = format!("{} markers of {shown} ({way})", marks.len());
            self.made.details.push(line);
            found = true;
        }
        reasons.dedup();
        if found {
            reasons.into_iter().for_each(|reason| self.note(reason));
            return Ok(());
        }
        match reasons.is_empty() {
            true => Err(format!("no marker of {library} matches {provider}:{name}")),
            false => Err(reasons.join("; ")),
        }
    }

    /// One place of a marker, with what can be read there.
    fn mark(
        &mut self,
        hook: usize,
        file: &str,
        marker: &Marker,
        shape: &Shape,
    ) -> Result<Mark, String> {
        let title = marker.title();
        let mut shape = shape.clone();
        for number in shape.words_read() {
            let Some(why) = marker.lacks(number) else {
                continue;
            };
            if self.hooks[hook].decides_by(number) {
                return Err(format!("{title}: its condition cannot be decided: {why}"));
            }
            if self.hooks[hook].aggregate.is_some() {
                return Err(format!("{title}: {why}"));
            }
            shape.leave_out(number);
            self.note(format!("{title}: {why}: its events come without it"));
        }
        let number = self.maps.describe(&shape.spec);
        let number = number.map_err(|error| error.to_string())?;
        let number = u16::try_from(number).map_err(|_| "too many descriptions".to_owned())?;
        let site = self.marks()?.describe(&marker.site())?;
        let asked = &self.hooks[hook];
        let subject = if let Some(aggregate) = &asked.aggregate {
            let key = format!("usdt:{file}:{title}");
            self.made.aggregated.place(asked, aggregate, key)?
        } else {
            let name = asked.name.clone().unwrap_or(title);
            self.subject(hook, &name, Layer::Library, &shape, None)
        };
        Ok(Mark {
            offset: marker.offset,
            semaphore: marker.semaphore,
            cookie: u64::from(site) << 48 | u64::from(number) << 32 | u64::from(subject),
        })
    }

    fn marks(&mut self) -> Result<&mut Marks, String> {
        if self.marks.is_none() {
            let marks = Marks::load(self.maps).map_err(|error| error.to_string())?;
            self.marks = Some(marks);
        }
        self.marks.as_mut().ok_or_else(String::new)
    }

    /// By the first way that works, and how that is called.
    fn attach_marks(
        &mut self,
        file: &File,
        shown: &str,
        marks: &[Mark],
    ) -> Result<&'static str, String> {
        loop {
            let programs = self.marks()?;
            if programs.way == Way::Single && marks.len() > MOST_SINGLE {
                return Err(format!(
                    "{} markers of {shown}, and this kernel attaches them one by one: name fewer than {MOST_SINGLE}",
                    marks.len()
                ));
            }
            let Err(error) = programs.attach(file, marks) else {
                return Ok(programs.way.as_str());
            };
            let reason = format!("cannot attach to markers of {shown}: {error}");
            match self.marks.take().map(|marks| marks.fall_back(self.maps)) {
                Some(Ok(next)) => self.marks = Some(next),
                Some(Err(same)) => {
                    self.marks = Some(same);
                    return Err(reason);
                }
                None => return Err(reason),
            }
        }
    }

    /// Something that is said at the end of the run, once.
    fn note(&mut self, note: String) {
        self.made.notes.say(note);
    }
}
