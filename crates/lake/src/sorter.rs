//! Sorting by process, thread and start in bounded memory.
//!
//! A trace is in order of time, so its rows need only be dealt to their threads: each thread's rows become row groups
//! of their own, packed as soon as they are many, and put in order by thread when the file is finished. What comes behind
//! rows of its thread that were packed already (a long span's row comes when the span ends) waits for the next file.

use crate::{
    Result,
    columns::sorted_by,
    gather::{Segment, gather},
};
use arrow_array::{
    Array, RecordBatch,
    cast::AsArray,
    types::{Int64Type, UInt32Type},
};
use arrow_schema::SchemaRef;
use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Weak},
};

/// What is in memory, and how large row groups are.
#[derive(Debug, Clone, Copy)]
struct Limits {
    /// Rows of a row group, at most.
    group: usize,
    /// A row group with fewer is not worth its place in the index.
    least: usize,
    /// Rows that may wait in memory.
    most: usize,
}

impl Limits {
    fn with(group: usize) -> Self {
        Limits {
            group,
            least: group / 4,
            most: 3 * group,
        }
    }
}

/// Process and thread; rows that have none come first.
pub type Thread = (Option<u32>, Option<u32>);

/// Where a row group belongs in its file.
pub type GroupKey = (Thread, u32);

/// Rows of a group, in order.
pub struct Group {
    pub key: GroupKey,
    pub segments: Vec<Segment>,
}

/// What is to be done now.
pub enum Due {
    Group(Group),
    /// Too many threads for the memory: this file must end.
    File,
    Nothing,
}

/// Rows that wait.
pub struct Sorter {
    schema: SchemaRef,
    limits: Limits,
    columns: [usize; 3],
    /// Batches that waiting rows are in, or were.
    batches: Vec<Weak<RecordBatch>>,
    threads: Vec<Waiting>,
    places: HashMap<Thread, usize, ahash::RandomState>,
    rows: usize,
    /// Rows that belong before others of their thread, which are packed.
    late: Vec<Segment>,
    late_rows: usize,
}

/// Those of a thread.
struct Waiting {
    thread: Thread,
    segments: Vec<Segment>,
    rows: usize,
    /// The latest start, and whether all came in order.
    latest: i64,
    is_sorted: bool,
    /// The latest start that was packed, and how many groups were.
    packed: i64,
    groups: u32,
}

impl Sorter {
    /// For row groups of so many rows at most.
    pub fn new(schema: &SchemaRef, group_rows: usize) -> Result<Self> {
        Ok(Sorter {
            schema: schema.clone(),
            limits: Limits::with(group_rows),
            columns: sorted_by(schema)?,
            batches: Vec::new(),
            threads: Vec::new(),
            places: HashMap::default(),
            rows: 0,
            late: Vec::new(),
            late_rows: 0,
        })
    }

    pub fn add(&mut self, segment: Segment) {
        let Segment { batch, rows } = segment;
        self.batches.push(Arc::downgrade(&batch));
        let columns = Keys::of(&batch, self.columns);
        let mut dealt: BTreeMap<usize, Vec<u32>> = BTreeMap::new();
        let mut late = Vec::new();
        // Mostly the same as the row before.
        let mut last: Option<(Thread, usize)> = None;
        let mut current: Vec<u32> = Vec::new();
        for row in rows {
            let thread = columns.thread(row as usize);
            let place = match last {
                Some((known, place)) if known == thread => place,
                _ => {
                    let place = self.place(thread);
                    if let Some((_, before)) = last.replace((thread, place)) {
                        dealt.insert(before, std::mem::take(&mut current));
                    }
                    current = dealt.remove(&place).unwrap_or_default();
                    place
                }
            };
            let start = columns.start(row as usize);
            let waiting = &mut self.threads[place];
            if start < waiting.packed {
                late.push(row);
                continue;
            }
            waiting.is_sorted &= start >= waiting.latest;
            waiting.latest = waiting.latest.max(start);
            current.push(row);
        }
        if let Some((_, place)) = last {
            dealt.insert(place, current);
        }
        for (place, rows) in dealt {
            if rows.is_empty() {
                continue;
            }
            self.rows += rows.len();
            let waiting = &mut self.threads[place];
            waiting.rows += rows.len();
            waiting.segments.push(Segment {
                batch: batch.clone(),
                rows,
            });
        }
        if !late.is_empty() {
            self.late_rows += late.len();
            self.late.push(Segment { batch, rows: late });
        }
    }

