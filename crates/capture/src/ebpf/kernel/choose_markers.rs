//! Of hooks on markers (usdt): which ones match, in which files, and what of them can be read.

use super::{
    choose::{Choice, MOST_SINGLE},
    marks::{Mark, Marks},
    refusal::Refusal,
    shape::Shape,
};
use crate::{
    ebpf::{
        attach::AttachMode,
        markers::{self, Marker},
    },
    library::find,
    notes::counted,
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
    ) -> Result<(), Refusal> {
        let files = find(library, self.folders);
        if files.is_empty() {
            return Err(Refusal::NoLibrary(library.to_owned()));
        }
        let shape = Shape::of_function(&self.hooks[hook], false)?;
        let (mut found, mut reasons) = (false, Vec::new());
        for path in files {
            let shown = path.display().to_string();
            let unreadable = |why| Refusal::File {
                file: shown.clone(),
                why,
            };
            let file = File::open(&path).map_err(unreadable)?;
            let all = markers::read(&file).map_err(unreadable)?;
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
                return Err(Refusal::TooManyMarkers {
                    count: meant.len(),
                    file: shown,
                });
            }
            let mut marks = Vec::new();
            for marker in &meant {
                match self.mark(hook, &shown, marker, &shape) {
                    Ok(mark) => marks.push(mark),
                    Err(why) => reasons.push(why.to_string()),
                }
            }
            if marks.is_empty() {
                continue;
            }
            let way = self.attach_marks(&file, &shown, &marks)?;
            let line = format!(
                "{} of {shown} ({way})",
                counted(marks.len() as u64, "marker", "markers")
            );
            self.made.details.push(line);
            found = true;
        }
        reasons.dedup();
        if found {
            reasons.into_iter().for_each(|reason| self.note(reason));
            return Ok(());
        }
        match reasons.is_empty() {
            true => Err(Refusal::NoMarker {
                library: library.to_owned(),
                provider: provider.to_owned(),
                name: name.to_owned(),
            }),
            false => Err(Refusal::Everywhere(reasons)),
        }
    }

    /// One place of a marker, with what can be read there.
    fn mark(
        &mut self,
        hook: usize,
        file: &str,
        marker: &Marker,
        shape: &Shape,
    ) -> Result<Mark, Refusal> {
        let title = marker.title();
        let mut shape = shape.clone();
        for number in shape.words_read() {
            let Some(why) = marker.lacks(number) else {
                continue;
            };
            if self.hooks[hook].decides_by(number) {
                return Err(Refusal::Undecidable { marker: title, why });
            }
            if self.hooks[hook].aggregate.is_some() {
                return Err(Refusal::Uncountable { marker: title, why });
            }
            shape.leave_out(number);
            self.note(format!("{title}: {why}: recorded without it"));
        }
        let number = self.maps.describe(&shape.spec)?;
        let number = u16::try_from(number).map_err(|_| Refusal::TooManyDescriptions)?;
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

    fn marks(&mut self) -> Result<&mut Marks, Refusal> {
        let marks = match self.marks.take() {
            Some(marks) => marks,
            None => Marks::load(self.maps)?,
        };
        Ok(self.marks.insert(marks))
    }

    /// By the first way that works, and how that is called.
    fn attach_marks(
        &mut self,
        file: &File,
        shown: &str,
        marks: &[Mark],
    ) -> Result<&'static str, Refusal> {
        loop {
            let programs = self.marks()?;
            if programs.way == AttachMode::Single && marks.len() > MOST_SINGLE {
                return Err(Refusal::OneByOne {
                    count: marks.len(),
                    what: "markers",
                    file: shown.to_owned(),
                    most: MOST_SINGLE,
                });
            }
            let Err(why) = programs.attach(file, marks) else {
                return Ok(programs.way.as_str());
            };
            let refusal = Refusal::Markers {
                file: shown.to_owned(),
                why,
            };
            match self.marks.take().map(|marks| marks.fall_back(self.maps)) {
                Some(Ok(next)) => self.marks = Some(next),
                Some(Err(same)) => {
                    self.marks = Some(same);
                    return Err(refusal);
                }
                None => return Err(refusal),
            }
        }
    }

    /// Something that is said at the end of the run, once.
    fn note(&mut self, note: String) {
        self.made.notes.say(note);
    }
}
