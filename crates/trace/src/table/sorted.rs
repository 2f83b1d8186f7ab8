//! Writing Parquet whose row groups come in another order than they are to have in the file: each is packed when
//! it comes and kept, packed, until the file is finished.

use super::parquet::{Packer, properties};
use crate::{Error, Result};
use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use parquet::{
    arrow::arrow_writer::ArrowColumnChunk,
    file::{metadata::KeyValue, metadata::SortingColumn},
};
use std::{
    io::Write,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
        mpsc::{SyncSender, sync_channel},
    },
    thread::{self, JoinHandle},
};

/// Row groups of one file.
///
/// They are packed in a thread of its own. Memory: one group that waits, one that is packed, and the packed ones.
pub struct SortedGroups<K: Ord + Send + 'static> {
    /// None once there is an error, or the end.
    input: Option<SyncSender<Order<K>>>,
    thread: Option<JoinHandle<Result<()>>>,
    packed: Arc<AtomicU64>,
    rows: u64,
}

enum Order<K> {
    Group(K, RecordBatch),
    Finish(Vec<KeyValue>),
}

impl<K: Ord + Send + 'static> SortedGroups<K> {
    /// `sorted_by`: the columns by which rows of a group, and groups by their keys, are sorted.
    pub fn new(
        out: impl Write + Send + 'static,
        schema: SchemaRef,
        pairs: Vec<KeyValue>,
        sorted_by: &[usize],
    ) -> Result<Self> {
        let sorting = sorted_by.iter().map(|&column| SortingColumn {
            column_idx: column as i32,
            descending: false,
            nulls_first: true,
        });
        let properties = properties()
            .set_key_value_metadata(Some(pairs))
            .set_sorting_columns(Some(sorting.collect()))
            .build();
        let mut packer = Packer::new(out, schema, properties)?;
        let (input, orders) = sync_channel(1);
        let packed = Arc::new(AtomicU64::new(0));
        let bytes = packed.clone();
        let thread = thread::Builder::new()
            .name("parquet".into())
            .spawn(move || {
                let mut groups: Vec<(K, Vec<ArrowColumnChunk>)> = Vec::new();
                for order in orders {
                    match order {
                        Order::Group(key, batch) => {
                            let columns = packer.columns(&[batch])?;
                            let size = columns.iter().map(|column| column.close().bytes_written);
                            bytes.fetch_add(size.sum(), Ordering::Relaxed);
                            groups.push((key, columns));
                        }
                        Order::Finish(pairs) => {
                            groups.sort_by(|(one, _), (other, _)| one.cmp(other));
                            for (_, columns) in groups {
                                packer.append(columns)?;
                            }
                            return packer.finish(pairs);
                        }
                    }
                }
                // Nobody has finished it: it has no index, and cannot be read.
                Ok(())
            })?;
        Ok(SortedGroups {
            input: Some(input),
            thread: Some(thread),
            packed,
            rows: 0,
        })
    }

    /// The rows of a group, which are in order.
    pub fn write(&mut self, key: K, rows: RecordBatch) -> Result<()> {
        self.rows += rows.num_rows() as u64;
        self.order(Order::Group(key, rows))
    }

    /// Bytes of the groups that were packed so far.
    pub fn packed_bytes(&self) -> u64 {
        self.packed.load(Ordering::Relaxed)
    }

    pub fn rows(&self) -> u64 {
        self.rows
    }

    pub fn finish(mut self, pairs: Vec<KeyValue>) -> Result<()> {
        self.order(Order::Finish(pairs))?;
        self.join()
    }

    fn order(&mut self, order: Order<K>) -> Result<()> {
        let sent = self.input.as_ref().map(|input| input.send(order));
        match sent {
            Some(Ok(())) => Ok(()),
            // The thread has ended, and says why.
            _ => self.join().and(Err(Error::Io(std::io::Error::other(
                "the thread that writes Parquet has ended",
            )))),
        }
    }

    fn join(&mut self) -> Result<()> {
        self.input = None;
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(ended)) => ended,
            _ => Err(Error::Io(std::io::Error::other(
                "the thread that writes Parquet has failed",
            ))),
        }
    }
}

impl<K: Ord + Send + 'static> Drop for SortedGroups<K> {
    fn drop(&mut self) {
        if self.thread.is_some() {
            let _ = self.join();
        }
    }
}
