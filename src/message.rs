//! What a caller hands over, and what comes back of it.

use std::fmt;

/// One message, borrowed from the caller; its bytes are copied before `send_messages` returns.
///
/// Null and empty are different things: `None` is null (a tombstone in a compacted topic), `Some(b"")` is empty.
#[derive(Clone, Copy, Default)]
pub struct Message<'a> {
    /// The key, which chooses the partition unless `partition` does.
    pub key: Option<&'a [u8]>,
    /// The value.
    pub value: Option<&'a [u8]>,
    /// Headers in order; names may repeat, values may be null.
    pub headers: &'a [Header<'a>],
    /// Create time in milliseconds since 1970; the time of the call if `None`.
    pub timestamp: Option<i64>,
    /// The partition; the partitioner chooses if `None`.
    pub partition: Option<i32>,
}

/// One header of a message.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Header<'a> {
    /// The name; the same one may occur more than once.
    pub name: &'a str,
    /// The value; null and empty are different.
    pub value: Option<&'a [u8]>,
}

/// A message that the producer owns: what is handed back when it could not be delivered.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct OwnedMessage {
    /// The topic it was for.
    pub topic: String,
    /// The partition it was meant for, where one was given or chosen.
    pub partition: Option<i32>,
    /// The key.
    pub key: Option<Vec<u8>>,
    /// The value.
    pub value: Option<Vec<u8>>,
    /// Headers in order.
    pub headers: Vec<(String, Option<Vec<u8>>)>,
    /// Create time in milliseconds since 1970.
    pub timestamp: i64,
}

impl<'a> Message<'a> {
    /// A message with this value, and nothing else.
    pub fn new(value: &'a [u8]) -> Message<'a> {
        Message { value: Some(value), ..Message::default() }
    }

    /// A message with this key and value.
    pub fn keyed(key: &'a [u8], value: &'a [u8]) -> Message<'a> {
        Message { key: Some(key), value: Some(value), ..Message::default() }
    }
}

impl<'a> From<&'a [u8]> for Message<'a> {
    fn from(value: &'a [u8]) -> Self {
        Message::new(value)
    }
}

impl<'a> From<&'a str> for Message<'a> {
    fn from(value: &'a str) -> Self {
        Message::new(value.as_bytes())
    }
}

impl<'a> From<(&'a [u8], &'a [u8])> for Message<'a> {
    fn from((key, value): (&'a [u8], &'a [u8])) -> Self {
        Message::keyed(key, value)
    }
}

impl<'a, const N: usize> From<&'a [u8; N]> for Message<'a> {
    fn from(value: &'a [u8; N]) -> Self {
        Message::new(value)
    }
}

impl<'a> From<&'a Vec<u8>> for Message<'a> {
    fn from(value: &'a Vec<u8>) -> Self {
        Message::new(value)
    }
}

impl<'a> From<&'a String> for Message<'a> {
    fn from(value: &'a String) -> Self {
        Message::new(value.as_bytes())
    }
}

impl<'a> From<(&'a str, &'a str)> for Message<'a> {
    fn from((key, value): (&'a str, &'a str)) -> Self {
        Message::keyed(key.as_bytes(), value.as_bytes())
    }
}

impl<'a> From<&Message<'a>> for Message<'a> {
    fn from(message: &Message<'a>) -> Self {
        *message
    }
}

impl OwnedMessage {
    /// Its headers, borrowed: for [`as_message`](Self::as_message).
    pub fn borrowed_headers(&self) -> Vec<Header<'_>> {
        self.headers.iter().map(|(name, value)| Header { name, value: value.as_deref() }).collect()
    }

    /// The message as it was sent, to be sent again:
    ///
    /// ```
    /// # fn again(producer: &steadfast::Producer, dropped: steadfast::Dropped) -> Result<(), steadfast::SendError> {
    /// let headers = dropped.message.borrowed_headers();
    /// let receipt = producer.send(&dropped.message.topic, dropped.message.as_message(&headers))?;
    /// # drop(receipt);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// The partition goes along: with a key it is the same one anyway, and the order is kept.
    pub fn as_message<'a>(&'a self, headers: &'a [Header<'a>]) -> Message<'a> {
        Message {
            key: self.key.as_deref(),
            value: self.value.as_deref(),
            headers,
            timestamp: Some(self.timestamp),
            partition: self.partition,
        }
    }
}

/// Lengths only: keys and values never get into a log.
impl fmt::Debug for Message<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Message")
            .field("key_bytes", &self.key.map(<[u8]>::len))
            .field("value_bytes", &self.value.map(<[u8]>::len))
            .field("headers", &self.headers.len())
            .field("timestamp", &self.timestamp)
            .field("partition", &self.partition)
            .finish()
    }
}

/// Lengths only: keys and values never get into a log.
impl fmt::Debug for OwnedMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OwnedMessage")
            .field("topic", &self.topic)
            .field("partition", &self.partition)
            .field("key_bytes", &self.key.as_deref().map(<[u8]>::len))
            .field("value_bytes", &self.value.as_deref().map(<[u8]>::len))
            .field("headers", &self.headers.len())
            .field("timestamp", &self.timestamp)
            .finish()
    }
}