    fn place(&mut self, thread: Thread) -> usize {
        let threads = &mut self.threads;
        *self.places.entry(thread).or_insert_with(|| {
            threads.push(Waiting {
                thread,
                segments: Vec::new(),
                rows: 0,
                latest: i64::MIN,
                is_sorted: true,
                packed: i64::MIN,
                groups: 0,
            });
            threads.len() - 1
        })
    }

    /// What must be done before more rows are added.
    pub fn due(&mut self) -> Result<Due> {
        if self.late_rows > self.limits.most {
            return Ok(Due::File);
        }
        if self.rows < self.limits.most {
            return Ok(Due::Nothing);
        }
        self.let_go()?;
        let largest = (self.threads.iter_mut()).max_by_key(|waiting| waiting.rows);
        Ok(match largest {
            Some(waiting) if waiting.rows >= self.limits.least => {
                let segments = waiting.take(self.columns, self.limits.group);
                self.rows -= rows_of(&segments);
                waiting.groups += 1;
                Due::Group(Group {
                    key: (waiting.thread, waiting.groups - 1),
                    segments,
                })
            }
            _ => Due::File,
        })
    }

    /// Copies the rows that wait, if the batches they are in are much larger: a thread with a row now and then
    /// would keep all of them.
    fn let_go(&mut self) -> Result<()> {
        self.batches.retain(|batch| batch.strong_count() > 0);
        let kept = self.batches.iter().filter_map(Weak::upgrade);
        if kept.map(|batch| batch.num_rows()).sum::<usize>() < 2 * self.limits.most {
            return Ok(());
        }
        self.batches.clear();
        let mut all: Vec<Segment> = Vec::new();
        for waiting in &mut self.threads {
            all.append(&mut waiting.segments);
        }
        let waiting_rows = rows_of(&all);
        all.append(&mut self.late);
        let copied = Arc::new(gather(&self.schema, &all)?);
        drop(all);
        self.batches.push(Arc::downgrade(&copied));
        let mut next = 0;
        for waiting in self.threads.iter_mut().filter(|waiting| waiting.rows > 0) {
            let end = next + waiting.rows as u32;
            waiting.segments.push(Segment {
                batch: copied.clone(),
                rows: (next..end).collect(),
            });
            next = end;
        }
        debug_assert_eq!(next as usize, waiting_rows);
        if self.late_rows > 0 {
            self.late.push(Segment {
                rows: (next..copied.num_rows() as u32).collect(),
                batch: copied,
            });
        }
        Ok(())
    }

    /// Everything that waits, for the end of a file. What came late stays.
    pub fn drain(&mut self) -> Vec<Group> {
        let mut threads = std::mem::take(&mut self.threads);
        self.places.clear();
        self.rows = 0;
        threads.sort_by_key(|waiting| waiting.thread);
        let mut groups: Vec<Group> = Vec::new();
        // Rows that the last group has room for.
        let mut room = 0;
        for mut waiting in threads {
            // Its packed groups are between the last one and its rest.
            if waiting.groups > 0 {
                room = 0;
            }
            while waiting.rows > 0 {
                match groups.last_mut().filter(|_| room > 0) {
                    Some(group) => {
                        let segments = waiting.take(self.columns, room);
                        room -= rows_of(&segments);
                        group.segments.extend(segments);
                    }
                    None => {
                        let segments = waiting.take(self.columns, self.limits.group);
                        room = self.limits.group - rows_of(&segments);
                        groups.push(Group {
                            key: (waiting.thread, waiting.groups),
                            segments,
                        });
                        waiting.groups += 1;
                    }
                }
            }
        }
        groups
    }

