//! Produce 3 to 13: record batches to their leader, and what became of them.

use super::error_code::ErrorCode;
use super::frame::{Frame, Records};
use super::header::{request, Api};
use super::record_batch::HEADER_LEN;
use super::wire::{
    put_count, put_i16, put_i32, put_no_tags, put_null_string, put_string, put_unsigned_varint, Malformed,
    Reader, Uuid,
};

/// A request being built: topics in any order, each followed by its batches.
///
/// How many topics there will be, and how many batches in each, is said beforehand, because the counts go first.
#[derive(Debug)]
pub struct ProduceRequest {
    frame: Frame,
    version: i16,
    flexible: bool,
    topics_left: usize,
    /// Of the topic that was begun last.
    batches_left: usize,
    topic_open: bool,
}

impl ProduceRequest {
    pub fn new(
        version: i16,
        correlation: i32,
        client_id: &str,
        acks: i16,
        timeout_ms: i32,
        topics: usize,
    ) -> ProduceRequest {
        let mut frame = request(Api::Produce, version, correlation, client_id, 32 + topics * 128);
        let flexible = Api::Produce.is_flexible(version);
        let out = frame.framing();
        put_null_string(out, flexible); // no transaction
        put_i16(out, acks);
        put_i32(out, timeout_ms);
        put_count(out, topics, flexible);
        ProduceRequest { frame, version, flexible, topics_left: topics, batches_left: 0, topic_open: false }
    }

    /// Begins a topic. The name is used up to version 12, the id from 13 on.
    pub fn topic(&mut self, name: &str, id: &Uuid, partitions: usize) {
        self.close_topic();
        debug_assert!(self.topics_left > 0, "more topics than announced");
        self.topics_left = self.topics_left.saturating_sub(1);
        self.batches_left = partitions;
        self.topic_open = true;
        let out = self.frame.framing();
        if self.version >= 13 {
            out.extend(id);
        } else {
            put_string(out, name, self.flexible);
        }
        put_count(out, partitions, self.flexible);
    }

    /// Adds a partition with its batch: `header`, then the first `used` bytes of `records`, which are not copied.
    pub fn batch(&mut self, partition: i32, header: &[u8; HEADER_LEN], records: Records, used: usize) {
        debug_assert!(self.batches_left > 0, "more partitions than announced");
        self.batches_left = self.batches_left.saturating_sub(1);
        let len = HEADER_LEN + used;
        let out = self.frame.framing();
        put_i32(out, partition);
        if self.flexible {
            put_unsigned_varint(out, len as u32 + 1);
        } else {
            put_i32(out, len as i32);
        }
        out.extend(header);
        self.frame.insert(records, used);
        put_no_tags(self.frame.framing(), self.flexible);
    }

    pub fn finish(mut self) -> Frame {
        self.close_topic();
        debug_assert_eq!(self.topics_left, 0, "fewer topics than announced");
        put_no_tags(self.frame.framing(), self.flexible);
        self.frame.finish()
    }

    fn close_topic(&mut self) {
        if std::mem::take(&mut self.topic_open) {
            debug_assert_eq!(self.batches_left, 0, "fewer partitions than announced");
            put_no_tags(self.frame.framing(), self.flexible);
        }
    }
}

/// A broker's answer; it borrows from the frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProduceResponse<'a> {
    pub partitions: Vec<PartitionResponse<'a>>,
    pub throttle_ms: i32,
    /// Where the leaders named in `partitions` are to be found (version 10 and later).
    pub endpoints: Vec<Endpoint>,
}

/// How a response names a topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TopicRef<'a> {
    /// Up to version 12.
    Name(&'a str),
    /// From version 13 on.
    Id(Uuid),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionResponse<'a> {
    pub topic: TopicRef<'a>,
    pub partition: i32,
    pub error: ErrorCode,
    /// Of the batch's first record; -1: unknown.
    pub base_offset: i64,
    /// The broker's timestamp where it set its own, else -1.
    pub append_time: i64,
    /// -1: unknown (before version 5, and with errors).
    pub log_start_offset: i64,
    /// Places in the batch of the records that spoiled it, each with the broker's words. As they were sent: a place may be
    /// named twice or be outside of the batch.
    pub record_errors: Vec<(i32, Option<&'a str>)>,
    pub message: Option<&'a str>,
    /// Id and epoch of the leader, where the broker named one.
    pub current_leader: Option<(i32, i32)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    pub id: i32,
    pub host: String,
    /// As it was sent: not every number is a port.
    pub port: i32,
}

pub fn decode(body: &[u8], version: i16) -> Result<ProduceResponse<'_>, Malformed> {
    let flexible = Api::Produce.is_flexible(version);
    let mut reader = Reader::new(body, flexible);
    let mut partitions = Vec::new();
    for _ in 0..reader.count(if flexible { 3 } else { 6 }, "topics")? {
        let topic = if version >= 13 {
            TopicRef::Id(reader.uuid("topic's id")?)
        } else {
            TopicRef::Name(reader.string("topic's name")?)
        };
        for _ in 0..reader.count(22, "partitions")? {
            partitions.push(partition(&mut reader, topic, version)?);
        }
        reader.skip_tags()?;
    }
    let throttle_ms = reader.i32("throttle time")?;
    let mut endpoints = Vec::new();
    reader.tags(|tag, field| {
        if tag == 0 && version >= 10 {
            endpoints = field.items(11, "endpoints", endpoint)?;
            field.clone().end("endpoints")?;
        }
        Ok(())
    })?;
    reader.end("Produce response")?;
    Ok(ProduceResponse { partitions, throttle_ms, endpoints })
}

fn partition<'a>(
    reader: &mut Reader<'a>,
    topic: TopicRef<'a>,
    version: i16,
) -> Result<PartitionResponse<'a>, Malformed> {
    let mut response = PartitionResponse {
        topic,
        partition: reader.i32("partition's index")?,
        error: ErrorCode::from(reader.i16("error code")?),
        base_offset: reader.i64("base offset")?,
        append_time: reader.i64("append time")?,
        log_start_offset: if version >= 5 { reader.i64("log start offset")? } else { -1 },
        record_errors: Vec::new(),
        message: None,
        current_leader: None,
    };
    if version >= 8 {
        response.record_errors = reader.items(5, "record errors", |reader| {
            let error = (reader.i32("record's place")?, reader.nullable_string("record's error")?);
            reader.skip_tags()?;
            Ok(error)
        })?;
        response.message = reader.nullable_string("error message")?;
    }
    reader.tags(|tag, field| {
        if tag == 0 && version >= 10 {
            let leader = (field.i32("current leader")?, field.i32("current leader's epoch")?);
            field.skip_tags()?;
            field.clone().end("current leader")?;
            response.current_leader = (leader.0 >= 0).then_some(leader);
        }
        Ok(())
    })?;
    Ok(response)
}

fn endpoint(reader: &mut Reader<'_>) -> Result<Endpoint, Malformed> {
    let endpoint = Endpoint {
        id: reader.i32("endpoint's broker id")?,
        host: reader.string("endpoint's host")?.to_owned(),
        port: reader.i32("endpoint's port")?,
    };
    reader.nullable_string("endpoint's rack")?;
    reader.skip_tags()?;
    Ok(endpoint)
}
