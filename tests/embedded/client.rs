//! A client made of the `kafka-protocol` crate alone: no code of the producer is in it.

use bytes::{Bytes, BytesMut};
use kafka_protocol::messages::produce_request::{PartitionProduceData, ProduceRequest, TopicProduceData};
use kafka_protocol::messages::*;
use kafka_protocol::protocol::{Decodable, Encodable, HeaderVersion, Request, StrBytes};
use kafka_protocol::records::{Compression, Record, RecordBatchEncoder, RecordEncodeOptions, TimestampType};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// A request's frame, without its length.
pub fn encode<R: Request>(request: &R, version: i16, correlation: i32) -> Bytes {
    let mut bytes = BytesMut::new();
    let header = RequestHeader::default()
        .with_request_api_key(R::KEY)
        .with_request_api_version(version)
        .with_correlation_id(correlation)
        .with_client_id(Some(StrBytes::from_static_str("witness")));
    header.encode(&mut bytes, R::header_version(version)).expect("a header");
    request.encode(&mut bytes, version).expect("a request");
    bytes.freeze()
}

/// A response's correlation id and body, from its frame without the length.
pub fn decode<R: Request>(frame: &[u8], version: i16) -> (i32, R::Response) {
    let mut bytes = Bytes::copy_from_slice(frame);
    let header = ResponseHeader::decode(&mut bytes, R::Response::header_version(version)).expect("a header");
    let body = R::Response::decode(&mut bytes, version).expect("a response");
    assert!(bytes.is_empty(), "{} bytes behind the response", bytes.len());
    (header.correlation_id, body)
}

/// A batch to send.
#[derive(Clone)]
pub struct Batch {
    pub producer: (i64, i16, i32),
    pub records: Vec<(Option<&'static str>, Option<&'static str>)>,
    pub timestamp: i64,
    pub compression: Compression,
}

/// So many records with keys and values, without a producer id.
pub fn batch(count: usize) -> Batch {
    let records = vec![(Some("key"), Some("value")); count];
    Batch { producer: (-1, -1, -1), records, timestamp: 1_700_000_000_000, compression: Compression::None }
}

impl Batch {
    pub fn by(mut self, producer_id: i64, epoch: i16, sequence: i32) -> Batch {
        self.producer = (producer_id, epoch, sequence);
        self
    }

    pub fn encode(&self) -> Bytes {
        let bytes = |text: Option<&'static str>| text.map(|text| Bytes::from_static(text.as_bytes()));
        let (producer_id, producer_epoch, sequence) = self.producer;
        let records: Vec<_> = (0..)
            .zip(&self.records)
            .map(|(index, &(key, value))| Record {
                transactional: false,
                control: false,
                delete_horizon: false,
                partition_leader_epoch: -1,
                producer_id,
                producer_epoch,
                timestamp_type: TimestampType::Creation,
                offset: i64::from(index),
                sequence: sequence.wrapping_add(index), // how it says that they are one batch
                timestamp: self.timestamp + i64::from(index),
                key: bytes(key),
                value: bytes(value),
                headers: Default::default(),
            })
            .collect();
        let options = RecordEncodeOptions { version: 2, compression: self.compression };
        let mut out = BytesMut::new();
        RecordBatchEncoder::encode(&mut out, &records, &options).expect("a batch");
        out.freeze()
    }
}

/// A produce request by topic name (up to v12) of one batch.
pub fn produce(topic: &str, partition: i32, records: Bytes, acks: i16) -> ProduceRequest {
    let data = PartitionProduceData::default().with_index(partition).with_records(Some(records));
    let name = TopicName(StrBytes::from_string(topic.to_owned()));
    let topic = TopicProduceData::default().with_name(name).with_partition_data(vec![data]);
    ProduceRequest::default().with_acks(acks).with_timeout_ms(1000).with_topic_data(vec![topic])
}

/// A metadata request for these topics.
pub fn metadata(topics: &[&str], create: bool) -> MetadataRequest {
    let topics = topics.iter().map(|topic| {
        let name = TopicName(StrBytes::from_string((*topic).to_owned()));
        metadata_request::MetadataRequestTopic::default().with_name(Some(name))
    });
    MetadataRequest::default().with_topics(Some(topics.collect())).with_allow_auto_topic_creation(create)
}

/// A connection to a broker. Whatever takes longer than ten seconds fails the test.
pub struct Connection {
    pub socket: TcpStream,
    correlation: i32,
}

impl Connection {
    pub fn open(address: SocketAddr) -> Connection {
        let socket = TcpStream::connect(address).expect("a broker listens");
        socket.set_read_timeout(Some(Duration::from_secs(10))).expect("a timeout");
        Connection { socket, correlation: 100 }
    }

    pub fn send<R: Request>(&mut self, request: &R, version: i16) {
        self.correlation += 1;
        let frame = encode(request, version, self.correlation);
        self.socket.write_all(&(frame.len() as i32).to_be_bytes()).expect("written");
        self.socket.write_all(&frame).expect("written");
    }

    /// The next frame; None: the connection was closed.
    pub fn frame(&mut self) -> Option<Vec<u8>> {
        let mut length = [0; 4];
        match self.socket.read_exact(&mut length) {
            Ok(()) => {}
            Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => panic!("no answer within 10 s"),
            Err(_) => return None,
        }
        let mut frame = vec![0; i32::from_be_bytes(length) as usize];
        self.socket.read_exact(&mut frame).ok().map(|()| frame)
    }

    pub fn receive<R: Request>(&mut self, version: i16) -> Option<R::Response> {
        let (correlation, response) = decode::<R>(&self.frame()?, version);
        assert_eq!(correlation, self.correlation);
        Some(response)
    }

    pub fn call<R: Request>(&mut self, request: &R, version: i16) -> Option<R::Response> {
        self.send(request, version);
        self.receive::<R>(version)
    }

    /// Code and base offset of a batch for partition 0 of "t".
    pub fn produce(&mut self, batch: &Batch) -> Option<(i16, i64)> {
        let response = self.call(&produce("t", 0, batch.encode(), -1), 9)?;
        let partition = &response.responses[0].partition_responses[0];
        Some((partition.error_code, partition.base_offset))
    }
}