    /// Puts what came late where it belongs, after a file was finished. Whether there was any.
    pub fn add_late(&mut self) -> bool {
        self.late_rows = 0;
        let late = std::mem::take(&mut self.late);
        let any = !late.is_empty();
        for segment in late {
            self.add(segment);
        }
        any
    }

    /// Whether rows wait for the next file.
    pub fn has_late(&self) -> bool {
        !self.late.is_empty()
    }
}

impl Waiting {
    /// The first rows, in order: so many, or all.
    fn take(&mut self, columns: [usize; 3], most: usize) -> Vec<Segment> {
        if !self.is_sorted {
            self.sort(columns);
        }
        let mut taken: Vec<Segment> = Vec::new();
        let mut rows = 0;
        let mut rest = Vec::new();
        for mut segment in std::mem::take(&mut self.segments) {
            let room = most - rows;
            if room == 0 {
                rest.push(segment);
                continue;
            }
            if segment.rows.len() > room {
                rest.push(Segment {
                    batch: segment.batch.clone(),
                    rows: segment.rows.split_off(room),
                });
            }
            rows += segment.rows.len();
            taken.push(segment);
        }
        self.segments = rest;
        self.rows -= rows;
        if let Some(last) = taken.last()
            && let Some(&row) = last.rows.last()
        {
            let starts = last.batch.column(columns[2]).as_primitive::<Int64Type>();
            self.packed = starts.value(row as usize);
        }
        taken
    }

    /// Those that came at the same moment stay as they came.
    fn sort(&mut self, columns: [usize; 3]) {
        let segments = std::mem::take(&mut self.segments);
        let mut order: Vec<(i64, u32, u32)> = Vec::with_capacity(self.rows);
        for (at, segment) in (0..).zip(&segments) {
            let starts = segment.batch.column(columns[2]).as_primitive::<Int64Type>();
            let rows = segment.rows.iter();
            order.extend(rows.map(|&row| (starts.value(row as usize), at, row)));
        }
        order.sort_by_key(|(start, _, _)| *start);
        for (_, at, row) in order {
            match self.segments.last_mut() {
                Some(last) if Arc::ptr_eq(&last.batch, &segments[at as usize].batch) => {
                    last.rows.push(row);
                }
                _ => self.segments.push(Segment {
                    batch: segments[at as usize].batch.clone(),
                    rows: vec![row],
                }),
            }
        }
        self.is_sorted = true;
    }
}

fn rows_of(segments: &[Segment]) -> usize {
    segments.iter().map(|segment| segment.rows.len()).sum()
}

/// The columns by which a batch's rows are sorted.
pub struct Keys<'a> {
    pids: &'a arrow_array::UInt32Array,
    tids: &'a arrow_array::UInt32Array,
    starts: &'a arrow_array::Int64Array,
}

impl<'a> Keys<'a> {
    pub fn of(batch: &'a RecordBatch, [pid, tid, start]: [usize; 3]) -> Self {
        Keys {
            pids: batch.column(pid).as_primitive::<UInt32Type>(),
            tids: batch.column(tid).as_primitive::<UInt32Type>(),
            starts: batch.column(start).as_primitive::<Int64Type>(),
        }
    }

    #[inline]
    pub fn thread(&self, row: usize) -> Thread {
        let number =
            |column: &arrow_array::UInt32Array| column.is_valid(row).then(|| column.value(row));
        (number(self.pids), number(self.tids))
    }

