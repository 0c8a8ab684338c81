//! The four threads: what any thread of a service would do.

use crate::gate::Gate;
use crate::TOPICS;
use steadfast::{Message, Producer, Receipt};

/// Messages a call.
const CALL: u64 = 50;

/// What one thread sent.
pub(crate) struct Sent {
    pub(crate) messages: u64,
    pub(crate) calls: Vec<Call>,
    /// Why it gave up, if it did.
    pub(crate) error: Option<String>,
}

/// One call of `send_messages`: messages `first..first + receipt.len()` of its thread.
pub(crate) struct Call {
    pub(crate) topic: usize,
    pub(crate) first: u64,
    pub(crate) receipt: Receipt,
}

/// Sends messages 0, 1, 2, ... of this thread, each call's to another topic.
pub(crate) fn send_all(producer: &Producer, thread: usize, messages: u64, gate: &Gate) -> Sent {
    let mut sent = Sent { messages, calls: Vec::new(), error: None };
    for first in (0..messages).step_by(CALL as usize) {
        let numbers = first..messages.min(first + CALL);
        gate.pass(numbers.end - first);
        // Orders and audits have a customer as key; clicks have none and go where there is room.
        let topic = (first / CALL) as usize % TOPICS.len();
        let texts: Vec<(String, String)> =
            numbers.map(|number| (format!("customer {}", number % 997), value(thread, number))).collect();
        let call = texts.iter().map(|(key, value)| Message {
            key: (TOPICS[topic].0 != "clicks").then_some(key.as_bytes()),
            value: Some(value.as_bytes()),
            ..Message::default()
        });
        match producer.send_messages(TOPICS[topic].0, call) {
            Ok(receipt) => sent.calls.push(Call { topic, first, receipt }),
            Err(error) => {
                sent.error = Some(error.to_string());
                gate.give_up();
                break;
            }
        }
    }
    sent
}

/// About 100 bytes that say whose they are.
fn value(thread: usize, number: u64) -> String {
    format!("{thread} {number} {:.<88}", "")
}

/// Thread and number of a value.
pub(crate) fn parse(value: &[u8]) -> Option<(usize, u64)> {
    let mut parts = std::str::from_utf8(value).ok()?.split(' ');
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}
