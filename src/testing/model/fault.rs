//! Faults to order: what a broker does instead of the ordinary, to which requests, and how often.
#![warn(missing_docs)]

use super::request::Api;
use crate::protocol::error_code::ErrorCode;
use std::time::Duration;

/// What happens to a request instead of the ordinary.
#[derive(Clone, Debug)]
pub struct Fault(pub(crate) Effect);

#[derive(Clone, Debug)]
pub(crate) enum Effect {
    Error { code: i16, message: Option<String>, records: Vec<(i32, Option<String>)>, append: bool },
    Delay(Duration),
    Late(Duration),
    CloseBefore,
    CloseAfter,
    LoseResponse,
    Swallow,
    Raw(Vec<u8>),
    Body(Vec<u8>),
    WrongCorrelation,
    Twice,
    Cut(usize),
    Throttle(Duration),
}

impl Fault {
    /// Refused with this code; nothing is appended.
    pub fn error(code: ErrorCode) -> Fault {
        Fault(Effect::Error { code: code.code(), message: None, records: Vec::new(), append: false })
    }

    /// Appended by the leader and answered with this code all the same, as with `NotEnoughReplicasAfterAppend`. The
    /// other replicas do not have it: it is gone if the leader crashes with [`Tail::Lost`] before more is appended.
    pub fn error_after_append(code: ErrorCode) -> Fault {
        Fault(Effect::Error { code: code.code(), message: None, records: Vec::new(), append: true })
    }

    /// An error with the broker's own words (Produce v8 and later).
    pub fn with_message(mut self, text: &str) -> Fault {
        if let Effect::Error { message, .. } = &mut self.0 {
            *message = Some(text.to_owned());
        }
        self
    }

    /// An error that names records of the batch by their place in it (Produce v8 and later).
    pub fn naming(mut self, places: &[i32]) -> Fault {
        if let Effect::Error { records, .. } = &mut self.0 {
            *records = places.iter().map(|&place| (place, Some("refused as ordered".to_owned()))).collect();
        }
        self
    }

    /// Done at once and answered this much later.
    pub fn delay(time: Duration) -> Fault {
        Fault(Effect::Delay(time))
    }

    /// Taken up this much later, even when the connection is gone by then: as from the queue of a busy broker.
    pub fn late(time: Duration) -> Fault {
        Fault(Effect::Late(time))
    }

    /// The connection is closed; nothing of the request is done.
    pub fn close_before() -> Fault {
        Fault(Effect::CloseBefore)
    }

    /// The request is done, and the connection closed instead of an answer.
    pub fn close_after() -> Fault {
        Fault(Effect::CloseAfter)
    }

    /// The request is done and never answered; the connection stays open and says nothing more.
    pub fn lose_response() -> Fault {
        Fault(Effect::LoseResponse)
    }

    /// Nothing of the request is done, and it is never answered; the connection stays open and says nothing more.
    pub fn swallow() -> Fault {
        Fault(Effect::Swallow)
    }

    /// The request is done, and these bytes (length and all) go out instead of the answer.
    pub fn raw_answer(bytes: impl Into<Vec<u8>>) -> Fault {
        Fault(Effect::Raw(bytes.into()))
    }

    /// The request is done; what goes out is a frame with this length (as if 2 GiB followed, say) and no content.
    pub fn frame_length(length: i32) -> Fault {
        Fault(Effect::Raw(length.to_be_bytes().to_vec()))
    }

    /// The request is done; what goes out is this content, in a frame of the right length and with the right
    /// correlation id.
    pub fn hostile_body(body: &[u8]) -> Fault {
        Fault(Effect::Body(body.to_vec()))
    }

    /// The answer carries another request's correlation id.
    pub fn wrong_correlation() -> Fault {
        Fault(Effect::WrongCorrelation)
    }

    /// The answer goes out twice.
    pub fn answer_twice() -> Fault {
        Fault(Effect::Twice)
    }

    /// The request is done; the connection is closed after this many bytes of the answer.
    pub fn cut_answer(bytes: usize) -> Fault {
        Fault(Effect::Cut(bytes))
    }

    /// The answer says that the client is to be quiet for so long, and the broker reads nothing from it meanwhile.
    pub fn throttle(time: Duration) -> Fault {
        Fault(Effect::Throttle(time))
    }

    /// Whether it comes before anything of the request is done.
    pub(crate) fn prevents(&self) -> bool {
        matches!(self.0, Effect::Late(_) | Effect::CloseBefore | Effect::Swallow)
    }
}

/// Which requests a fault is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum On {
    /// Produce requests that carry a batch for this partition.
    Partition(String, i32),
    /// Requests of this kind to this broker.
    Requests(i32, Api),
    /// All requests to this broker.
    Broker(i32),
}

impl On {
    /// Produce requests that carry a batch for this partition.
    pub fn partition(topic: &str, partition: i32) -> On {
        On::Partition(topic.to_owned(), partition)
    }
}

/// How often a fault happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Times {
    /// The next one.
    Once,
    /// The next so many.
    Next(u32),
    /// Only the so-manieth from now on, counted from 1.
    Nth(u32),
    /// Until it is lifted.
    Always,
}

/// What a broker leaves when it crashes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tail {
    /// Everything it appended.
    Kept,
    /// Only what the other replicas have too.
    Lost,
}

#[derive(Debug, Default)]
pub(crate) struct Orders {
    orders: Vec<Order>,
}

#[derive(Debug)]
struct Order {
    on: On,
    fault: Fault,
    /// So many are let through first.
    skip: u32,
    /// None: until lifted.
    left: Option<u32>,
}

impl Orders {
    pub(crate) fn add(&mut self, on: On, times: Times, fault: Fault) {
        let (skip, left) = match times {
            Times::Once => (0, Some(1)),
            Times::Next(count) => (0, Some(count)),
            Times::Nth(number) => (number.saturating_sub(1), Some(1)),
            Times::Always => (0, None),
        };
        if left != Some(0) {
            self.orders.push(Order { on, fault, skip, left });
        }
    }

    pub(crate) fn lift(&mut self, on: &On) {
        self.orders.retain(|order| order.on != *on);
    }

    /// The oldest order that is due for this request; all orders for it count it.
    pub(crate) fn take(&mut self, is_meant: impl Fn(&On) -> bool) -> Option<Fault> {
        let mut due = None;
        for (index, order) in self.orders.iter_mut().enumerate() {
            if !is_meant(&order.on) {
                continue;
            }
            if order.skip > 0 {
                order.skip -= 1;
            } else if due.is_none() {
                due = Some(index);
            }
        }
        let order = &mut self.orders[due?];
        let fault = order.fault.clone();
        if let Some(left) = &mut order.left {
            *left -= 1;
            if *left == 0 {
                self.orders.remove(due?);
            }
        }
        Some(fault)
    }
}