    #[inline]
    pub fn start(&self, row: usize) -> i64 {
        self.starts.value(row)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::{ArrayRef, Int64Array, UInt32Array};
    use arrow_schema::{DataType, Field, Schema};

    const FEW: Limits = Limits {
        group: 40,
        least: 10,
        most: 200,
    };

    fn schema() -> SchemaRef {
        Arc::new(Schema::new(vec![
            Field::new("pid", DataType::UInt32, true),
            Field::new("tid", DataType::UInt32, true),
            Field::new("start_ns", DataType::Int64, false),
        ]))
    }

    /// Batches of rows by threads of a trace: in order, but now and then one that began long ago.
    fn rows(threads: u32, batches: u32) -> Vec<Vec<(Option<u32>, u32, i64)>> {
        let mut state = 7_u64;
        let mut chance = move |below: u64| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 33) % below
        };
        let row = |at: u32, number: i64, chance: &mut dyn FnMut(u64) -> u64| {
            let thread = chance(u64::from(threads)) as u32;
            let now = i64::from(at) * 100 + number;
            let start = match chance(50) {
                0 => chance(now.max(1).cast_unsigned()).cast_signed(),
                _ => now,
            };
            ((thread > 0).then_some(thread / 4), thread, start)
        };
        (0..batches)
            .map(|at| (0..64).map(|number| row(at, number, &mut chance)).collect())
            .collect()
    }

    fn segment(rows: &[(Option<u32>, u32, i64)]) -> Segment {
        let columns: Vec<ArrayRef> = vec![
            Arc::new(rows.iter().map(|row| row.0).collect::<UInt32Array>()),
            Arc::new(UInt32Array::from_iter_values(rows.iter().map(|row| row.1))),
            Arc::new(Int64Array::from_iter_values(rows.iter().map(|row| row.2))),
        ];
        Segment {
            batch: Arc::new(RecordBatch::try_new(schema(), columns).expect("a batch")),
            rows: (0..rows.len() as u32).collect(),
        }
    }

    /// The rows of a file, in its order.
    fn file(mut groups: Vec<Group>) -> Vec<(Thread, i64)> {
        groups.sort_by_key(|group| group.key);
        let mut all = Vec::new();
        for segment in groups.iter().flat_map(|group| &group.segments) {
            let keys = Keys::of(&segment.batch, [0, 1, 2]);
            let rows = segment.rows.iter().map(|row| *row as usize);
            all.extend(rows.map(|row| (keys.thread(row), keys.start(row))));
        }
        all
    }

    #[test]
    fn every_file_is_sorted_and_no_row_is_lost() {
        // One thread, a few, and more than there is room for.
        for threads in [1, 3, 10, 100] {
            let rows = rows(threads, 200);
            let mut sorter = Sorter::new(&schema(), 1).expect("a schema");
            sorter.limits = FEW;
            let mut files: Vec<Vec<(Thread, i64)>> = Vec::new();
            let mut groups = Vec::new();
            for batch in &rows {
                sorter.add(segment(batch));
                loop {
                    match sorter.due().expect("sorted") {
                        Due::Nothing => break,
                        Due::Group(group) => groups.push(group),
                        Due::File => {
                            groups.extend(sorter.drain());
                            files.push(file(std::mem::take(&mut groups)));
                            sorter.add_late();
                        }
                    }
                }
                assert!(sorter.rows < FEW.most + 64, "{threads}");
                let kept = sorter.batches.iter().filter_map(Weak::upgrade);
                let kept: usize = kept.map(|batch| batch.num_rows()).sum();
                assert!(
                    kept < 5 * FEW.most,
                    "{threads}: {kept} rows are kept in memory"
                );
            }
            loop {
                groups.extend(sorter.drain());
                files.push(file(std::mem::take(&mut groups)));
                if !sorter.add_late() {
                    break;
                }
            }
            for file in &files {
                assert!(file.is_sorted(), "{threads} threads: {file:?}");
            }
            let mut found: Vec<(Thread, i64)> = files.concat();
            let mut wanted: Vec<(Thread, i64)> = (rows.iter().flatten())
                .map(|(pid, tid, start)| ((*pid, Some(*tid)), *start))
                .collect();
            found.sort();
            wanted.sort();
            assert_eq!(found, wanted, "{threads} threads");
            assert_eq!(
                threads == 100,
                files.len() > 10,
                "{threads}: {}",
                files.len()
            );
        }
    }
}
