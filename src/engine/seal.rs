//! Closing batches: nothing is added any more, and their records get the form in which they travel.
//!
//! Small batches are compressed here and now; what would hold up the other brokers goes to the helper thread, and its
//! partition waits (in order) until it is back.

use super::batch::{give_back, Batch, State};
use super::io::{Actions, CompressJob, Compressed};
use super::pool::BufferPool;
use super::Engine;
use crate::error::Cause;
use crate::protocol::compression::{self, Codec};
use crate::protocol::record_batch::HEADER_LEN;
use std::sync::Arc;
use std::time::Instant;

/// Up to so many bytes a codec is quick enough (about 100 to 200 µs) for the worker's own thread.
fn quick_bytes(codec: Codec, level: Option<i32>) -> usize {
    match codec {
        Codec::None => usize::MAX,
        Codec::Snappy | Codec::Lz4 => 64 << 10,
        Codec::Zstd if level.unwrap_or(3) <= 3 => 32 << 10,
        Codec::Zstd | Codec::Gzip => 4 << 10,
    }
}

impl Engine {
    /// Closes the open batch of a partition, if there is one.
    pub(super) fn close(&mut self, at: u32, actions: &mut Actions) {
        let (codec, level) = self.settings.compression;
        let Some(mut batch) = self.take_open(at) else { return };
        if batch.raw_len() <= quick_bytes(codec, level) {
            pack(&mut batch, codec, level, &mut self.pool);
        } else if let Some((records, used)) = batch.lend_records() {
            batch.state = State::Compressing;
            self.jobs.insert(batch.id, at);
            actions.compress.push(CompressJob { job: batch.id, codec, level, records, used });
        }
        self.partitions[at as usize].batches.push_back(batch);
        self.fresh.push(at);
    }

    /// The same for a batch that is about to be dropped: it is not worth compressing.
    pub(super) fn close_unpacked(&mut self, at: u32) {
        if let Some(mut batch) = self.take_open(at) {
            batch.seal();
            self.partitions[at as usize].batches.push_back(batch);
        }
    }

    fn take_open(&mut self, at: u32) -> Option<Batch> {
        let partition = &mut self.partitions[at as usize];
        partition.fall_due(self.last_advance);
        let batch = partition.open.take()?;
        partition.due = false;
        partition.last_len = batch.raw_len();
        self.topics[partition.topic as usize].sticky.batch_closed(partition.index as u32);
        Some(batch)
    }

    /// A batch is back from the helper thread.
    pub(super) fn on_compressed(&mut self, now: Instant, compressed: Compressed, actions: &mut Actions) {
        let Compressed { job, result, records } = compressed;
        let Some(at) = self.jobs.remove(&job) else { return };
        let partition = &mut self.partitions[at as usize];
        let Some(place) = partition.batches.iter().position(|batch| batch.id == job) else {
            return; // dropped meanwhile
        };
        let batch = &mut partition.batches[place];
        let used = batch.raw_len() - HEADER_LEN;
        batch.state = State::Ready;
        match result {
            Ok(packed) if packed.len() < used => {
                let len = packed.len();
                batch.put_records(Arc::new(packed), len, self.settings.compression.0);
                give_back(records, &mut self.pool);
            }
            Ok(_) => batch.put_records(records, used, Codec::None),
            Err(reason) => {
                batch.put_records(records, used, Codec::None);
                self.drop_batch(now, at, place, Cause::Compression { reason: reason.into() }, actions);
            }
        }
        self.enqueue(now, at);
    }
}

/// Seals a batch here and now, compressed where that makes it smaller.
pub fn pack(batch: &mut Batch, codec: Codec, level: Option<i32>, pool: &mut BufferPool) {
    if codec == Codec::None {
        return batch.seal();
    }
    let Some((records, used)) = batch.lend_records() else { return };
    match compression::compress(codec, level, &records[..used], Vec::new()) {
        Ok(packed) if packed.len() < used => {
            let len = packed.len();
            batch.put_records(Arc::new(packed), len, codec);
            give_back(records, pool);
        }
        // Not smaller (or not possible, which the settings rule out): it travels as it is.
        _ => batch.put_records(records, used, Codec::None),
    }
}
