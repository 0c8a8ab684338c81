//! What the delivery callback is given.

use crate::engine::io::{Settled, SettledOutcome};
use crate::error::DeliveryError;
use crate::message::OwnedMessage;
use std::ops::Range;
use std::sync::Arc;

/// The verdict on a run of messages of one partition, in the order in which they were accepted: most often one batch.
///
/// Given to the callback that was set with [`ProducerBuilder::on_delivery`](crate::ProducerBuilder::on_delivery).
#[derive(Debug)]
pub struct DeliveryRun {
    settled: Settled,
}

impl DeliveryRun {
    pub(crate) fn new(settled: Settled) -> DeliveryRun {
        DeliveryRun { settled }
    }

    /// The topic. Empty only in the one run that reports the worker's death: it covers whatever had no verdict then.
    pub fn topic(&self) -> &str {
        &self.settled.topic
    }

    /// The partition; `None` if the messages were dropped before one was chosen.
    pub fn partition(&self) -> Option<i32> {
        self.settled.partition
    }

    /// How many messages.
    #[allow(clippy::len_without_is_empty)] // never empty
    pub fn len(&self) -> usize {
        self.settled.count as usize
    }

    /// Whether they were delivered.
    pub fn is_delivered(&self) -> bool {
        self.error().is_none()
    }

    /// The first message's offset; `None` if they were dropped, with acks=0, and for duplicates whose offset the broker
    /// does not know.
    pub fn base_offset(&self) -> Option<i64> {
        match self.settled.outcome {
            SettledOutcome::Delivered { base_offset, .. } => base_offset,
            SettledOutcome::Dropped { .. } => None,
        }
    }

    /// The offsets of all of them, which follow each other; `None` where `base_offset` is.
    pub fn offsets(&self) -> Option<Range<i64>> {
        self.base_offset().map(|base| base..base + i64::from(self.settled.count))
    }

    /// The timestamp in the log, in milliseconds since 1970, where the broker set its own (`LogAppendTime`).
    pub fn append_time(&self) -> Option<i64> {
        match self.settled.outcome {
            SettledOutcome::Delivered { append_time, .. } => append_time,
            SettledOutcome::Dropped { .. } => None,
        }
    }

    /// Why they were dropped; `None` if they were delivered.
    pub fn error(&self) -> Option<&Arc<DeliveryError>> {
        match &self.settled.outcome {
            SettledOutcome::Delivered { .. } => None,
            SettledOutcome::Dropped { error, .. } => Some(error),
        }
    }

    /// The messages themselves, in order, if they were dropped; nothing if they were delivered. (Nothing either when the
    /// worker died: it had them.)
    pub fn messages(&self) -> impl Iterator<Item = OwnedMessage> + '_ {
        let returned = match &self.settled.outcome {
            SettledOutcome::Delivered { .. } => &[][..],
            SettledOutcome::Dropped { returned, .. } => &returned[..],
        };
        returned.iter().flat_map(|returned| returned.messages())
    }
}
